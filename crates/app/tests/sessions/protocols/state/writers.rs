//! Many processes that write the same document at the same time.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};
use testkit::TestEnv;

use super::{WAIT_AT_BARRIER, get, history, open_cycle, patch, sequence, start_planner};

#[test]
fn of_eight_patches_of_one_sequence_exactly_one_is_applied() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
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
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

const WRITERS: usize = 16;
const PATCHES: usize = 3;

/// Makes the patches of one writer on the phase in progress, and repeats each until it is applied.
fn run_writer(test_env: &TestEnv, writer: usize) {
    let mut expected_sequence = sequence(test_env);
    for number in 0..PATCHES {
        loop {
            let set = format!("/phases/plan/output/writer-{writer}={number}");
            let session = patch(test_env, expected_sequence, &["--set", &set]);
            let answer = session.json();
            // A conflict returns the current sequence in `found`.
            expected_sequence = answer["sequence"].as_u64().or(answer["found"].as_u64()).unwrap();
            if session.code == 0 {
                assert_eq!(answer["written"], true, "no other process writes this: {answer}");
                break;
            }
            assert_eq!((session.code, &answer["kind"]), (3, &json!("sequence_conflict")), "{answer}");
        }
    }
}

/// Returns the writes of the writers in the history.
fn writes_by_writers(test_env: &TestEnv) -> Vec<Value> {
    history(test_env)
        .into_iter()
        .filter(|write| write["by"] == "tester" && write["event"] == "progress")
        .collect()
}

#[test]
fn sixteen_processes_lose_none_of_their_patches() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let before = sequence(&test_env);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let test_env = &test_env;
            scope.spawn(move || run_writer(test_env, writer));
        }
    });
    assert_eq!(sequence(&test_env), before + (WRITERS * PATCHES) as u64);
    let writes = writes_by_writers(&test_env);
    assert_eq!(writes.len(), WRITERS * PATCHES);
    let numbers: BTreeSet<_> = writes.iter().map(|write| write["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), writes.len(), "no sequence twice");
    let output = get(&test_env)["document"]["phases"]["plan"]["output"].clone();
    for writer in 0..WRITERS {
        assert_eq!(output[format!("writer-{writer}")], PATCHES - 1, "the last of each");
    }
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}
