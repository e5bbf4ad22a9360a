//! The run has, or had, an engine on another host.

use rustix::process::Signal;
use testkit::ProcessHandle;

use crate::hosts::fixture::{Fixture, LONG_LEASE};

#[test]
fn an_attempt_on_a_dead_host_is_left_alone_and_adopted_when_the_host_returns() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    // The lease expires and the run is taken over: the second step runs here, the first is left alone.
    let session = fixture.on("b", &["resume", "trial", "--jobs", "1"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    let expected = "`first#1.1` is on `a`: run `callboard resume trial` there; if that host does not come back, \
                run `callboard resume trial --abandon-host a` here";
    assert!(session.stderr.contains(expected), "{}", session.stderr);
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1", "second#1.1"]);
    assert!(!agent.has_ended());
    let engine = fixture.on("a", &["resume", "trial"]).start();
    engine.wait_for_stderr("first#1.1 is still running: adopted");
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1", "second#1.1"], "nothing was done twice");
    fixture.test_env.expect_no_orphans();
}

#[test]
fn a_second_host_follows_the_run_and_exits_as_it_does() {
    let fixture = Fixture::new();
    let (engine, _agent, mut barrier) = fixture.start_waiting_run();
    let interrupted = fixture.on("b", &["resume", "trial"]).start();
    interrupted.wait_for_stderr(&format!("its engine is process {} on `a`", engine.pid()));
    interrupted.wait_for_stderr("first#1.1 running on `a`");
    interrupted.interrupt();
    assert_eq!(interrupted.wait().code, 130);
    let following = fixture.on("b", &["resume", "trial"]).start();
    following.wait_for_stderr("first#1.1 running on `a`");
    barrier.open();
    for session in [following.wait(), engine.wait()] {
        assert_eq!(session.code, 0, "{}", session.transcript());
    }
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1"]);
    // No process on `b` has written anything.
    let by_b = fixture.test_env.journal("trial").iter().filter(|entry| entry["by"]["host"] == "b").count();
    assert_eq!(by_b, 0);
}

#[test]
fn a_follower_says_that_it_takes_over() {
    let fixture = Fixture::new();
    let (engine, agent, mut barrier) = fixture.start_waiting_run();
    let following = fixture.on("b", &["resume", "trial"]).start();
    following.wait_for_stderr("first#1.1 running on `a`");
    let expected =
        format!("its engine, process {} on `a`, has lost its lease; continuing here", engine.pid());
    engine.kill();
    engine.wait();
    let session = following.wait();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.stderr.contains(&expected), "{}", session.transcript());
    barrier.open();
    assert_eq!(fixture.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

/// An engine that ends releases its lease. Otherwise other hosts would wait until it expires, which takes long here.
#[test]
fn a_stopped_run_is_free_for_other_hosts_at_once() {
    let fixture = Fixture::with_lease(LONG_LEASE);
    fixture.run_and_interrupt(&[]);
    let session = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!session.stderr.contains("following"), "{}", session.stderr);
}

/// `pause` takes the engine lock of a run without an engine for its one request, and must release it before it exits.
#[test]
fn a_run_is_free_for_other_hosts_after_a_one_shot_request() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine_and_lease(LONG_LEASE);
    // The host of the dead engine does not wait for its lease.
    assert_eq!(fixture.on("a", &["pause", "trial"]).run().code, 0);
    let session = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    barrier.open();
    assert_eq!(fixture.on("a", &["resume", "trial"]).run().code, 0);
    agent.wait();
}

#[test]
fn a_run_can_be_stopped_from_another_host() {
    let fixture = Fixture::new();
    fixture.test_env.workflow(&["first"]);
    fixture.test_env.script_agent(&["first 1 hang"]);
    let engine = fixture.run_on("a", &[]).start();
    fixture.test_env.agent_log().wait_for_start("first#1.1");
    let stopped = fixture.on("b", &["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    let expected = format!("waiting for its engine, process {} on `a`", engine.pid());
    assert!(stopped.stderr.contains(&expected), "{}", stopped.stderr);
    assert_eq!(engine.wait().code, 130);
}

#[test]
fn an_attempt_on_a_dead_host_cannot_be_stopped_from_another() {
    let (fixture, agent, _barrier) = Fixture::with_killed_engine();
    let stopped = fixture.on("b", &["stop", "trial"]).run();
    assert_eq!(stopped.code, 4, "{}", stopped.transcript());
    let expected = "it has attempts on other hosts, which cannot be stopped from here";
    assert!(stopped.stderr.contains(expected), "{}", stopped.stderr);
    // The advice is to stop: `resume` on `a` would continue the run.
    let advice = "`first#1.1` is on `a`: run `callboard stop trial` there";
    assert!(stopped.stderr.contains(advice), "{}", stopped.stderr);
    let shown = fixture.on("b", &["show", "trial"]).run();
    assert!(shown.stdout.contains(advice), "{}", shown.transcript());
    // Without an engine it is shown as interrupted; the journal has the request to stop.
    assert_eq!(fixture.show_json_on("b")["status"], "interrupted");
    let journal = fixture.test_env.journal("trial");
    let mut changes = journal.iter().flat_map(|line| line["entry"]["changes"].as_array().unwrap());
    let status = changes.rfind(|change| change["change"] == "status").unwrap();
    assert_eq!(status["status"], serde_json::json!({ "stopping": "requested" }), "{journal:#?}");
    assert!(!agent.has_ended());
    // Its own host ends it.
    let stopped = fixture.on("a", &["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    agent.wait();
    fixture.test_env.expect_no_orphans();
}

#[test]
fn a_fenced_engine_stops_and_its_attempt_stays_on_its_host() {
    let fixture = Fixture::new();
    let mut barrier = fixture.test_env.barrier("barrier");
    fixture.test_env.workflow(&["first", "second"]);
    fixture.test_env.script_agent(&["first 1 wait barrier"]);
    let suspended = fixture.run_on("a", &["--jobs", "1"]).start();
    let agent = ProcessHandle::of(fixture.test_env.agent_log().wait_for_start("first#1.1")).expect("at work");
    suspended.signal(Signal::STOP);
    testkit::wait_until_suspended(suspended.pid());
    let session = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    suspended.signal(Signal::CONT);
    // The next event of the fenced engine is the end of its attempt, about which it must not decide any more.
    barrier.open();
    let session = suspended.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("was replaced by a later one"), "{}", session.stderr);
    agent.wait();
    let session = fixture.on("a", &["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1", "second#1.1"], "nothing was done twice");
}

#[test]
fn of_two_hosts_that_resume_at_once_one_drives_and_the_other_follows() {
    let fixture = Fixture::new();
    fixture.run_and_interrupt(&[]);
    let mut barrier = fixture.test_env.barrier("barrier");
    fixture.test_env.script_agent(&["first * wait barrier"]);
    let processes = ["b", "c"].map(|host| fixture.on(host, &["resume", "trial"]).start());
    fixture.test_env.agent_log().wait_for_start("first#1.2");
    let holder = fixture.show_json_on("a")["engine"]["pid"].clone();
    let follower = processes.iter().find(|process| holder != process.pid()).expect("one is the engine");
    follower.wait_for_stderr(&format!("its engine is process {holder} on"));
    barrier.open();
    for session in processes.map(testkit::Running::wait) {
        assert_eq!(session.code, 0, "{}", session.transcript());
    }
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1", "first#1.2"]);
}

#[test]
fn a_detached_resume_does_not_follow() {
    let fixture = Fixture::new();
    let (engine, _agent, mut barrier) = fixture.start_waiting_run();
    let refused = fixture.on("b", &["resume", "trial", "--detach"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    // A run with an engine on another host is not interrupted.
    assert_eq!(fixture.on("b", &["resume", "--all"]).run().code, 0);
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}
