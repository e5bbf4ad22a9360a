//! The server goes away, for a while or for good, or loses what it holds.

use std::time::Duration;

use rustix::process::Signal;
use testkit::nats::Server;
use testkit::{Gate, ProcessHandle, Running, Scene, harness, status};

use crate::nats::{client, configure, delete_stream, has_stream, scene, scene_on, three};

/// Starts a run of three steps whose second one is running and waits at the gate.
pub(crate) fn in_the_middle(scene: &Scene) -> (Running<'_>, ProcessHandle) {
    scene.workflow(&["a", "b: a", "c: b"]);
    scene.plan(&["b * wait gate"]);
    let engine = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("b#1.1")).expect("at work");
    (engine, agent)
}

/// Lets the agent end while the store is unreachable.
fn end_during_the_outage(scene: &Scene, gate: &mut Gate, agent: &ProcessHandle) {
    gate.open();
    agent.wait();
    let attempt = scene.attempt("trial", "b", "1.1");
    testkit::until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
}

#[track_caller]
fn expect_each_step_once(scene: &Scene) {
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"]);
    let document = scene.document("trial");
    assert_eq!(["a", "b", "c"].map(|step| status(&document, step)), ["COMPLETED"; 3]);
    let journal = scene.journal("trial");
    let changes = journal.iter().flat_map(|line| line["entry"]["changes"].as_array().unwrap());
    let ended = changes.filter(|change| change["change"] == "ended");
    assert_eq!(ended.count(), 3, "each end was committed once: {journal:#?}");
    scene.expect_no_orphans();
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_no_step() {
    let scene = scene();
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    scene.backend().server().kill();
    end_during_the_outage(&scene, &mut gate, &agent);
    scene.backend().server().restart();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&scene);
}

/// Kills the stream leader, then a second server, so that no write succeeds; then both return.
#[test]
fn losing_two_of_three_servers_for_a_while_costs_no_step() {
    let ([first, second, third], addresses) = three();
    let (scene, mut others) = (scene_on(first), [second, third]);
    let mut with = |number: usize, act: fn(&mut Server)| match number {
        0 => act(&mut scene.backend().server()),
        other => act(&mut others[other - 1]),
    };
    scene.workflow(&["a", "b: a", "c: b"]);
    scene.plan(&["b * wait gate", "c * wait second"]);
    let (mut gate, mut second) = (scene.gate("gate"), scene.gate("second"));
    let engine = scene.run(&["--store", &addresses]).start();
    scene.agent_log().wait_for_start("b#1.1");
    let journal = harness::wait(client(&scene).get_stream("callboard-journal")).unwrap();
    let leader = journal.cached_info().cluster.clone().unwrap().leader.unwrap();
    let leader: usize = leader.strip_prefix('n').unwrap().parse().unwrap();
    with(leader, Server::kill);
    gate.open();
    // The remaining two have elected another leader.
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("c#1.1")).expect("at work");
    with((leader + 1) % 3, Server::kill);
    second.open();
    agent.wait();
    engine.wait_until_it_says("waiting for the NATS server");
    with(leader, Server::restart);
    with((leader + 1) % 3, Server::restart);
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&scene);
}

#[test]
fn a_server_that_does_not_answer_for_a_while_costs_no_step() {
    let scene = scene();
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    scene.backend().server().hold();
    end_during_the_outage(&scene, &mut gate, &agent);
    // A command gives up after the answer timeout. The engine reports the outage and retries.
    let looked = scene.callboard(&["ls"]).run();
    assert_eq!(looked.code, 5, "{}", looked.transcript());
    engine.wait_until_it_says("waiting for the NATS server");
    scene.backend().server().release();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains("answers again, after "), "{}", session.stderr);
    expect_each_step_once(&scene);
}

#[test]
fn an_engine_gives_up_after_the_outage_timeout_and_resume_collects_its_agents_work() {
    let scene = scene();
    configure(&scene, "outages = \"2s\"");
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    scene.backend().server().kill();
    gate.open();
    agent.wait();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let address = scene.backend().address().unwrap();
    assert!(session.stderr.contains(&format!("the NATS server `{address}`")), "{}", session.stderr);
    let hint = "run `callboard resume trial` when the servers answer";
    assert!(
        session.stderr.contains(hint),
        "to type the same again would start another run: {}",
        session.stderr
    );
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 5, "the server is still away: {}", resumed.transcript());
    assert!(resumed.stderr.contains(&address), "{}", resumed.stderr);
    scene.backend().server().restart();
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    expect_each_step_once(&scene);
}

#[test]
fn an_agent_that_outlives_engine_and_server_is_adopted_when_both_are_back() {
    let scene = scene();
    configure(&scene, "outages = \"2s\"");
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    engine.kill();
    engine.wait();
    scene.backend().server().kill();
    assert!(!agent.has_ended());
    scene.backend().server().restart();
    let resumed = scene.callboard(&["resume"]).start();
    resumed.wait_until_it_says("b#1.1 is still running: adopted");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&scene);
}

/// The engine waits for an answer and cannot commit the interrupt.
#[test]
fn three_interrupts_end_an_engine_whose_server_does_not_answer() {
    let scene = scene();
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    scene.backend().server().hold();
    // The kernel merges two signals that are pending at once.
    while !engine.ends_within(Duration::from_millis(100)) {
        engine.interrupt();
    }
    let session = engine.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    assert!(session.stderr.contains("its store does not answer"), "{}", session.transcript());
    assert!(!agent.has_ended());
    scene.backend().server().release();
    gate.open();
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    scene.expect_no_orphans();
}

#[test]
fn a_journal_deleted_under_an_engine_ends_it_and_is_not_recreated() {
    let scene = scene();
    let mut gate = scene.gate("gate");
    let (engine, _agent) = in_the_middle(&scene);
    let address = scene.backend().address().unwrap();
    delete_stream(&scene, "callboard-journal");
    gate.open();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let named = format!("the stream `callboard-journal` at the NATS server `{address}`");
    assert!(session.stderr.contains(&named), "{}", session.stderr);
    let resumed = scene.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 5, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("callboard-journal"), "{}", resumed.stderr);
    assert!(!has_stream(&scene, "callboard-journal"), "it was made again");
}

/// The server was restarted with an empty directory, and a command created a store in it.
#[test]
fn a_server_that_returns_with_another_store_ends_the_engine() {
    let scene = scene();
    let mut gate = scene.gate("gate");
    let (engine, agent) = in_the_middle(&scene);
    let watching = scene.callboard(&["watch", "trial"]).start();
    watching.wait_until_it_says("b#1.1");
    scene.backend().server().kill();
    let had = scene.backend().server().restart_empty();
    let listed = scene.callboard(&["ls"]).run();
    assert!(listed.stderr.contains("note: created a new store at"), "{}", listed.transcript());
    gate.open();
    agent.wait();
    for session in [engine.wait(), watching.wait()] {
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("error[E024]: the NATS server `"), "{}", session.transcript());
        assert!(session.stderr.contains("has another store now"), "{}", session.transcript());
    }
    assert_eq!(scene.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    scene.backend().server().kill();
    let _empty = scene.backend().server().restart_in(had);
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    expect_each_step_once(&scene);
}

#[test]
fn an_engine_interrupted_during_an_outage_says_what_is_not_committed() {
    for signal in [Signal::TERM, Signal::INT] {
        let scene = scene();
        configure(&scene, "outages = \"2s\"");
        let mut gate = scene.gate("gate");
        let (engine, agent) = in_the_middle(&scene);
        scene.backend().server().kill();
        engine.signal(signal);
        let session = engine.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let address = scene.backend().address().unwrap();
        assert!(session.stderr.contains(&format!("the NATS server `{address}`")), "{}", session.stderr);
        assert!(session.stderr.contains("the interrupt was not recorded"), "{}", session.stderr);
        assert_eq!(session.stderr.matches("callboard resume").count(), 1, "{}", session.stderr);
        assert!(!agent.has_ended(), "it can be adopted");
        scene.backend().server().restart();
        let resumed = scene.callboard(&["resume"]).start();
        resumed.wait_until_it_says("b#1.1 is still running: adopted");
        gate.open();
        let session = resumed.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        expect_each_step_once(&scene);
    }
}
