//! A process id that was reused.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Isolation, TestEnv, UnrelatedProcess, isolated};

use crate::faults::killed_run;

/// Returns a run whose shim was killed and had started in an earlier clock tick than any process that starts from now on. The same
/// is true of every process with a reused id: ids wrap around much more slowly than a tick.
fn run_killed_in_an_earlier_tick() -> TestEnv {
    let test_env = killed_run();
    let claim = fs::read(test_env.attempt_dir("trial", "a", "1.1").join("claim")).unwrap();
    let claim: Value = serde_json::from_slice(&claim).unwrap();
    while UnrelatedProcess::start().start_time() <= claim["start_time"].as_u64().unwrap() {}
    test_env
}

/// Writes another process id into the claim of an attempt.
fn set_claim_pid(attempt_dir: &Path, pid: i32) {
    let claim = attempt_dir.join("claim");
    let mut identity: Value = serde_json::from_slice(&fs::read(&claim).unwrap()).unwrap();
    identity["pid"] = pid.into();
    fs::write(&claim, identity.to_string()).unwrap();
}

/// Resumes the run, and expects that the lost attempt is repeated and not counted.
fn expect_repeated_and_not_counted(test_env: &TestEnv) {
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
    test_env.expect_no_orphans();
}

#[test]
fn a_process_with_a_dead_shims_pid_is_neither_awaited_nor_signalled() {
    let test_env = run_killed_in_an_earlier_tick();
    let unrelated = UnrelatedProcess::start();
    set_claim_pid(&test_env.attempt_dir("trial", "a", "1.1"), unrelated.pid());
    expect_repeated_and_not_counted(&test_env);
    unrelated.expect_alive();
}

#[test]
fn stop_does_not_signal_a_process_with_a_dead_shims_pid() {
    let test_env = run_killed_in_an_earlier_tick();
    let unrelated = UnrelatedProcess::start();
    set_claim_pid(&test_env.attempt_dir("trial", "a", "1.1"), unrelated.pid());
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    unrelated.expect_alive();
}

#[test]
fn a_pid_that_the_kernel_really_reused_is_recognised() {
    // In a pid namespace of its own, a process can be started with a given id.
    isolated(Isolation::Processes, || {
        let test_env = run_killed_in_an_earlier_tick();
        let claim = fs::read(test_env.attempt_dir("trial", "a", "1.1").join("claim")).unwrap();
        let claim: Value = serde_json::from_slice(&claim).unwrap();
        let shim = i32::try_from(claim["pid"].as_i64().unwrap()).unwrap();
        let unrelated = UnrelatedProcess::with_pid(shim);
        expect_repeated_and_not_counted(&test_env);
        unrelated.expect_alive();
    });
}
