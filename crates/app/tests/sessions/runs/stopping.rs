//! Ctrl-C, SIGTERM and `stop`: the agents end, the run does not.

use std::fs;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::{last_error, status, test_env};

/// Makes a workflow of two steps. `behaviour` is the line of the agent's script that makes step `a` hang.
fn with_hanging_agent(behaviour: &str) -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&[behaviour]);
    test_env
}

/// Returns the signal that ended the agent of the first attempt.
fn ending_signal(test_env: &TestEnv) -> i64 {
    let exit = fs::read_to_string(test_env.attempt_dir("trial", "a", "1.1").join("exit.json")).unwrap();
    let exit: serde_json::Value = serde_json::from_str(&exit).unwrap();
    exit["status"]["signalled"]["signal"].as_i64().unwrap_or_else(|| panic!("no signal: {exit}"))
}

#[test]
fn ctrl_c_ends_the_agents_and_leaves_the_run_resumable() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_snapshot!(running.wait().transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    interrupted: stopping the agents; press Ctrl-C again to kill them
    ■ a#1.1 was stopped

    note: run `callboard resume trial` to continue
    run `trial` stopped: 0 of 2 steps done, [TIME]
      PENDING   a  Agent process was stopped
      PENDING   b
    [exit 130]
    ");
    test_env.expect_no_orphans();
    let document = test_env.document("trial");
    assert_eq!((status(&document, "a"), &document["steps"]["a"]["attempts"]), ("PENDING", &0.into()));
    test_env.script_agent(&["a 1 save-input"]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    let document = test_env.document("trial");
    assert_eq!(document["steps"]["a"]["attempts"], 1, "the attempt that was cut short is not counted");
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
}

#[test]
fn an_agent_that_ignores_term_is_killed_after_its_grace() {
    let test_env = with_hanging_agent("a * stubborn");
    let adapter = format!("[adapters.coder]\nwrapper = {:?}\ngrace = \"50ms\"\n", test_env.agent_path());
    test_env.write("callboard.toml", &adapter);
    let running = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial"]).start();
    test_env.wait_for_file("ignores-term");
    running.interrupt();
    let session = running.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    assert_eq!(ending_signal(&test_env), 9);
    test_env.expect_no_orphans();
}

#[test]
fn ctrl_c_twice_kills_agents_that_do_not_listen() {
    let test_env = with_hanging_agent("a * stubborn");
    let running = test_env.run(&[]).start();
    test_env.wait_for_file("ignores-term");
    running.interrupt();
    running.wait_for_stderr("press Ctrl-C again");
    running.interrupt();
    assert_snapshot!(running.wait().transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    interrupted: stopping the agents; press Ctrl-C again to kill them
    ■ a#1.1 was stopped

    note: run `callboard resume trial` to continue
    run `trial` stopped: 0 of 2 steps done, [TIME]
      PENDING   a  Agent process was stopped
      PENDING   b
    [exit 130]
    ");
    assert_eq!(ending_signal(&test_env), 9);
    test_env.expect_no_orphans();
}

#[test]
fn sigterm_is_like_the_first_ctrl_c() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.terminate();
    assert_eq!(running.wait().code, 130);
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
    test_env.expect_no_orphans();
}

#[test]
fn stop_waits_until_no_agent_is_left() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_snapshot!(test_env.callboard(&["stop", "trial"]).run().transcript(), @"
    $ callboard stop trial
    note: waiting for its engine, process [PID]
    run `trial` is stopped; run `callboard resume trial` to continue it
    [exit 0]
    ");
    test_env.expect_no_orphans();
    assert_snapshot!(running.wait().transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    stop requested: stopping the agents
    ■ a#1.1 was stopped

    note: run `callboard resume trial` to continue
    run `trial` stopped: 0 of 2 steps done, [TIME]
      PENDING   a  Agent process was stopped
      PENDING   b
    [exit 130]
    ");
    let document = test_env.document("trial");
    assert_eq!(status(&document, "a"), "PENDING");
    assert!(!last_error(&document, "a").is_empty());
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
}

#[test]
fn a_run_stopped_by_its_engine_is_not_stopped_twice() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 130);
    let journal = test_env.journal("trial");
    let stops = journal.iter().filter(|line| line["entry"]["input"]["request"]["request"] == "stop");
    assert_eq!(stops.count(), 1, "{journal:#?}");
}

#[test]
fn stop_without_an_engine_ends_the_agents() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    let session = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    test_env.expect_no_orphans();
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
}

#[test]
fn stopping_twice_is_idempotent_and_a_succeeded_run_cannot_be_stopped() {
    let test_env = with_hanging_agent("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 130);
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["stop", "trial"]).run().transcript(), @"
    $ callboard stop trial
    error[E013]: cannot stop run `trial`
      caused by: it has succeeded
    [exit 3]
    ");
}
