//! Every state of the small workflows.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use protocol::steps::{Document, Status, Steps};
use testkit::explorer::steps::Shape;
use testkit::explorer::{CounterExample, Exploration, Limits, Places, Scene};

use crate::files::must_hold;
use crate::shapes::{CROSSED, FORK, GATE, GATHERED, JOIN, LINE, NESTED, ONE, PAIR, SIBLING, SIX, UNRELATED};
use crate::{ITERATIONS, POLICIES, scene};

/// How many requests there may be on a path: two where the states are few enough.
const EXPLORED: [(&Shape, usize); 12] = [
    (&ONE, 2),
    (&PAIR, 2),
    (&LINE, 2),
    (&GATE, 2),
    (&FORK, 1),
    (&NESTED, 1),
    (&GATHERED, 0),
    (&CROSSED, 0),
    (&SIBLING, 1),
    (&JOIN, 0),
    (&UNRELATED, 0),
    (&SIX, 0),
];

type Explored = Result<Exploration, CounterExample>;

#[test]
fn every_state_keeps_the_rules() {
    let mut scenes: Vec<(Scene<Steps>, usize)> = Vec::new();
    for (shape, requests) in EXPLORED {
        for policy in POLICIES {
            // Where no two steps can ever be at work at once, one place is as good as all.
            let places = if shape.is_a_line() { &[Places::All][..] } else { &[Places::One, Places::All] };
            for places in places.iter().copied() {
                scenes.push((scene(shape, policy, places), requests));
            }
        }
    }
    let explored = explore_all(&scenes);
    let found: Vec<_> = explored.iter().filter_map(|explored| explored.as_ref().err()).collect();
    assert!(found.is_empty(), "{} of {} explorations broke:\n{}", found.len(), scenes.len(), found[0]);
    must_hold("counts.md", &counts(&scenes, &explored));
}

/// Explores on all processors.
fn explore_all(scenes: &[(Scene<Steps>, usize)]) -> Vec<Explored> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some((scene, requests)) = scenes.get(at) else { break };
                    let explored = scene.explore(Limits::with_requests(*requests));
                    done.lock().expect("no worker panics while it holds this").push((at, explored));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics while it holds this");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, explored)| explored).collect()
}

fn counts(scenes: &[(Scene<Steps>, usize)], explored: &[Explored]) -> String {
    let mut text = "| workflow, policy, places | requests | states | transitions | refusals | longest |\n|---|--:|--:|--:|--:|--:|\n".to_owned();
    let (mut states, mut transitions, mut refusals) = (0, 0, 0);
    for ((_, requests), explored) in scenes.iter().zip(explored) {
        let Ok(seen) = explored else { continue };
        states += seen.states;
        transitions += seen.transitions;
        refusals += seen.refusals;
        let _ = writeln!(
            text,
            "| {} | {requests} | {} | {} | {} | {} |",
            seen.scene, seen.states, seen.transitions, seen.refusals, seen.longest
        );
    }
    let _ = writeln!(text, "| **all** | | **{states}** | **{transitions}** | **{refusals}** | |");
    text
}

#[test]
fn an_exploration_that_grows_too_large_fails_and_says_so() {
    let limits = Limits { states: 10, ..Limits::with_requests(2) };
    let found = scene(&PAIR, POLICIES[0], Places::All).explore(limits).unwrap_err();
    assert_eq!(found.broken[0].rule, "the states are few");
}

#[test]
fn a_counter_example_tells_the_shortest_way_there() {
    let nobody_fails = |document: &Document| {
        let failed = document.steps.iter().filter(|(_, step)| step.status == Status::Failed);
        failed.map(|(id, _)| format!("`{id}` failed")).collect()
    };
    let definition = LINE.definition(POLICIES[0], ITERATIONS);
    let scene: Scene<Steps> = Scene::new("line, stop", definition, Places::All, nobody_fails);
    let found = scene.explore(Limits::with_requests(1)).unwrap_err();
    insta::assert_snapshot!(found, @r"
    `the document keeps its rules` is broken: `a` failed
    in `line, stop, all places`, on this path:
       0  (opens)       open        a▶ b· c·
       1  a fails       open        az-1 b· c·
       2  a has rested  open        a▶-1 b· c·
       3  a fails       UNDELIVERED a✗ b· c·
    ");
}
