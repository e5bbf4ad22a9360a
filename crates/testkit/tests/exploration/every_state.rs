//! Every state of the small workflows.

use protocol::steps::{Document, Status, Steps};
use testkit::explorer::steps::Shape;
use testkit::explorer::{Limits, Scene, Slots};

use crate::all::{counts, explore_all, sum};
use crate::files::{must_hold, must_show};
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

#[test]
fn every_state_keeps_the_rules() {
    let mut scenes: Vec<(Scene<Steps>, Limits)> = Vec::new();
    for (shape, requests) in EXPLORED {
        for policy in POLICIES {
            // Where no two steps can ever be at work at once, one place is as good as all.
            let places = if shape.is_a_line() { &[Slots::All][..] } else { &[Slots::One, Slots::All] };
            for places in places.iter().copied() {
                scenes.push((scene(shape, policy, places), Limits::with_requests(requests)));
            }
        }
    }
    let explored = explore_all(&scenes);
    must_hold("protocols/steps/counts.md", &counts("workflow, policy, places", &scenes, &explored));
    let about = "`steps`: 12 shapes of workflows, three policies, one place and all";
    must_show("exploration.md", "counts of steps", &sum(about, &explored));
}

/// An engine gives places with what it decides itself, and otherwise in an entry of their own: it may be killed between
/// the two.
#[test]
fn places_that_are_given_in_entries_of_their_own_keep_the_rules_too() {
    let shapes = [(&ONE, 2), (&PAIR, 1), (&LINE, 1), (&GATE, 1), (&FORK, 0), (&SIBLING, 0)];
    let scene = |shape| scene(shape, POLICIES[0], Slots::One).scheduling_apart();
    let scenes = shapes.map(|(shape, requests)| (scene(shape), Limits::with_requests(requests)));
    let states: usize = explore_all(&scenes).iter().map(|seen| seen.states).sum();
    assert!(states > 1_000, "{states} states are not what these workflows have");
}

#[test]
fn an_exploration_that_grows_too_large_fails_and_says_so() {
    let limits = Limits { states: 10, ..Limits::with_requests(2) };
    let found = scene(&PAIR, POLICIES[0], Slots::All).explore(limits).unwrap_err();
    assert_eq!(found.broken[0].rule, "the states are few");
}

#[test]
fn a_counter_example_tells_the_shortest_way_there() {
    let nobody_fails = |document: &Document| {
        let failed = document.steps.iter().filter(|(_, step)| step.status == Status::Failed);
        failed.map(|(id, _)| format!("`{id}` failed")).collect()
    };
    let definition = LINE.definition(POLICIES[0], ITERATIONS);
    let scene: Scene<Steps> = Scene::new("line, stop", definition, Slots::All, nobody_fails);
    let found = scene.explore(Limits::with_requests(1)).unwrap_err();
    insta::assert_snapshot!(found, @r"
    `the document keeps its rules` is broken: `a` failed
    in `line, stop, all places`, on this path:
       0  (opens)       open        a▶ b· c·
       1  a fails       open        az-1 b· c·
       2  a has rested  open        a▶-1 b· c·
       3  a fails       FAILED a✗ b· c·
    ");
}
