//! `kill -9` at random moments, as a test, on either store. `scripts/torture` runs it long.

use testkit::torture::{KILLS_PER_TRIAL, Tally, Torture};

/// Returns the number in an environment variable, or `default` if it is not set.
fn env_number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("CALLBOARD_TORTURE_* are numbers"))
}

/// With this many kills there are trials of all kinds, whatever the seed: any 42 seeds in a row have all kinds.
const KILLS_FOR_ALL_KINDS: u32 = 42 * KILLS_PER_TRIAL;

/// How many more trials are made until an engine has adopted an attempt.
const MORE_TRIALS: u64 = 5;

#[test]
fn nothing_is_lost_or_repeated_whatever_is_killed() {
    // A killed server costs seconds: a client without an answer has to find out whether its write was committed.
    // Seeds 6 to 13 have all kinds.
    let (default_kills, default_seed) = (if testkit::on_nats() { 40 } else { 100 }, 6);
    let torture = Torture {
        program: env!("CARGO_BIN_EXE_callboard").into(),
        // A protocol of the tests, whose steps are people and effects.
        items: crate::items_program(),
        kills: u32::try_from(env_number("CALLBOARD_TORTURE_KILLS", default_kills)).unwrap(),
        seed: env_number("CALLBOARD_TORTURE_SEED", default_seed),
    };
    let mut tally = torture.run();
    println!("{tally}");
    let is_default = (u64::from(torture.kills), torture.seed) == (default_kills, default_seed);
    // On a busy machine all of the few kills may come before an attempt has started, which leaves nothing to adopt.
    for more in 1..=MORE_TRIALS {
        if !is_default || tally.adopted > 0 {
            break;
        }
        let trial = Torture { kills: KILLS_PER_TRIAL, seed: default_seed + 100 * more, ..torture.clone() };
        tally.adopted += trial.run().adopted;
    }
    // With another seed and few kills a failed trial is repeated, which is of one kind.
    if is_default || torture.kills >= KILLS_FOR_ALL_KINDS {
        expect_all_kinds(&tally);
    }
}

fn expect_all_kinds(tally: &Tally) {
    let on_nats = testkit::on_nats();
    assert!(tally.engine_kills > 0 && tally.adopted > 0, "it killed without effect: {tally}");
    assert_eq!(tally.server_kills > 0, on_nats, "{tally}");
    assert!(tally.peer_cycles > 0, "peer cycles were left out: {tally}");
    assert!(tally.issue_runs > 0, "effects on git and on a tracker were left out: {tally}");
    assert!(tally.team_runs > 0, "groups and their merges were left out: {tally}");
    assert!(tally.data_loop_runs > 0, "people, conditions, checks and data loops were left out: {tally}");
    assert_eq!(tally.items_runs > 0, !on_nats, "people and effects were left out: {tally}");
    // On NATS the default number of kills is smaller, and reached before trials of these kinds.
    assert!(tally.cycle_runs > 0 || on_nats, "development cycles were left out: {tally}");
    assert!(tally.worktree_runs > 0 || on_nats, "merges were left out: {tally}");
    assert!(tally.workflows > 0 || on_nats, "random workflows were left out: {tally}");
}
