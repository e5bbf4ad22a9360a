//! Many processes that write the same document at the same time.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};
use testkit::TestEnv;

use super::{WAITS, cycle, get, history, patch, planning, sequence};

#[test]
fn of_eight_patches_of_one_sequence_exactly_one_is_applied() {
    let test_env = cycle(WAITS);
    let (engine, mut gate) = planning(&test_env);
    let read = sequence(&test_env);
    let answers: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let test_env = &test_env;
                scope.spawn(move || {
                    let set = format!("/phases/plan/output/winner={number}");
                    let session = patch(test_env, read, &["--set", &set]);
                    (session.code, session.json())
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let won = answers.iter().filter(|(code, _)| *code == 0).count();
    let lost =
        answers.iter().filter(|(code, answer)| *code == 3 && answer["kind"] == "sequence_conflict").count();
    assert_eq!((won, lost), (1, 7), "{answers:?}");
    assert_eq!(sequence(&test_env), read + 1);
    gate.open();
    assert_eq!(engine.wait().code, 0);
}

const WRITERS: usize = 16;
const PATCHES: usize = 3;

/// What a writer does after a conflict.
#[derive(Clone, Copy)]
enum Loser {
    TriesAgain,
    GoesOn,
}

/// Starts the writers on the phase in progress, and counts applied patches and conflicts.
fn write(test_env: &TestEnv, loser: Loser) -> (usize, usize) {
    let counts: Vec<(usize, usize)> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write_as(test_env, writer, loser))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    counts
        .into_iter()
        .fold((0, 0), |(applied, conflicts), (more, others)| (applied + more, conflicts + others))
}

fn write_as(test_env: &TestEnv, writer: usize, loser: Loser) -> (usize, usize) {
    let (mut applied, mut conflicts) = (0, 0);
    let mut known = sequence(test_env);
    for number in 0..PATCHES {
        loop {
            let set = format!("/phases/plan/output/writer-{writer}={number}");
            let session = patch(test_env, known, &["--set", &set]);
            let answer = session.json();
            // The loser gets the current document.
            known = answer["sequence"].as_u64().or(answer["found"].as_u64()).unwrap();
            if session.code == 0 {
                assert_eq!(answer["written"], true, "no other process writes this: {answer}");
                applied += 1;
                break;
            }
            assert_eq!((session.code, &answer["kind"]), (3, &json!("sequence_conflict")), "{answer}");
            conflicts += 1;
            match loser {
                Loser::TriesAgain => {}
                Loser::GoesOn => break,
            }
        }
    }
    (applied, conflicts)
}

fn of_writers(test_env: &TestEnv) -> Vec<Value> {
    history(test_env)
        .into_iter()
        .filter(|write| write["by"] == "tester" && write["event"] == "progress")
        .collect()
}

#[test]
fn sixteen_processes_lose_none_of_their_patches() {
    let test_env = cycle(WAITS);
    let (engine, mut gate) = planning(&test_env);
    let before = sequence(&test_env);
    let (applied, _) = write(&test_env, Loser::TriesAgain);
    assert_eq!(applied, WRITERS * PATCHES);
    assert_eq!(sequence(&test_env), before + (WRITERS * PATCHES) as u64);
    let writes = of_writers(&test_env);
    assert_eq!(writes.len(), WRITERS * PATCHES);
    let numbers: BTreeSet<_> = writes.iter().map(|write| write["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), writes.len(), "each once");
    let output = get(&test_env)["document"]["phases"]["plan"]["output"].clone();
    for writer in 0..WRITERS {
        assert_eq!(output[format!("writer-{writer}")], PATCHES - 1, "the last of each");
    }
    gate.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn without_retries_every_patch_is_applied_or_reported_as_a_conflict() {
    let test_env = cycle(WAITS);
    let (engine, mut gate) = planning(&test_env);
    let before = sequence(&test_env);
    let (applied, conflicts) = write(&test_env, Loser::GoesOn);
    assert_eq!(applied + conflicts, WRITERS * PATCHES);
    assert_eq!(sequence(&test_env), before + applied as u64);
    assert_eq!(of_writers(&test_env).len(), applied);
    gate.open();
    assert_eq!(engine.wait().code, 0);
}
