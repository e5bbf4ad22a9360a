//! A process number that belongs to somebody else by now.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Isolation, Scene, UnrelatedProcess, isolated};

use crate::deserted;

/// Numbers come round only after long; a tick in which a shim began has passed by then, and whoever begins has another.
fn deserted_long_ago() -> Scene {
    let scene = deserted();
    let claim = fs::read(scene.attempt("trial", "a", "1.1").join("claim")).unwrap();
    let claim: Value = serde_json::from_slice(&claim).unwrap();
    while UnrelatedProcess::start().start_time() <= claim["start_time"].as_u64().unwrap() {}
    scene
}

/// Writes another process number into the claim.
fn forge(attempt: &Path, pid: i32) {
    let claim = attempt.join("claim");
    let mut identity: Value = serde_json::from_slice(&fs::read(&claim).unwrap()).unwrap();
    identity["pid"] = pid.into();
    fs::write(&claim, identity.to_string()).unwrap();
}

/// What the run comes to: the lost try is repeated and not counted.
fn expect_repeated(scene: &Scene) {
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
    scene.expect_no_orphans();
}

#[test]
fn whoever_has_the_number_of_a_dead_shim_is_neither_waited_for_nor_signalled() {
    let scene = deserted_long_ago();
    let innocent = UnrelatedProcess::start();
    forge(&scene.attempt("trial", "a", "1.1"), innocent.pid());
    expect_repeated(&scene);
    innocent.expect_alive();
}

#[test]
fn stop_does_not_signal_whoever_has_the_number_of_a_dead_shim() {
    let scene = deserted_long_ago();
    let innocent = UnrelatedProcess::start();
    forge(&scene.attempt("trial", "a", "1.1"), innocent.pid());
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    innocent.expect_alive();
}

#[test]
fn a_number_that_the_kernel_really_gave_away_again_is_told_apart() {
    isolated(Isolation::Processes, || {
        let scene = deserted_long_ago();
        let claim = fs::read(scene.attempt("trial", "a", "1.1").join("claim")).unwrap();
        let claim: Value = serde_json::from_slice(&claim).unwrap();
        let shim = i32::try_from(claim["pid"].as_i64().unwrap()).unwrap();
        let innocent = UnrelatedProcess::with_pid(shim);
        expect_repeated(&scene);
        innocent.expect_alive();
    });
}
