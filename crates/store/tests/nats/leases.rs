//! An engine that is not heard of loses its run; one that is heard of keeps it.

use std::time::Duration;

use protocol::Epoch;
use rustix::process::{Pid, Signal, kill_process};
use store::{CommitError, EngineLockError, NatsSettings, NatsStore, Note, Position, Store as _};
use testkit::nats::{Proxy, Server};

use crate::contract::roles::Player;
use crate::contract::{change, run};

/// A store whose leases are short. Whoever makes the streams settles that for all.
async fn with_short_leases(server: &Server) -> NatsStore {
    let store = NatsStore::new(NatsSettings { lease: Duration::from_millis(600), ..server.settings() });
    store.open().await.unwrap();
    store
}

#[tokio::test]
async fn a_run_whose_engine_is_not_heard_of_any_more_can_be_taken_over() {
    let server = Server::start();
    let (store, run) = (with_short_leases(&server).await, run("led"));
    let mut engine = Player::start(&server, "lead", &run, 0);
    assert_eq!(engine.hear().as_deref(), Some("1"));
    // It lives, so nobody can know that it will not act; and it does not renew its lease.
    let engine_id = Pid::from_raw(engine.pid().try_into().unwrap()).unwrap();
    kill_process(engine_id, Signal::STOP).unwrap();
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
    let late = store::Commit { epoch: Some(Epoch(1)), ..change(&run, Position::absent(), "late") };
    let refused = NatsStore::new(server.settings()).commit(late).await.unwrap_err();
    assert!(matches!(refused, CommitError::Fenced { held: Epoch(1), by: Epoch(2) }), "{refused}");
    kill_process(engine_id, Signal::CONT).unwrap();
}

#[tokio::test]
async fn an_engine_that_is_heard_of_keeps_its_run() {
    let server = Server::start();
    let (store, run) = (with_short_leases(&server).await, run("led"));
    let lock = store.lock_engine(&run).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
    // Renewed three times in its length: after six times it would have run out twice.
    while leases.get_info().await.unwrap().state.last_sequence < 7 {
        let refused = NatsStore::new(server.settings()).lock_engine(&run).await.unwrap_err();
        assert!(matches!(refused, EngineLockError::Held { .. }), "{refused}");
    }
    drop(lock);
    assert_eq!(NatsStore::new(server.settings()).lock_engine(&run).await.unwrap().epoch(), Epoch(2));
}

#[tokio::test]
async fn of_two_engines_that_begin_at_the_same_instant_one_acts() {
    let server = Server::start();
    let mut leading = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = NatsStore::new(server.settings());
        leading.spawn(async move { store.lock_engine(&run("led")).await });
    }
    let leads = leading.join_all().await;
    assert_eq!(leads.iter().filter(|lock| lock.is_ok()).count(), 1);
    for refused in leads.iter().filter_map(|lock| lock.as_ref().err()) {
        assert!(matches!(refused, EngineLockError::Held { .. }), "{refused}");
    }
}

/// On this machine a lease is over when its process lets go. Another one has only the server's word.
#[tokio::test]
async fn a_lead_that_was_given_back_is_free_for_other_machines_at_once() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("led"));
    let lock = store.lock_engine(&run).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
    let is_held = async || {
        let last = leases.get_last_raw_message_by_subject("callboard.lease.led").await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&last.payload).unwrap()["held"] == true
    };
    assert!(is_held().await);
    lock.release().await;
    assert!(!is_held().await);
}

#[tokio::test]
async fn where_somebody_made_leases_that_never_end_they_are_given_back_and_that_is_noted() {
    let server = Server::start();
    // Without the other streams they would tell of a loss.
    NatsStore::new(server.settings()).open().await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let client = async_nats::jetstream::new(client);
    client.delete_stream("callboard-leases").await.unwrap();
    let (name, subjects) = ("callboard-leases".to_owned(), vec!["callboard.lease.*".to_owned()]);
    let config = async_nats::jetstream::stream::Config { name, subjects, ..Default::default() };
    let leases = client.create_stream(config).await.unwrap();
    let (store, run) = (NatsStore::new(server.settings()), run("led"));
    let notes = store.open().await.unwrap();
    let is_it = |note: &Note| matches!(note, Note::OtherSettings { setting: "maximum age", .. });
    assert_eq!(notes.iter().filter(|note| is_it(note)).count(), 1, "{notes:?}");
    store.lock_engine(&run).await.unwrap().release().await;
    let last = leases.get_last_raw_message_by_subject("callboard.lease.led").await.unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&last.payload).unwrap()["held"], false);
}

#[tokio::test]
async fn a_lead_is_given_back_within_the_length_of_a_lease_though_nobody_answers() {
    let server = Server::start();
    with_short_leases(&server).await;
    let wire = Proxy::to(&server).await;
    // It would wait as long for the answer to a renewal.
    let store = wire.store(Duration::from_secs(3600));
    let lock = store.lock_engine(&run("led")).await.unwrap();
    wire.hold();
    wire.holds_something().await;
    tokio::time::timeout(Duration::from_secs(60), lock.release()).await.unwrap();
}
