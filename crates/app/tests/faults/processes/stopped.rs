//! SIGSTOP and Ctrl-Z: processes that are alive and do nothing.

use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use testkit::{ProcessHandle, TestEnv};

use crate::faults::{last_error, status, test_env};

/// A stopped process that holds a store's writer lock.
struct StoppedLockHolder(Child);

impl StoppedLockHolder {
    fn new(test_env: &TestEnv) -> Self {
        let writer_lock = test_env.store_dir().join("writer.lock");
        let mut holder = Command::new("flock");
        holder.arg("--no-fork").arg(writer_lock).args(["sh", "-c", "echo held; kill -STOP $$"]);
        let child = Self(holder.stdout(Stdio::piped()).spawn().unwrap());
        testkit::wait_until_suspended(child.pid());
        child
    }

    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for StoppedLockHolder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn embedded_a_stopped_process_with_the_writer_lock_does_not_block_writers_for_ever() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    let holder = StoppedLockHolder::new(&test_env);
    let refused = test_env.callboard(&["pause", "trial"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    let expected = format!("process {} (`sh -c echo held; kill -STOP $$`), which is stopped", holder.pid());
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("kill -CONT {}", holder.pid())), "{}", refused.stderr);
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 0, "inspecting does not wait");
    // The engine cannot commit either. It reports the same, and its agent's work is not lost.
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains(&expected), "{}", session.stderr);
    assert!(agent.has_ended());
    drop(holder);
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"], "nothing was repeated");
}

#[test]
fn resume_all_completes_the_stop_of_a_run_whose_engine_died() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let _barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    running.signal(Signal::STOP);
    testkit::wait_until_suspended(running.pid());
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 5, "the engine does not act on it: {}", stopped.transcript());
    running.kill();
    running.wait();
    let resumed = test_env.callboard(&["resume", "--all"]).run();
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, ""), "{}", resumed.transcript());
    assert!(resumed.stderr.contains("run `trial` was being stopped"), "{}", resumed.stderr);
    assert!(agent.has_ended());
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!(shown["status"], "stopped");
    test_env.expect_no_orphans();
}

#[test]
fn a_stopped_engine_is_named_and_not_waited_for() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::STOP);
    testkit::wait_until_suspended(running.pid());
    let pid = running.pid();
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 5, "{}", resumed.transcript());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected = format!("already has an engine: process {pid} on `{}`, which is stopped", host.trim());
    assert!(resumed.stderr.contains(&expected), "{}", resumed.stderr);
    assert!(resumed.stderr.contains(&format!("`kill -CONT {pid}`")), "{}", resumed.stderr);
    let paused = test_env.callboard(&["pause", "trial"]).run();
    assert_eq!(paused.code, 0, "{}", paused.transcript());
    assert!(paused.stderr.contains(&format!("its engine, process {pid}, is stopped")), "{}", paused.stderr);
    let stop = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stop.code, 5, "{}", stop.transcript());
    assert!(stop.stderr.contains(&format!("its engine, process {pid}, is stopped")), "{}", stop.stderr);
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 0);
    // The request is committed: the engine carries it out when it continues.
    running.signal(Signal::CONT);
    let session = running.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
    test_env.expect_no_orphans();
    barrier.open();
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
}

/// `pause` makes the view stale. An engine records the marks of its last views when it stops, so a killed engine has not.
#[test]
fn the_view_of_an_engine_that_was_stopped_and_killed_is_not_taken_for_an_external_write() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::STOP);
    testkit::wait_until_suspended(running.pid());
    let paused = test_env.callboard(&["pause", "trial"]).run();
    assert_eq!(paused.code, 0, "{}", paused.transcript());
    running.kill();
    running.wait();
    barrier.open();
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // E017: another program changed a view.
    assert!(!resumed.stderr.contains("E017"), "{}", resumed.transcript());
}

#[test]
fn a_stopped_shim_keeps_its_time_limit() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, timeout: 1"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&["--max-attempts", "1"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1"))
        .expect("its shim lives")
        .signal(Signal::STOP);
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert!(last_error(&document, "a").contains("timed out"), "{}", last_error(&document, "a"));
    test_env.expect_no_orphans();
}

#[test]
fn a_stopped_agent_keeps_its_time_limit() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: a, timeout: 1"]);
    test_env.script_agent(&["a * do kill -STOP $$; hang"]);
    let session = test_env.run(&["--max-attempts", "1"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert!(last_error(&document, "a").contains("timed out"), "{}", last_error(&document, "a"));
    test_env.expect_no_orphans();
}
