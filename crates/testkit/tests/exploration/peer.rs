//! `peer`, explored: every state of a cycle, new, continued or begun elsewhere; and what was seen, for people.

use protocol::peer::{Definition, Peer};
use testkit::explorer::peer::{LEGEND, adopted, continued, cycle, global, places, scene};
use testkit::explorer::{Course, Exploration, Limits, Scene};

use crate::all::{counts, explore_all};
use crate::files::{must_hold, must_show};

/// Requests on a path, and writings into the document.
fn limits() -> Limits {
    Limits::with_requests(2)
}

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
        scene.name.push_str(", places apart");
        scene.seating_apart()
    })
}

#[test]
fn every_state_of_a_cycle_keeps_the_rules() {
    let scenes: Vec<_> = scenes().into_iter().chain(apart(scenes())).map(|scene| (scene, limits())).collect();
    let explored = explore_all(&scenes);
    must_hold("protocols/peer/counts.md", &counts("cycle", &scenes, &explored));
    let mut course = Course::default();
    explored.iter().for_each(|seen| course.add(seen));
    let diagram = format!("```mermaid\n{}```\n", course.diagram(&places()));
    must_show("peer.md", "course of a cycle", &diagram);
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
        &explored.table("A new cycle. One try, one request.", LEGEND),
    );
}

#[test]
fn a_cycle_that_continues_a_failed_one() {
    let explored = explored(continued(2, 1), 1);
    let about = "Continues a cycle whose plan and execution were completed. One try, one request.";
    must_hold("protocols/peer/continued.txt", &explored.table(about, LEGEND));
}
