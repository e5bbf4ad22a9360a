//! Two processes that both want to be the engine of a run.

use std::fs;

use rustix::process::Signal;
use testkit::ProcessHandle;

use crate::faults::{status, test_env};

const ROUNDS: usize = 12;

#[test]
fn of_two_engines_started_at_once_one_drives_and_the_other_names_it() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let mut holder = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    for round in 0..ROUNDS {
        holder.kill();
        holder.wait();
        let entries = test_env.journal("trial").len();
        let mut engines = [(); 2].map(|()| Some(test_env.callboard(&["resume", "trial"]).start()));
        let loser = testkit::first_to_end(engines.each_ref().map(|engine| engine.as_ref().unwrap()));
        let refused = engines[loser].take().unwrap().wait();
        holder = engines[1 - loser].take().unwrap();
        assert_eq!(refused.code, 5, "round {round}: {}", refused.transcript());
        let expected = format!("already has an engine: process {} on", holder.pid());
        assert!(refused.stderr.contains(&expected), "round {round}: {}", refused.stderr);
        holder.wait_for_stderr("a#1.1 is still running: adopted");
        let after = testkit::wait_until(&test_env.store_dir(), "the entry of the new holder", || {
            Some(test_env.journal("trial").len()).filter(|after| *after > entries)
        });
        assert_eq!(after, entries + 1, "round {round}: the refused engine has committed nothing");
        assert!(!agent.has_ended(), "round {round}");
    }
    barrier.open();
    let session = holder.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    test_env.expect_no_orphans();
}

#[test]
fn embedded_an_engine_that_lost_its_lock_while_stopped_is_fenced() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let fenced = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    fenced.signal(Signal::STOP);
    testkit::wait_until_suspended(fenced.pid());
    // A stopped process keeps its lock, so the test removes the file.
    fs::remove_file(test_env.store_dir().join("engines/trial.lock")).unwrap();
    let engine = test_env.callboard(&["resume"]).start();
    engine.wait_for_stderr("a#1.1 is still running: adopted");
    fenced.signal(Signal::CONT);
    let session = fenced.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("was replaced by a later one"), "{}", session.stderr);
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
    test_env.expect_no_orphans();
}
