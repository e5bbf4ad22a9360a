//! Many processes that write the same document at the same time.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};
use testkit::Scene;

use super::{WAITS, cycle, get, history, patch, planning, sequence};

#[test]
fn of_eight_patches_of_one_sequence_exactly_one_is_applied() {
    let scene = cycle(WAITS);
    let (engine, mut gate) = planning(&scene);
    let read = sequence(&scene);
    let answers: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let scene = &scene;
                scope.spawn(move || {
                    let set = format!("/phases/plan/output/winner={number}");
                    let session = patch(scene, read, &["--set", &set]);
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
    assert_eq!(sequence(&scene), read + 1);
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
fn write(scene: &Scene, loser: Loser) -> (usize, usize) {
    let counts: Vec<(usize, usize)> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write_as(scene, writer, loser))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    counts
        .into_iter()
        .fold((0, 0), |(applied, conflicts), (more, others)| (applied + more, conflicts + others))
}

fn write_as(scene: &Scene, writer: usize, loser: Loser) -> (usize, usize) {
    let (mut applied, mut conflicts) = (0, 0);
    let mut known = sequence(scene);
    for number in 0..PATCHES {
        loop {
            let set = format!("/phases/plan/output/writer-{writer}={number}");
            let session = patch(scene, known, &["--set", &set]);
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

fn of_writers(scene: &Scene) -> Vec<Value> {
    history(scene)
        .into_iter()
        .filter(|write| write["by"] == "tester" && write["event"] == "progress")
        .collect()
}

#[test]
fn sixteen_processes_lose_none_of_their_patches() {
    let scene = cycle(WAITS);
    let (engine, mut gate) = planning(&scene);
    let before = sequence(&scene);
    let (applied, _) = write(&scene, Loser::TriesAgain);
    assert_eq!(applied, WRITERS * PATCHES);
    assert_eq!(sequence(&scene), before + (WRITERS * PATCHES) as u64);
    let writes = of_writers(&scene);
    assert_eq!(writes.len(), WRITERS * PATCHES);
    let numbers: BTreeSet<_> = writes.iter().map(|write| write["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), writes.len(), "each once");
    let output = get(&scene)["document"]["phases"]["plan"]["output"].clone();
    for writer in 0..WRITERS {
        assert_eq!(output[format!("writer-{writer}")], PATCHES - 1, "the last of each");
    }
    gate.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn without_retries_every_patch_is_applied_or_reported_as_a_conflict() {
    let scene = cycle(WAITS);
    let (engine, mut gate) = planning(&scene);
    let before = sequence(&scene);
    let (applied, conflicts) = write(&scene, Loser::GoesOn);
    assert_eq!(applied + conflicts, WRITERS * PATCHES);
    assert_eq!(sequence(&scene), before + applied as u64);
    assert_eq!(of_writers(&scene).len(), applied);
    gate.open();
    assert_eq!(engine.wait().code, 0);
}
