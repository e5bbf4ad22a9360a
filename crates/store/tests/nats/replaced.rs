//! A server that comes back to its address with another directory: whoever was connected notices, and writes nothing there.

use std::time::Duration;

use protocol::Revision;
use store::{CommitError, NatsSettings, NatsStore, Patience, ReadError, Store as _, Unavailable};
use testkit::nats::{Proxy, Server};

use crate::contract::{change, run};

fn is_gone(error: &Unavailable) -> bool {
    matches!(error, Unavailable::NoStream { stream, .. } if stream == "callboard-journal")
}

fn is_another(error: &Unavailable) -> bool {
    matches!(error, Unavailable::OtherStore { .. })
}

/// A commit at the very place where the run of the first store stands: compare-and-set has nothing against it.
#[tokio::test]
async fn a_run_of_another_store_that_stands_at_the_same_sequence_is_not_written_to() {
    let mut server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    let first = store.commit(change(&run, store::Position::absent(), "1")).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    server.kill();
    let _had = server.restart_empty();
    let other = NatsStore::new(server.settings());
    let twin = other.commit(change(&run, store::Position::absent(), "other 1")).await.unwrap();
    assert_eq!(twin, first, "both stores are alike");
    let error = store.commit(change(&run, first, "2")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Unavailable(error) if is_another(error)), "{error:?}");
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_another(error)), "{error:?}");
    let error = watch.next().await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_another(error)), "{error:?}");
    other.commit(change(&run, twin, "other 2")).await.unwrap();
    let entries = other.entries(&run, Revision(0)).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.body.as_str()).collect::<Vec<_>>(), ["other 1", "other 2"]);
}

#[tokio::test]
async fn nothing_is_made_where_a_store_was() {
    let mut server = Server::start();
    let settings = NatsSettings { lease: Duration::from_millis(300), ..server.settings() };
    let (store, run) = (NatsStore::new(settings), run("r"));
    let first = store.commit(change(&run, store::Position::absent(), "1")).await.unwrap();
    let lock = store.lock_engine(&run).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    server.kill();
    let had = server.restart_empty();
    // What was said before anybody noticed may have been heard, for all we know.
    let error = match store.commit(change(&run, first, "2")).await.unwrap_err() {
        CommitError::Unavailable(error) => error,
        CommitError::Unknown { source, .. } => *source.downcast().unwrap(),
        error => panic!("{error:?}"),
    };
    assert!(is_gone(&error), "{error:?}");
    let error = watch.next().await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_gone(error)), "{error:?}");
    lock.release().await;
    let client = async_nats::connect(server.address()).await.unwrap();
    let account = async_nats::jetstream::new(client).query_account().await.unwrap();
    assert_eq!(account.streams, 0, "nothing was made there");
    // And with what it had, all goes on.
    server.kill();
    let _empty = server.restart_in(had);
    store.commit(change(&run, first, "2")).await.unwrap();
    assert_eq!(store.entries(&run, Revision(0)).await.unwrap().len(), 2);
}

/// What leads there is another store's affair.
#[tokio::test]
async fn a_lease_is_not_renewed_in_another_store() {
    let mut server = Server::start();
    let settings = NatsSettings { lease: Duration::from_millis(300), ..server.settings() };
    let (store, run) = (NatsStore::new(settings.clone()), run("r"));
    store.commit(change(&run, store::Position::absent(), "1")).await.unwrap();
    let lock = store.lock_engine(&run).await.unwrap();
    server.kill();
    let _had = server.restart_empty();
    let other = NatsStore::new(settings);
    other.open().await.unwrap();
    // It has had its chance when it has been told that it is wrong.
    assert!(store.load(&run).await.is_err());
    lock.release().await;
    let client = async_nats::connect(server.address()).await.unwrap();
    let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
    assert_eq!(leases.cached_info().state.last_sequence, 0, "nobody has led anything there");
}

/// What was said to the first server it may have heard: the other one cannot tell.
#[tokio::test]
async fn whether_a_write_landed_that_was_under_way_when_the_store_was_replaced_is_not_known() {
    let mut server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("r"));
    let settings = wire.store(Duration::from_secs(60)).settings().clone();
    // Longer than a server takes to come back.
    let patience = Patience { answer: Duration::from_secs(4), ..settings.patience };
    let store = NatsStore::new(NatsSettings { patience, ..settings });
    let first = store.commit(change(&run, store::Position::absent(), "1")).await.unwrap();
    wire.hold_at("HPUB callboard.run.");
    let commit = change(&run, first, "2");
    let id = commit.write_id;
    let (outcome, ()) = tokio::join!(store.commit(commit), async {
        wire.holds_something().await;
        server.kill();
        let _had = server.restart_empty();
        NatsStore::new(server.settings()).open().await.unwrap();
        wire.cut();
    });
    let Err(CommitError::Unknown { write_id, source }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(write_id, id);
    assert!(is_another(source.downcast_ref().unwrap()), "{source:?}");
    let error = store.settle(&run, id).await.unwrap_err();
    assert!(matches!(&error, ReadError::Unavailable(error) if is_another(error)), "{error:?}");
}

/// A client keeps what it is told while it has no connection, and says it to whoever it finds next.
#[tokio::test]
async fn nothing_is_said_while_nobody_is_there_that_another_store_would_hear() {
    let (mut server, run) = (Server::start(), run("r"));
    let other = NatsStore::new(server.settings());
    let twin = other.commit(change(&run, store::Position::absent(), "other 1")).await.unwrap();
    server.kill();
    let others = server.restart_empty();
    let patience = Patience {
        answer: Duration::from_millis(300),
        outage: Duration::from_millis(600),
        ..Patience::default()
    };
    let store = NatsStore::new(NatsSettings { patience, ..server.settings() });
    let first = store.commit(change(&run, store::Position::absent(), "1")).await.unwrap();
    assert_eq!(twin, first, "both stores are alike");
    server.kill();
    assert!(store.load(&run).await.is_err(), "it has noticed");
    assert!(store.commit(change(&run, first, "2")).await.is_err());
    let _had = server.restart_in(others);
    loop {
        match store.load(&run).await.unwrap_err() {
            ReadError::Unavailable(error) if is_another(&error) => break,
            // Its patience is spent: it says so without waiting, and the client needs a turn.
            ReadError::Unavailable(Unavailable::Server { .. }) => tokio::task::yield_now().await,
            error => panic!("{error:?}"),
        }
    }
    let entries = NatsStore::new(server.settings()).entries(&run, Revision(0)).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.body.as_str()).collect::<Vec<_>>(), ["other 1"]);
}
