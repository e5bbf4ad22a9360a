//! `team`, explored: one group in full, two for interference, all documents by the schemas of the seed.

use protocol::team::Team;
use testkit::explorer::team::{Plan, scene};
use testkit::explorer::{Exploration, Interruptions, Limits, Scene, Slots, Walks};

use super::generated_files::expect_section;

fn explored(scene: &Scene<Team>, limits: Limits) -> Exploration {
    scene.explore(limits).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn every_state_of_one_group_keeps_the_rules() {
    let without = Limits { interruptions: Interruptions::Never, ..Limits::with_requests(0) };
    let seen = explored(&scene(Plan::OneTurn, Slots::All), without);
    expect_section(
        "team.md",
        "explored one group",
        &format!("One group: {} states, {} transitions.\n", seen.states, seen.transitions),
    );
}

#[test]
fn every_state_of_two_groups_keeps_the_rules() {
    let two = explored(
        &scene(Plan::Two, Slots::All),
        Limits { interruptions: Interruptions::Never, ..Limits::with_requests(0) },
    );
    let chain = explored(&scene(Plan::Chain, Slots::One), Limits::with_requests(0));
    expect_section(
        "team.md",
        "explored two groups",
        &format!(
            "Two groups at once: {} states, {} transitions. One group after the other: {} states, {} transitions.\n",
            two.states, two.transitions, chain.states, chain.transitions
        ),
    );
}

#[test]
fn long_walks_keep_the_rules_and_end() {
    let walks = Walks { seed: 11, count: 30, requests: 6, writes: 0, longest: 2_000 };
    let walked = scene(Plan::Two, Slots::All).walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded > 1 && walked.failed > 1, "the walks should end in different ways: {walked:?}");
}
