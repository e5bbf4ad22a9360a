//! Two processes that both want to be the engine of a run.

use std::fs;

use rustix::process::Signal;
use testkit::ProcessHandle;

use crate::faults::{scene, status};

const ROUNDS: usize = 12;

#[test]
fn of_two_engines_started_at_once_one_drives_and_the_other_names_it() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let mut holder = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    for round in 0..ROUNDS {
        holder.kill();
        holder.wait();
        let entries = scene.journal("trial").len();
        let mut both = [(); 2].map(|()| Some(scene.callboard(&["resume", "trial"]).start()));
        let loser = testkit::first_to_end(both.each_ref().map(|one| one.as_ref().unwrap()));
        let refused = both[loser].take().unwrap().wait();
        holder = both[1 - loser].take().unwrap();
        assert_eq!(refused.code, 5, "round {round}: {}", refused.transcript());
        let named = format!("already has an engine: process {} on", holder.pid());
        assert!(refused.stderr.contains(&named), "round {round}: {}", refused.stderr);
        holder.wait_until_it_says("a#1.1 was found at work and adopted");
        let after = testkit::until(&scene.store(), "the entry of the one that leads", || {
            Some(scene.journal("trial").len()).filter(|after| *after > entries)
        });
        assert_eq!(after, entries + 1, "round {round}: the other one left none");
        assert!(!agent.has_ended(), "round {round}");
    }
    gate.open();
    let session = holder.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    scene.expect_no_orphans();
}

#[test]
fn embedded_an_engine_that_lost_its_lock_while_stopped_is_fenced() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let fenced = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    fenced.signal(Signal::STOP);
    testkit::wait_until_stopped(fenced.pid());
    // A stopped process keeps its lock, so the test removes the file.
    fs::remove_file(scene.store().join("engines/trial.lock")).unwrap();
    let engine = scene.callboard(&["resume"]).start();
    engine.wait_until_it_says("a#1.1 was found at work and adopted");
    fenced.signal(Signal::CONT);
    let session = fenced.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("was replaced by a later one"), "{}", session.stderr);
    gate.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    scene.expect_no_orphans();
}
