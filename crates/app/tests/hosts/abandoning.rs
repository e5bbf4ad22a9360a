//! The user abandons a host.

use rustix::process::Signal;
use testkit::ProcessHandle;

use crate::hosts::fixture::Fixture;

#[test]
fn an_abandoned_hosts_attempt_is_repeated_and_its_late_report_ignored() {
    let (fixture, agent, mut barrier) = Fixture::with_killed_engine();
    let abandon = ["resume", "trial", "--abandon-host", "a", "--reason", "its disk died"];
    let session = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    // The interrupted attempt does not count, so the script's line for attempt 1 would match the next attempt as well.
    fixture.test_env.script_agent(&[]);
    let session = fixture.on("b", &abandon).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let expected = "first#1.1 was interrupted: Agent process was interrupted: tester abandoned its host `a`: its disk died";
    assert!(session.stderr.contains(expected), "{}", session.stderr);
    let entries = fixture.test_env.journal("trial").len();
    barrier.open();
    agent.wait();
    assert_eq!(fixture.test_env.agent_log().started(), ["first#1.1", "second#1.1", "first#1.2"]);
    // The agent has written its report by now; no engine reads it.
    let refused = fixture.on("a", &["resume", "trial"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert_eq!(fixture.test_env.journal("trial").len(), entries);
}

#[test]
fn an_agent_on_an_abandoned_host_is_refused_when_it_reports() {
    let fixture = Fixture::new();
    let mut barrier = fixture.test_env.barrier("barrier");
    fixture.test_env.workflow(&["first"]);
    let reports = "read -r _ <\"$shared/barrier\"; \"$shared/callboard\" report --status COMPLETED 2>\"$shared/told\"; \
                   echo $? >\"$shared/code\"; hang";
    fixture.test_env.script_agent(&[&format!("first 1 do {reports}")]);
    let engine = fixture.run_on("a", &[]).start();
    let agent = ProcessHandle::of(fixture.test_env.agent_log().wait_for_start("first#1.1")).expect("at work");
    engine.kill();
    engine.wait();
    assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
    fixture.test_env.script_agent(&[]);
    assert_eq!(fixture.on("b", &["resume", "trial", "--abandon-host", "a"]).run().code, 0);
    barrier.open();
    testkit::wait_until(&fixture.test_env.agent_dir(), "the agent's answer", || {
        let code = std::fs::read_to_string(fixture.test_env.agent_dir().join("code")).ok()?;
        code.ends_with('\n').then(|| assert_eq!(code.trim(), "3"))
    });
    let refusal = fixture.test_env.wait_for_lines("told");
    assert!(refusal.contains("attempt `first#1.1` of run `trial` was abandoned with its host"), "{refusal}");
    ProcessHandle::shim(&fixture.test_env.attempt_dir("trial", "first", "1.1"))
        .expect("its shim lives")
        .signal(Signal::TERM);
    agent.wait();
}

#[test]
fn a_host_with_a_live_engine_cannot_be_abandoned() {
    let fixture = Fixture::new();
    let (engine, _agent, mut barrier) = fixture.start_waiting_run();
    let refused = fixture.on("b", &["resume", "trial", "--abandon-host", "a"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    let expected = format!("already has an engine: process {} on `a`", engine.pid());
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

/// On NATS the document of a peer cycle is an entry of a key-value bucket. The other host has to continue it, too.
#[test]
fn a_peer_cycle_continues_with_the_phase_that_was_on_the_abandoned_host() {
    let fixture = Fixture::new();
    let _barrier = fixture.test_env.barrier("barrier");
    fixture.test_env.script_agent(&["execute * wait barrier"]);
    let peer = fixture.test_env.with_agent(&["peer", "create-spec", "--spec", "x"]);
    let engine = peer.env("CALLBOARD_HOST", "a").start();
    let agent =
        ProcessHandle::of(fixture.test_env.agent_log().wait_for_start("execute#1.1")).expect("at work");
    engine.kill();
    engine.wait();
    let cycle = "peer:spec:x:cycle:1";
    let session = fixture.on("b", &["resume", cycle]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    fixture.test_env.script_agent(&[]);
    let session = fixture.on("b", &["resume", cycle, "--abandon-host", "a"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let started = ["plan#1.1", "execute#1.1", "execute#1.2", "express#1.1", "review#1.1"];
    assert_eq!(fixture.test_env.agent_log().started(), started);
    agent.kill();
    agent.wait();
}
