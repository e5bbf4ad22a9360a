//! Leases: an engine keeps its run as long as it renews its lease.

use std::time::Duration;

use protocol::Epoch;
use rustix::process::{Pid, Signal, kill_process};
use store::{CommitError, EngineLockError, NatsSettings, NatsStore, Position, Store as _};
use testkit::nats::{Proxy, Server};

use crate::contract::child_tasks::ChildProcess;
use crate::contract::{entry_commit, run};

/// A store with short leases. The first store sets the duration of leases for all.
async fn with_short_leases(server: &Server) -> NatsStore {
    let store = NatsStore::new(NatsSettings { lease: Duration::from_millis(600), ..server.settings() });
    store.open().await.unwrap();
    store
}

#[tokio::test]
async fn a_run_whose_lease_has_expired_can_be_taken_over() {
    let server = Server::start();
    let (store, run) = (with_short_leases(&server).await, run("locked"));
    let mut engine = ChildProcess::start(&server, "lock", &run, 0);
    assert_eq!(engine.next_line().as_deref(), Some("1"));
    // The process is alive, so only its lease can tell that it does not act.
    let engine_pid = Pid::from_raw(engine.pid().try_into().unwrap()).unwrap();
    kill_process(engine_pid, Signal::STOP).unwrap();
    let EngineLockError::Held { pid, .. } = store.lock_engine(&run).await.unwrap_err() else { panic!() };
    assert_eq!(pid, engine.pid());
    let lock = loop {
        match store.lock_engine(&run).await {
            Ok(lock) => break lock,
            Err(EngineLockError::Held { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(lock.epoch(), Epoch(2));
    let late = store::Commit { epoch: Some(Epoch(1)), ..entry_commit(&run, Position::absent(), "late") };
    let refused = NatsStore::new(server.settings()).commit(late).await.unwrap_err();
    assert!(matches!(refused, CommitError::Fenced { held: Epoch(1), by: Epoch(2) }), "{refused}");
    kill_process(engine_pid, Signal::CONT).unwrap();
}

#[tokio::test]
async fn an_engine_that_renews_its_lease_keeps_its_run() {
    let server = Server::start();
    let (store, run) = (with_short_leases(&server).await, run("locked"));
    let lock = store.lock_engine(&run).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
    // A lease is renewed three times in its duration. Without renewal it would have expired twice by now.
    while leases.get_info().await.unwrap().state.last_sequence < 7 {
        let refused = NatsStore::new(server.settings()).lock_engine(&run).await.unwrap_err();
        assert!(matches!(refused, EngineLockError::Held { .. }), "{refused}");
    }
    drop(lock);
    assert_eq!(NatsStore::new(server.settings()).lock_engine(&run).await.unwrap().epoch(), Epoch(2));
}

#[tokio::test]
async fn one_of_eight_concurrent_engines_gets_the_lock() {
    let server = Server::start();
    let mut locking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = NatsStore::new(server.settings());
        locking.spawn(async move { store.lock_engine(&run("locked")).await });
    }
    let locks = locking.join_all().await;
    assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
    for refused in locks.iter().filter_map(|lock| lock.as_ref().err()) {
        assert!(matches!(refused, EngineLockError::Held { .. }), "{refused}");
    }
}

/// Only a process on the same machine can see that the holder has released the lock. Others depend on the message in
/// the stream of leases.
#[tokio::test]
async fn a_released_lock_is_free_for_other_machines_at_once() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("locked"));
    let lock = store.lock_engine(&run).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
    let is_held = async || {
        let last = leases.get_last_raw_message_by_subject("callboard.lease.locked").await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&last.payload).unwrap()["held"] == true
    };
    assert!(is_held().await);
    lock.release().await;
    assert!(!is_held().await);
}

#[tokio::test]
async fn releasing_a_lock_ends_though_the_server_does_not_answer() {
    let server = Server::start();
    with_short_leases(&server).await;
    let proxy = Proxy::to(&server).await;
    // A renewal would wait this long for an answer.
    let store = proxy.store(Duration::from_secs(3600));
    let lock = store.lock_engine(&run("locked")).await.unwrap();
    proxy.delay_requests();
    proxy.wait_until_delayed().await;
    tokio::time::timeout(Duration::from_secs(60), lock.release()).await.unwrap();
}
