//! A person gives up a host.

use rustix::process::Signal;
use testkit::ProcessHandle;

use crate::fixture::Fixture;

#[test]
fn what_was_on_it_is_tried_again_here_and_its_late_report_counts_for_nothing() {
    let (fixture, agent, mut gate) = Fixture::deserted();
    let abandon = ["resume", "trial", "--abandon-host", "a", "--reason", "its disk died"];
    let session = fixture.on("b", &["resume", "trial"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    // The try that was interrupted does not count, so this one is the first again.
    fixture.scene.plan(&[]);
    let session = fixture.on("b", &abandon).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let told = "first#1.1 was interrupted: Agent process was interrupted: tester gave up its host `a`: its disk died";
    assert!(session.stderr.contains(told), "{}", session.stderr);
    let entries = fixture.scene.journal("trial").len();
    gate.open();
    agent.wait();
    assert_eq!(fixture.scene.agent_log().started(), ["first#1.1", "second#1.1", "first#1.2"]);
    // It has written its report by now, and nobody takes it up.
    let refused = fixture.on("a", &["resume", "trial"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert_eq!(fixture.scene.journal("trial").len(), entries);
}

#[test]
fn its_agent_is_told_when_it_reports() {
    let fixture = Fixture::new();
    let mut gate = fixture.scene.gate("gate");
    fixture.scene.workflow(&["first"]);
    let reports = "read -r _ <\"$kit/gate\"; \"$kit/callboard\" report --status COMPLETED 2>\"$kit/told\"; \
                   echo $? >\"$kit/code\"; hang";
    fixture.scene.plan(&[&format!("first 1 do {reports}")]);
    let engine = fixture.run_on("a", &[]).start();
    let agent = ProcessHandle::of(fixture.scene.agent_log().wait_for_start("first#1.1")).expect("at work");
    engine.kill();
    engine.wait();
    assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
    fixture.scene.plan(&[]);
    assert_eq!(fixture.on("b", &["resume", "trial", "--abandon-host", "a"]).run().code, 0);
    gate.open();
    testkit::until(&fixture.scene.kit(), "the agent's answer", || {
        let code = std::fs::read_to_string(fixture.scene.kit().join("code")).ok()?;
        code.ends_with('\n').then(|| assert_eq!(code.trim(), "3"))
    });
    let told = fixture.scene.wait_for_note("told");
    assert!(told.contains("`first#1.1` of run `trial` is not at work any more"), "{told}");
    ProcessHandle::shim(&fixture.scene.attempt("trial", "first", "1.1"))
        .expect("its shim lives")
        .signal(Signal::TERM);
    agent.wait();
}

#[test]
fn a_host_whose_engine_leads_is_not_given_up() {
    let fixture = Fixture::new();
    let (engine, _agent, mut gate) = fixture.at_work();
    let refused = fixture.on("b", &["resume", "trial", "--abandon-host", "a"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    let told = format!("already has an engine: process {} on `a`", engine.pid());
    assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    gate.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_host_that_has_nothing_is_not_given_up() {
    let (fixture, agent, _gate) = Fixture::deserted();
    let refused = fixture.on("b", &["resume", "trial", "--abandon-host", "c"]).run();
    // While the lease lasts somebody may lead.
    let refused = match refused.code {
        5 => {
            assert_eq!(fixture.on("b", &["resume", "trial"]).run().code, 4);
            fixture.on("b", &["resume", "trial", "--abandon-host", "c"]).run()
        }
        _ => refused,
    };
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("cannot go on with run `trial`"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("no attempt of it is on `c`; `first#1.1` is on `a`"),
        "{}",
        refused.stderr
    );
    agent.kill();
    agent.wait();
}

/// The entry of a cycle in the bucket goes along.
#[test]
fn a_cycle_goes_on_from_the_phase_that_was_on_it() {
    let fixture = Fixture::new();
    let _gate = fixture.scene.gate("gate");
    fixture.scene.plan(&["execute * wait gate"]);
    let peer = fixture.scene.with_agent(&["peer", "create-spec", "--spec", "x"]);
    let engine = peer.env("CALLBOARD_HOST", "a").start();
    let agent = ProcessHandle::of(fixture.scene.agent_log().wait_for_start("execute#1.1")).expect("at work");
    engine.kill();
    engine.wait();
    let cycle = "peer:spec:x:cycle:1";
    let session = fixture.on("b", &["resume", cycle]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    fixture.scene.plan(&[]);
    let session = fixture.on("b", &["resume", cycle, "--abandon-host", "a"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let begun = ["plan#1.1", "execute#1.1", "execute#1.2", "express#1.1", "review#1.1"];
    assert_eq!(fixture.scene.agent_log().started(), begun);
    agent.kill();
    agent.wait();
}
