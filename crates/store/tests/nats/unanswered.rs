//! Writes whose acknowledgement is late, lost or wrong: the right error each time, and no entry twice.

use std::time::Duration;

use protocol::Revision;
use store::{Commit, CommitError, NatsStore, Position, ReadError, Store as _, StoredEntry, Unavailable};
use testkit::nats::{Proxy, Server, deliver};

use crate::contract::{entry_commit, run};

fn bodies(entries: &[StoredEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.body.as_str()).collect()
}

#[tokio::test]
async fn a_write_resolved_as_lost_does_not_land_later() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_millis(600)), run("late"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.delay_requests();
    let commit = entry_commit(&run, first, "late");
    let id = commit.write_id;
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, CommitError::OutcomeUnknown { .. }), "{error:?}");
    let connections = proxy.cut();
    let resolved = loop {
        match store.resolve_unknown_write(&run, id).await {
            Ok(resolved) => break resolved,
            Err(ReadError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(resolved, None);
    let answer = deliver(connections).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1"]);
    store.commit(entry_commit(&run, first, "2")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn a_write_whose_connection_is_cut_is_retried_and_lands_once() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_secs(60)), run("cut"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.delay_requests();
    let (writer, name) = (store.clone(), run.clone());
    let writing = tokio::spawn(async move { writer.commit(entry_commit(&name, first, "2")).await });
    proxy.wait_until_delayed().await;
    let connections = proxy.cut();
    let second = writing.await.unwrap().unwrap();
    assert_eq!(second.revision, Revision(2));
    let answer = deliver(connections).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, second);
}

#[tokio::test]
async fn an_unacknowledged_write_is_not_a_conflict_with_its_retry() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_secs(60)), run("unacknowledged"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.drop_answers_after_run_write();
    let (writer, name) = (store.clone(), run.clone());
    let writing = tokio::spawn(async move { writer.commit(entry_commit(&name, first, "2")).await });
    let direct = NatsStore::new(server.settings());
    while direct.newest_revision(&run).await.unwrap() != Some(Revision(2)) {}
    proxy.cut();
    let second = writing.await.unwrap().unwrap();
    assert_eq!(second, direct.load(&run).await.unwrap().unwrap().position);
    assert_eq!(bodies(&direct.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// Replicated servers sometimes refuse a correct sequence.
#[tokio::test]
async fn a_refusal_without_a_conflict_is_retried() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_secs(60)), run("alone"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.refuse_run_writes(3);
    assert_eq!(store.commit(entry_commit(&run, first, "2")).await.unwrap().revision, Revision(2));
    assert_eq!(proxy.remaining_refusals(), 0, "every refusal was used");
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// Any replica answers a direct get, and it may lag.
#[tokio::test]
async fn reads_go_to_the_leader_of_a_stream() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let store = proxy.store(Duration::from_secs(1));
    store.open().await.unwrap();
    proxy.delay_from("DIRECT.GET");
    let (without_document, with_document) = (run("plain"), run("peer.global.cycle.1"));
    for (run, document) in [(&without_document, None), (&with_document, Some("{}".to_owned()))] {
        let (mut position, lock) = (Position::absent(), store.lock_engine(run).await.unwrap());
        // More entries than the store reads one by one, and the last one is in a blob.
        for n in 1..=9_usize {
            let commit = entry_commit(run, position, &"x".repeat(if n == 9 { 200_000 } else { n }));
            let (id, document) = (commit.write_id, document.clone());
            position = store.commit(Commit { document, ..commit }).await.unwrap();
            assert_eq!(store.resolve_unknown_write(run, id).await.unwrap(), Some(position));
        }
        assert_eq!(store.load(run).await.unwrap().unwrap().tail.len(), 9);
        assert!(store.engine_holder(run).await.unwrap().is_some());
        lock.release().await;
    }
    assert_eq!(store.runs().await.unwrap().len(), 2);
}

/// Otherwise a restore would take an older document than the journal has.
#[tokio::test]
async fn an_outage_is_not_taken_for_a_damaged_journal() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_millis(300)), run("large"));
    store.commit(entry_commit(&run, Position::absent(), &"x".repeat(200_000))).await.unwrap();
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(1));
    proxy.delay_from("OBJ_callboard-blobs");
    let result = store.last_intact_revision(&run).await;
    assert!(matches!(result, Err(ReadError::Unavailable(Unavailable::Server { .. }))), "{result:?}");
}

#[tokio::test]
async fn refusals_without_a_conflict_that_do_not_end_are_an_outage() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) = (proxy.store(Duration::from_millis(300)), run("alone"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.refuse_run_writes(u32::MAX);
    let error = store.commit(entry_commit(&run, first, "2")).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(_)), "{error:?}");
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, first);
}
