//! A lead on NATS ends when it is not said again.

use std::time::Duration;

use protocol::RunId;
use rustix::process::Signal;
use store::{NatsSettings, NatsStore, Store as _};
use testkit::nats::Server;
use testkit::{Running, Scene, harness, status};

use crate::{configure, delete_stream, scene_on};

/// How long leases are is settled when the store is made.
fn scene_with_short_leases() -> Scene {
    let server = Server::start();
    let settings = NatsSettings { lease: Duration::from_secs(1), ..server.settings() };
    harness::wait(async { NatsStore::new(settings).id().await.map(drop) }).unwrap();
    let scene = scene_on(server);
    configure(&scene, "lease = \"1s\"");
    scene
}

/// Asks until nobody else leads any more. The server has no bell for the end of a lease.
fn resumed_as_soon_as_it_can_be(scene: &Scene) -> Running<'_> {
    loop {
        let resuming = scene.callboard(&["resume", "trial"]).start();
        if !resuming.ends_within(Duration::from_secs(2)) {
            return resuming;
        }
        let session = resuming.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("already has an engine"), "{}", session.stderr);
    }
}

#[test]
fn an_engine_that_was_stopped_for_longer_than_its_lease_leaves_the_run_to_the_later_one() {
    let scene = scene_with_short_leases();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let fenced = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    fenced.signal(Signal::STOP);
    testkit::wait_until_stopped(fenced.pid());
    let engine = resumed_as_soon_as_it_can_be(&scene);
    engine.wait_until_it_says("a#1.1 was found at work and adopted");
    fenced.signal(Signal::CONT);
    let session = fenced.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("was replaced by a later one"), "{}", session.stderr);
    gate.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    scene.expect_no_orphans();
}

/// As after an outage: the lease has run out, and its engine, which lives, takes it again without a word in the journal.
#[test]
fn a_watcher_that_found_no_engine_sees_it_when_it_is_heard_again() {
    let scene = scene_with_short_leases();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let engine = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    engine.signal(Signal::STOP);
    testkit::wait_until_stopped(engine.pid());
    // The server has no bell for the end of a lease.
    let (store, run) = (scene.open_store(), RunId::new("trial").unwrap());
    harness::wait(async { while store.holder(&run).await.unwrap().is_some() {} });
    let watching = scene.callboard(&["watch", "trial"]).start();
    watching.wait_until_it_says("it has no engine");
    engine.signal(Signal::CONT);
    watching.wait_until_it_says(&format!("its engine is process {}", engine.pid()));
    gate.open();
    assert_eq!(engine.wait().code, 0);
    assert_eq!(watching.wait().code, 0);
}

/// Who leads is told by the epoch in the journal; the leases only say whom to wait for. So they may be made again.
#[test]
fn leases_that_are_deleted_under_an_engine_are_made_again_and_it_goes_on_leading() {
    let scene = scene_with_short_leases();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let engine = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    delete_stream(&scene, "callboard-leases");
    // Whoever comes next makes the stream, and the engine says again that it leads.
    let (store, run) = (scene.open_store(), RunId::new("trial").unwrap());
    harness::wait(async { while store.holder(&run).await.unwrap().is_none() {} });
    let second = scene.callboard(&["resume", "trial"]).run();
    assert_eq!(second.code, 5, "{}", second.transcript());
    assert!(second.stderr.contains("already has an engine"), "{}", second.transcript());
    gate.open();
    assert_eq!(engine.wait().code, 0);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
}
