//! `kill -9` at random moments, as a test, on either store. `scripts/torture` runs it long.

use testkit::torture::Torture;

/// Returns the number in an environment variable, or `default` if it is not set.
fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("CALLBOARD_TORTURE_* are numbers"))
}

#[test]
fn nothing_is_lost_or_repeated_whatever_is_killed() {
    let torture = Torture {
        program: env!("CARGO_BIN_EXE_callboard").into(),
        // A protocol of the tests, whose steps are people and effects.
        items: crate::items_program(),
        // A killed server costs seconds: a client without an answer has to find out whether its write was committed.
        kills: u32::try_from(env_number(
            "CALLBOARD_TORTURE_KILLS",
            if testkit::on_nats() { 40 } else { 100 },
        ))
        .unwrap(),
        seed: env_number("CALLBOARD_TORTURE_SEED", 1),
    };
    let tally = torture.run();
    println!("{tally}");
    assert!(tally.engine_kills > 0 && tally.adopted > 0, "it killed without effect: {tally}");
    assert_eq!(tally.items_runs > 0, !testkit::on_nats(), "people and effects were left out: {tally}");
    assert!(tally.worktree_runs > 0 || testkit::on_nats(), "merges were left out: {tally}");
    assert!(tally.phase_runs > 0, "people, conditions, checks and data loops were left out: {tally}");
    assert!(
        tally.issue_runs > 0 || testkit::on_nats(),
        "effects on git and on a tracker were left out: {tally}"
    );
    assert!(tally.team_runs > 0, "groups and their merges were left out: {tally}");
    assert_eq!(tally.server_kills > 0, testkit::on_nats(), "{tally}");
}
