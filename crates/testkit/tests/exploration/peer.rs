//! `peer`, explored: every state of a cycle, new, continued or begun elsewhere; and what was seen, for people.

use protocol::peer::{Definition, Peer};
use testkit::explorer::peer::{LEGEND, adopted, continued, cycle, global, scene, slots};
use testkit::explorer::{Course, Exploration, Limits, Scene, Walked, Walks};

use crate::all::{counts, explore_all, sum};
use crate::files::{must_hold, must_show};

fn scenes() -> Vec<Scene<Peer>> {
    let mut scenes: Vec<_> =
        (1..=3).map(|tries| scene(&format!("new, tries: {tries}"), cycle(tries))).collect();
    scenes.push(scene("about no spec", global(2)));
    scenes.extend((1..=3).map(|reused| scene(&format!("continues, reuses: {reused}"), continued(reused, 2))));
    scenes.extend(adopted(2));
    scenes
}

fn apart(scenes: Vec<Scene<Peer>>) -> impl Iterator<Item = Scene<Peer>> {
    scenes.into_iter().map(|mut scene| {
        scene.name.push_str(", slots apart");
        scene.scheduling_apart()
    })
}

/// What is written into the document comes on top: one writing, one request.
fn written() -> Vec<Scene<Peer>> {
    let elsewhere = adopted(1).into_iter().filter(|scene| scene.name.ends_with("execute in_progress"));
    let mut scenes = vec![scene("new, tries: 2", cycle(2)), scene("continues, reuses: 2", continued(2, 1))];
    scenes.extend(elsewhere);
    for scene in &mut scenes {
        scene.name.push_str(", written to");
    }
    scenes
}

#[test]
fn every_state_of_a_cycle_keeps_the_rules() {
    let all = scenes().into_iter().chain(apart(scenes())).map(|scene| (scene, Limits::with_requests(2)));
    let written = written().into_iter().map(|scene| (scene, Limits::with_requests(1).and_writings(1)));
    let scenes: Vec<_> = all.chain(written).collect();
    let explored = explore_all(&scenes);
    must_hold("protocols/peer/counts.md", &counts("cycle", &scenes, &explored));
    let about = "`peer`: cycles that are new, continued, begun elsewhere, written to";
    must_show("exploration.md", "counts of peer", &sum(about, &explored));
    let mut course = Course::default();
    explored.iter().for_each(|seen| course.add(seen));
    let diagram = format!("```mermaid\n{}```\n", course.diagram(&slots()));
    must_show("peer.md", "course of a cycle", &diagram);
}

#[test]
fn long_walks_through_cycles_with_many_writings_keep_the_rules_and_end() {
    let mut all = Walked::default();
    for scene in
        [scene("new, tries: 6", cycle(6)), scene("about no spec, apart", global(3)).scheduling_apart()]
    {
        let walks = Walks { seed: 7, count: 20, requests: 4, writings: 150, longest: 1_000 };
        let walked = scene.walk(walks).unwrap_or_else(|found| panic!("{found}"));
        all.inputs += walked.inputs;
        all.succeeded += walked.succeeded;
        all.failed += walked.failed;
    }
    assert!(all.succeeded > 5 && all.failed > 5, "walks that all end alike show little: {all:?}");
}

fn explored(definition: Definition, requests: usize) -> Exploration {
    let explored = scene("cycle", definition).explore(Limits::to_print(requests));
    explored.unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn a_new_cycle() {
    let explored = explored(cycle(2), 0);
    must_hold("protocols/peer/cycle.txt", &explored.table("A new cycle. Two tries.", LEGEND));
    must_hold("protocols/peer/cycle.mmd", &explored.diagram());
}

#[test]
fn a_new_cycle_and_one_request() {
    let explored = explored(cycle(1), 1);
    must_hold(
        "protocols/peer/cycle-asked.txt",
        &explored.table("A new cycle. One attempt, one request.", LEGEND),
    );
}

#[test]
fn a_cycle_that_continues_a_failed_one() {
    let explored = explored(continued(2, 1), 1);
    let about = "Continues a cycle whose plan and execution were completed. One attempt, one request.";
    must_hold("protocols/peer/continued.txt", &explored.table(about, LEGEND));
}

#[test]
fn what_may_be_written_and_by_whom() {
    let explored = scene("cycle", cycle(1)).explore(Limits::to_print(0).and_writings(1));
    let explored = explored.unwrap_or_else(|found| panic!("{found}"));
    let about = "A new cycle, and what could be written into its document. One attempt, one writing.";
    must_hold("protocols/peer/written.txt", &explored.table(about, LEGEND));
}
