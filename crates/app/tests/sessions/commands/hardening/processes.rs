//! Engines, shims and agents that die, stop or lie at the wrong time.

use std::fs;

use rustix::process::Signal;
use testkit::{ProcessHandle, Scene};

use crate::sessions::{last_error, scene, status};

/// A run with a step of this behaviour and one that needs it.
fn behaving(behaviour: &str) -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&[behaviour]);
    scene
}

#[test]
fn stop_takes_over_from_an_engine_that_dies_meanwhile() {
    let scene =
        behaving(r#"a * do trap 'read -r _ <"$kit/gate"; exit 0' TERM; : >"$kit/ready"; sleep 1000 & wait"#);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.wait_for_note("ready");
    let stop = scene.callboard(&["stop", "trial"]).start();
    stop.wait_until_it_says("waiting for its engine");
    running.kill();
    running.wait();
    gate.open();
    let stopped = stop.wait();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    scene.expect_no_orphans();
    assert_eq!(status(&scene.document("trial"), "a"), "PENDING");
}

#[test]
fn stop_does_not_wait_for_a_stopped_shim() {
    let scene = behaving("a * hang");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives").signal(Signal::STOP);
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(running.wait().code, 130);
    scene.expect_no_orphans();
}

#[test]
fn an_agent_that_stopped_itself_can_be_ended() {
    let scene = behaving(r#"a * do trap 'note end "$CALLBOARD_ATTEMPT"; exit 0' TERM; kill -STOP $$; hang"#);
    let running = scene.run(&[]).start();
    testkit::wait_until_stopped(scene.agent_log().wait_for_start("a#1.1"));
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(running.wait().code, 130);
    assert_eq!(scene.agent_log().order(), ["begin a#1.1", "end a#1.1"], "it was asked, not just killed");
    scene.expect_no_orphans();
}

/// An agent that deletes its attempt's directory.
const DESTROYS: &str = r#"a * do rm -rf "${REPORT_PATH%/*}"; : >"$kit/gone $CALLBOARD_ATTEMPT"; hang"#;

#[test]
fn an_attempt_whose_directory_is_gone_never_runs_twice_at_once() {
    let scene = behaving(DESTROYS);
    let running = scene.run(&[]).start();
    let first = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    scene.wait_for_note("gone a#1.1");
    running.kill();
    running.wait();
    let resumed = scene.callboard(&["resume"]).start();
    // The same attempt again, or the next one: neither starts before the first has ended.
    testkit::until(&scene.kit(), "a second begin", || (scene.agent_log().started().len() == 2).then_some(()));
    assert!(first.has_ended(), "two at once: {:?}", scene.agent_log().started());
    let second = scene.agent_log().started()[1].clone();
    scene.wait_for_note(&format!("gone {second}"));
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(resumed.wait().code, 130);
    scene.expect_no_orphans();
}

#[test]
fn stop_without_an_engine_ends_an_agent_whose_directory_is_gone() {
    let scene = behaving(DESTROYS);
    let running = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    scene.wait_for_note("gone a#1.1");
    running.kill();
    running.wait();
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(agent.has_ended());
    scene.expect_no_orphans();
    assert_eq!(status(&scene.document("trial"), "a"), "PENDING");
}

#[test]
fn a_forged_exit_record_is_not_believed_while_the_shim_lives() {
    let scene = scene();
    scene.workflow(&["a", "other", "b: a other"]);
    let forged = r#"{"attempt":"a#1.1","status":{"exited":{"code":1}},"reason":"finished","boot_id":"%s","started_at":"2026-01-02T03:04:05Z","ended_at":"2026-01-02T03:04:06Z","duration_ms":1,"leftover_processes":0}"#;
    let forge = format!(
        r#"a * do printf '{forged}' "$(cat /proc/sys/kernel/random/boot_id)" >"${{REPORT_PATH%/*}}/exit.json"; : >"$kit/forged"; read -r _ <"$kit/gate"; hand_in COMPLETED "did a""#
    );
    scene.plan(&[&forge, "other * wait other-gate"]);
    let (mut gate, mut other_gate) = (scene.gate("gate"), scene.gate("other-gate"));
    let running = scene.run(&["--jobs", "2"]).start();
    scene.agent_log().wait_for_start("other#1.1");
    scene.wait_for_note("forged");
    running.kill();
    running.wait();
    let resumed = scene.callboard(&["resume", "--jobs", "2"]).start();
    // The engine has looked at the forged record before the other step ends.
    other_gate.open();
    resumed.wait_until_it_says("other#1.1 finished");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!scene.agent_log().started().contains(&"a#1.2".to_owned()), "{:?}", scene.agent_log().started());
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
}

#[test]
fn adopting_and_stopping_need_no_adapter() {
    let scene = scene();
    scene.write("callboard.toml", &format!("[adapters.coder]\nwrapper = {:?}\n", scene.agent()));
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.callboard(&["run", "wf.yaml", "--run-id", "trial"]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    fs::remove_file(scene.repo().join("callboard.toml")).unwrap();
    let resumed = scene.callboard(&["resume"]).start();
    resumed.wait_until_it_says("a#1.1 is still running: adopted");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 2, "the next step has no adapter: {}", session.transcript());
    assert!(
        session.stderr.contains("no command is configured for agent `coder` (used by step `b`)"),
        "{}",
        session.stderr
    );
    assert_eq!(scene.agent_log().started(), ["a#1.1"]);
    assert_eq!(scene.with_agent(&["resume"]).run().code, 0);
    let document = scene.document("trial");
    assert_eq!(
        (&document["steps"]["a"]["attempts"], &document["steps"]["b"]["attempts"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn a_run_whose_adapter_was_removed_can_be_stopped() {
    let scene = scene();
    scene.write("callboard.toml", &format!("[adapters.coder]\nwrapper = {:?}\n", scene.agent()));
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * hang"]);
    let running = scene.callboard(&["run", "wf.yaml", "--run-id", "trial"]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    fs::remove_file(scene.repo().join("callboard.toml")).unwrap();
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    scene.expect_no_orphans();
}

#[test]
fn an_inherited_sigchld_ignore_changes_nothing() {
    // Many shells cannot ignore this signal; `env` of the coreutils can.
    let ignoring = "env --ignore-signal=CHLD";
    let scene = scene();
    if scene.callboard(&[]).in_shell(&format!("{ignoring} true")).run().code != 0 {
        eprintln!("SKIPPED: there is no `{ignoring}` here");
        return;
    }
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a 1 exit 1"]);
    let session = scene.run(&[]).in_shell(&format!(r#"exec {ignoring} "$@""#)).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 2);
}

/// An agent that reports on TERM, once the gate is open.
const REPORTS_AT_LAST: &str = r#"a * do trap 'read -r _ <"$kit/gate"; hand_in COMPLETED "just in time"; exit 0' TERM; : >"$kit/ready"; sleep 1000 & wait"#;

const SUCCEEDED: &str = "run `trial` succeeded before it could be stopped";

#[test]
fn stop_says_that_the_run_has_succeeded_meanwhile() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&[REPORTS_AT_LAST]);
    let mut gate = scene.gate("gate");
    gate.open();
    let running = scene.run(&[]).start();
    scene.wait_for_note("ready");
    let stopped = scene.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(stopped.stderr.contains(SUCCEEDED), "{}", stopped.stderr);
    assert_eq!(running.wait().code, 0);
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
    scene.expect_no_orphans();
}

#[test]
fn stop_is_not_refused_when_the_engine_exits_before_the_success_is_read() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&[REPORTS_AT_LAST]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.wait_for_note("ready");
    let stop = scene.callboard(&["stop", "trial"]).start();
    stop.wait_until_it_says("waiting for its engine");
    stop.signal(Signal::STOP);
    gate.open();
    assert_eq!(running.wait().code, 0);
    stop.signal(Signal::CONT);
    let stopped = stop.wait();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert!(stopped.stderr.contains(SUCCEEDED), "{}", stopped.stderr);
}

#[test]
fn a_detached_run_may_end_at_once() {
    let scene = scene();
    scene.workflow(&["a"]);
    let session = scene.run(&["--detach"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    scene.wait_for_engine("trial");
    let session = scene.callboard(&["resume", "trial", "--detach"]).run();
    assert_eq!(session.code, 3, "{}", session.transcript());
    assert!(session.stderr.contains("exited at start"), "{}", session.stderr);
}

#[test]
fn an_agent_that_replaces_its_log_by_a_pipe_does_not_hang_the_engine() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&[
        r#"a * do log="${REPORT_PATH%/*}/stderr.log"; rm "$log"; mkfifo "$log"; note end "$CALLBOARD_ATTEMPT"; exit 1"#,
    ]);
    let session = scene.run(&["--max-attempts", "1"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = scene.document("trial");
    assert_eq!(last_error(&document, "a"), "Agent process exited with code 1 without a report: a at work");
}
