//! An engine lock on NATS is a lease: it ends when it is not renewed.

use std::time::Duration;

use protocol::RunId;
use rustix::process::Signal;
use store::{NatsSettings, NatsStore};
use testkit::nats::Server;
use testkit::{Running, TestEnv, harness, status};

use crate::nats::{configure, delete_stream, test_env_on};

/// The lease length is fixed when the store is created, so the store is created here, and not by the program.
fn test_env_with_short_leases() -> TestEnv {
    let server = Server::start();
    let settings = NatsSettings { lease: Duration::from_secs(1), ..server.settings() };
    harness::block_on(async { NatsStore::new(settings).id().await.map(drop) }).unwrap();
    let test_env = test_env_on(server);
    configure(&test_env, "lease = \"1s\"");
    test_env
}

/// Repeats `resume` until the lease has expired. The server sends no event when a lease expires.
fn resume_when_the_lease_expires(test_env: &TestEnv) -> Running<'_> {
    loop {
        let resuming = test_env.callboard(&["resume", "trial"]).start();
        if !resuming.ends_within(Duration::from_secs(2)) {
            return resuming;
        }
        let session = resuming.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("already has an engine"), "{}", session.stderr);
    }
}

#[test]
fn an_engine_suspended_for_longer_than_its_lease_is_fenced() {
    let test_env = test_env_with_short_leases();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let fenced = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    fenced.signal(Signal::STOP);
    testkit::wait_until_suspended(fenced.pid());
    let engine = resume_when_the_lease_expires(&test_env);
    engine.wait_for_stderr("a#1.1 is still running: adopted");
    fenced.signal(Signal::CONT);
    let session = fenced.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("was replaced by a later one"), "{}", session.stderr);
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
    test_env.expect_no_orphans();
}

/// The engine comes back and renews its expired lease, as after an outage. That makes no journal entry, but the watcher
/// must see it.
#[test]
fn a_watcher_sees_an_engine_that_renews_its_expired_lease() {
    let test_env = test_env_with_short_leases();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let engine = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    engine.signal(Signal::STOP);
    testkit::wait_until_suspended(engine.pid());
    // The server sends no event when a lease expires.
    let (store, run) = (test_env.open_store(), RunId::new("trial").unwrap());
    harness::block_on(async { while store.engine_holder(&run).await.unwrap().is_some() {} });
    let watching = test_env.callboard(&["watch", "trial"]).start();
    watching.wait_for_stderr("it has no engine");
    engine.signal(Signal::CONT);
    watching.wait_for_stderr(&format!("its engine is process {}", engine.pid()));
    barrier.open();
    assert_eq!(engine.wait().code, 0);
    assert_eq!(watching.wait().code, 0);
}

/// The epoch in the journal decides which engine may write. A lease only says which engine is alive, so it may be lost.
#[test]
fn an_engine_keeps_its_run_when_the_lease_stream_is_deleted() {
    let test_env = test_env_with_short_leases();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let engine = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    delete_stream(&test_env, "callboard-leases");
    // The next client recreates the stream, and the engine renews its lease in it.
    let (store, run) = (test_env.open_store(), RunId::new("trial").unwrap());
    harness::block_on(async { while store.engine_holder(&run).await.unwrap().is_none() {} });
    let second = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(second.code, 5, "{}", second.transcript());
    assert!(second.stderr.contains("already has an engine"), "{}", second.transcript());
    barrier.open();
    assert_eq!(engine.wait().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}
