//! A server that is restarted with another directory: connected clients notice, and write nothing there.

use std::time::Duration;

use protocol::Revision;
use store::{CommitError, NatsSettings, NatsStore, ReadError, Store as _, Timeouts, Unavailable};
use testkit::nats::{Proxy, Server};

use crate::contract::{entry_commit, run};

fn is_deleted_journal(error: &Unavailable) -> bool {
    matches!(error, Unavailable::StreamDeleted { stream, .. } if stream == "callboard-journal")
}

fn is_other_store(error: &Unavailable) -> bool {
    matches!(error, Unavailable::StoreReplaced { .. })
}

/// Compare-and-set accepts this commit: the run has the same last sequence in both stores.
#[tokio::test]
async fn a_run_of_another_store_at_the_same_sequence_is_not_written_to() {
    let mut server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    let first = store.commit(entry_commit(&run, store::Position::absent(), "1")).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    server.kill();
    let _previous = server.restart_empty();
    let other = NatsStore::new(server.settings());
    let other_first = other.commit(entry_commit(&run, store::Position::absent(), "other 1")).await.unwrap();
    assert_eq!(other_first, first, "the stores have the same sequences");
    let error = store.commit(entry_commit(&run, first, "2")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Unavailable(error) if is_other_store(error)), "{error:?}");
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_other_store(error)), "{error:?}");
    let error = watch.next().await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_other_store(error)), "{error:?}");
    other.commit(entry_commit(&run, other_first, "other 2")).await.unwrap();
    let entries = other.entries(&run, Revision(0)).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.body.as_str()).collect::<Vec<_>>(), ["other 1", "other 2"]);
}

#[tokio::test]
async fn streams_are_not_created_on_a_server_that_lost_them() {
    let mut server = Server::start();
    let timeouts = Timeouts { request: Duration::from_millis(500), ..Timeouts::default() };
    let settings = NatsSettings { lease: Duration::from_millis(300), timeouts, ..server.settings() };
    let (store, run) = (NatsStore::new(settings), run("r"));
    let first = store.commit(entry_commit(&run, store::Position::absent(), "1")).await.unwrap();
    let lock = store.lock_engine(&run).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    server.kill();
    let previous = server.restart_empty();
    // If the client sent the write before it checked which store the server has, the outcome is unknown.
    let error = match store.commit(entry_commit(&run, first, "2")).await.unwrap_err() {
        CommitError::Unavailable(error) => error,
        CommitError::OutcomeUnknown { source, .. } => *source.downcast().unwrap(),
        error => panic!("{error:?}"),
    };
    assert!(is_deleted_journal(&error), "{error:?}");
    let error = watch.next().await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_deleted_journal(error)), "{error:?}");
    lock.release().await;
    let client = async_nats::connect(server.address()).await.unwrap();
    let account = async_nats::jetstream::new(client).query_account().await.unwrap();
    assert_eq!(account.streams, 0, "no stream was created");
    // When the server has its own directory again, the store continues.
    server.kill();
    let _empty = server.restart_in(previous);
    store.commit(entry_commit(&run, first, "2")).await.unwrap();
    assert_eq!(store.entries(&run, Revision(0)).await.unwrap().len(), 2);
}

/// The first server may have stored the write; the second cannot tell.
#[tokio::test]
async fn a_write_in_flight_while_the_store_is_replaced_has_an_unknown_outcome() {
    let mut server = Server::start();
    let (proxy, run) = (Proxy::to(&server).await, run("r"));
    let settings = proxy.store(Duration::from_secs(60)).settings().clone();
    // Longer than a server needs to restart.
    let timeouts = Timeouts { request: Duration::from_secs(2), ..settings.timeouts };
    let store = NatsStore::new(NatsSettings { timeouts, ..settings });
    let first = store.commit(entry_commit(&run, store::Position::absent(), "1")).await.unwrap();
    proxy.delay_from("HPUB callboard.run.");
    let commit = entry_commit(&run, first, "2");
    let id = commit.write_id;
    let (outcome, ()) = tokio::join!(store.commit(commit), async {
        proxy.wait_until_delayed().await;
        server.kill();
        let _previous = server.restart_empty();
        NatsStore::new(server.settings()).open().await.unwrap();
        proxy.cut();
    });
    let Err(CommitError::OutcomeUnknown { write_id, source }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(write_id, id);
    assert!(is_other_store(source.downcast_ref().unwrap()), "{source:?}");
    let error = store.resolve_unknown_write(&run, id).await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_other_store(error)), "{error:?}");
}

/// The client buffers requests while it is disconnected.
#[tokio::test]
async fn requests_without_a_connection_do_not_reach_another_store() {
    let (mut server, run) = (Server::start(), run("r"));
    let other = NatsStore::new(server.settings());
    let other_first = other.commit(entry_commit(&run, store::Position::absent(), "other 1")).await.unwrap();
    server.kill();
    let other_directory = server.restart_empty();
    let timeouts = Timeouts {
        request: Duration::from_millis(300),
        outage: Duration::from_millis(600),
        ..Timeouts::default()
    };
    let store = NatsStore::new(NatsSettings { timeouts, ..server.settings() });
    let first = store.commit(entry_commit(&run, store::Position::absent(), "1")).await.unwrap();
    assert_eq!(other_first, first, "the stores have the same sequences");
    server.kill();
    assert!(store.load(&run).await.is_err(), "the client is disconnected");
    assert!(store.commit(entry_commit(&run, first, "2")).await.is_err());
    let _previous = server.restart_in(other_directory);
    loop {
        match store.load(&run).await.unwrap_err() {
            ReadError::Unavailable(error) if is_other_store(&error) => break,
            // The outage timeout has passed, so calls fail at once. Yield, so that the client can reconnect.
            ReadError::Unavailable(Unavailable::Server { .. }) => tokio::task::yield_now().await,
            error => panic!("{error:?}"),
        }
    }
    let entries = NatsStore::new(server.settings()).entries(&run, Revision(0)).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.body.as_str()).collect::<Vec<_>>(), ["other 1"]);
}
