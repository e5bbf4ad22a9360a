//! Engines, shims and agents that die, are suspended (SIGSTOP), or forge records.

use std::fs;

use rustix::process::Signal;
use testkit::{ProcessHandle, TestEnv};

use crate::sessions::{last_error, status, test_env};

/// Prepares a workflow with the steps `a` and `b`, which needs `a`. `behaviour` is a line for the scripted agent.
fn env_with_behaviour(behaviour: &str) -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&[behaviour]);
    test_env
}

#[test]
fn stop_takes_over_from_an_engine_that_dies_meanwhile() {
    // Ends on TERM, once the pipe `barrier` is open.
    let test_env = env_with_behaviour(
        r#"a * do trap 'read -r _ <"$shared/barrier"; exit 0' TERM; : >"$shared/ready"; sleep 1000 & wait"#,
    );
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.wait_for_file("ready");
    let stop = test_env.callboard(&["stop", "trial"]).start();
    stop.wait_for_stderr("waiting for its engine");
    running.kill();
    running.wait();
    barrier.open();
    let stopped = stop.wait();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    test_env.expect_no_orphans();
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
}

#[test]
fn stop_does_not_wait_for_a_suspended_shim() {
    let test_env = env_with_behaviour("a * hang");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1"))
        .expect("its shim lives")
        .signal(Signal::STOP);
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(running.wait().code, 130);
    test_env.expect_no_orphans();
}

#[test]
fn an_agent_that_suspended_itself_can_be_stopped() {
    let test_env = env_with_behaviour(
        r#"a * do trap 'log_event end "$CALLBOARD_ATTEMPT"; exit 0' TERM; kill -STOP $$; hang"#,
    );
    let running = test_env.run(&[]).start();
    testkit::wait_until_suspended(test_env.agent_log().wait_for_start("a#1.1"));
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(running.wait().code, 130);
    assert_eq!(
        test_env.agent_log().starts_and_ends(),
        ["begin a#1.1", "end a#1.1"],
        "it was asked, not just killed"
    );
    test_env.expect_no_orphans();
}

/// An agent that deletes its attempt's directory.
const DELETES_ITS_DIRECTORY: &str =
    r#"a * do rm -rf "${REPORT_PATH%/*}"; : >"$shared/gone $CALLBOARD_ATTEMPT"; hang"#;

#[test]
fn an_attempt_whose_directory_is_gone_never_runs_twice_at_once() {
    let test_env = env_with_behaviour(DELETES_ITS_DIRECTORY);
    let running = test_env.run(&[]).start();
    let first = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    test_env.wait_for_file("gone a#1.1");
    running.kill();
    running.wait();
    let resumed = test_env.callboard(&["resume"]).start();
    // The same attempt again, or the next one: neither starts before the first has ended.
    testkit::wait_until(&test_env.agent_dir(), "a second begin", || {
        (test_env.agent_log().started().len() == 2).then_some(())
    });
    assert!(first.has_ended(), "two at once: {:?}", test_env.agent_log().started());
    let second = test_env.agent_log().started()[1].clone();
    test_env.wait_for_file(&format!("gone {second}"));
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(resumed.wait().code, 130);
    test_env.expect_no_orphans();
}

#[test]
fn stop_without_an_engine_ends_an_agent_whose_directory_is_gone() {
    let test_env = env_with_behaviour(DELETES_ITS_DIRECTORY);
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    test_env.wait_for_file("gone a#1.1");
    running.kill();
    running.wait();
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(agent.has_ended());
    test_env.expect_no_orphans();
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
}

#[test]
fn a_forged_exit_record_is_not_believed_while_the_shim_lives() {
    let test_env = test_env();
    test_env.workflow(&["a", "other", "b: a other"]);
    let forged = r#"{"attempt":"a#1.1","status":{"exited":{"code":1}},"reason":"finished","boot_id":"%s","started_at":"2026-01-02T03:04:05Z","ended_at":"2026-01-02T03:04:06Z","duration_ms":1,"leftover_processes":0}"#;
    let forge = format!(
        r#"a * do printf '{forged}' "$(cat /proc/sys/kernel/random/boot_id)" >"${{REPORT_PATH%/*}}/exit.json"; : >"$shared/forged"; read -r _ <"$shared/barrier"; write_report COMPLETED "did a""#
    );
    test_env.script_agent(&[&forge, "other * wait other-barrier"]);
    let (mut barrier, mut other_barrier) = (test_env.barrier("barrier"), test_env.barrier("other-barrier"));
    let running = test_env.run(&["--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("other#1.1");
    test_env.wait_for_file("forged");
    running.kill();
    running.wait();
    let resumed = test_env.callboard(&["resume", "--jobs", "2"]).start();
    // The engine looks at the forged record before it sees the end of the other step.
    other_barrier.open();
    resumed.wait_for_stderr("other#1.1 finished");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(
        !test_env.agent_log().started().contains(&"a#1.2".to_owned()),
        "{:?}",
        test_env.agent_log().started()
    );
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
}

#[test]
fn adopting_and_stopping_need_no_adapter() {
    let test_env = test_env();
    test_env.write("callboard.toml", &format!("[adapters.coder]\nwrapper = {:?}\n", test_env.agent_path()));
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    fs::remove_file(test_env.repo().join("callboard.toml")).unwrap();
    let resumed = test_env.callboard(&["resume"]).start();
    resumed.wait_for_stderr("a#1.1 is still running: adopted");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 2, "the next step has no adapter: {}", session.transcript());
    assert!(
        session.stderr.contains("no command is configured for agent `coder` (used by step `b`)"),
        "{}",
        session.stderr
    );
    assert_eq!(test_env.agent_log().started(), ["a#1.1"]);
    // `with_agent` passes the scripted agent as a flag.
    assert_eq!(test_env.with_agent(&["resume"]).run().code, 0);
    let document = test_env.document("trial");
    assert_eq!(
        (&document["steps"]["a"]["attempts"], &document["steps"]["b"]["attempts"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn a_run_whose_adapter_was_removed_can_be_stopped() {
    let test_env = test_env();
    test_env.write("callboard.toml", &format!("[adapters.coder]\nwrapper = {:?}\n", test_env.agent_path()));
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    fs::remove_file(test_env.repo().join("callboard.toml")).unwrap();
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    test_env.expect_no_orphans();
}

#[test]
fn an_inherited_sigchld_ignore_changes_nothing() {
    // Many shells cannot ignore this signal; `env` of the coreutils can.
    let ignoring = "env --ignore-signal=CHLD";
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a 1 exit 1"]);
    let session = test_env.run(&[]).in_shell(&format!(r#"exec {ignoring} "$@""#)).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 2);
}

/// An agent that reports on TERM, once the pipe `barrier` is open.
const REPORTS_ON_TERM: &str = r#"a * do trap 'read -r _ <"$shared/barrier"; write_report COMPLETED "just in time"; exit 0' TERM; : >"$shared/ready"; sleep 1000 & wait"#;

const SUCCEEDED_BEFORE_STOP: &str = "run `trial` succeeded before it could be stopped";

#[test]
fn stop_says_that_the_run_has_succeeded_meanwhile() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&[REPORTS_ON_TERM]);
    let mut barrier = test_env.barrier("barrier");
    // The agent need not wait: it reports as soon as it gets TERM.
    barrier.open();
    let running = test_env.run(&[]).start();
    test_env.wait_for_file("ready");
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(stopped.stderr.contains(SUCCEEDED_BEFORE_STOP), "{}", stopped.stderr);
    assert_eq!(running.wait().code, 0);
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
    test_env.expect_no_orphans();
}

#[test]
fn stop_is_not_refused_when_the_engine_exits_before_the_success_is_read() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&[REPORTS_ON_TERM]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.wait_for_file("ready");
    let stop = test_env.callboard(&["stop", "trial"]).start();
    stop.wait_for_stderr("waiting for its engine");
    stop.signal(Signal::STOP);
    barrier.open();
    assert_eq!(running.wait().code, 0);
    stop.signal(Signal::CONT);
    let stopped = stop.wait();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(stopped.stderr.contains(SUCCEEDED_BEFORE_STOP), "{}", stopped.stderr);
}

#[test]
fn a_detached_run_may_end_at_once() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let session = test_env.run(&["--detach"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    test_env.wait_for_engine_exit("trial");
    let session = test_env.callboard(&["resume", "trial", "--detach"]).run();
    assert_eq!(session.code, 3, "{}", session.transcript());
    assert!(session.stderr.contains("exited at start"), "{}", session.stderr);
}

#[test]
fn an_agent_that_replaces_its_log_by_a_pipe_does_not_hang_the_engine() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&[
        r#"a * do log="${REPORT_PATH%/*}/stderr.log"; rm "$log"; mkfifo "$log"; log_event end "$CALLBOARD_ATTEMPT"; exit 1"#,
    ]);
    let session = test_env.run(&["--max-attempts", "1"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert_eq!(last_error(&document, "a"), "Agent process exited with code 1 without a report: a at work");
}
