//! Large commits go into blobs, and what does not fit is refused before anything is written.

use std::time::Duration;

use store::{Commit, CommitError, Digest, NatsStore, Position, Store as _};

use crate::contract::{entry_commit, part, run};
use protocol::Revision;
use testkit::nats::{Proxy, Server};

#[tokio::test]
async fn a_commit_larger_than_the_maximum_payload_lands() {
    let server = Server::start_with("max_payload: 32768");
    let (store, run) = (NatsStore::new(server.settings()), run("large"));
    let parts = vec![part("document", &"ü".repeat(100_000))];
    let commit =
        Commit { parts: parts.clone(), ..entry_commit(&run, Position::absent(), &"x".repeat(100_000)) };
    store.commit(commit).await.unwrap();
    let store = NatsStore::new(server.settings());
    assert_eq!(store.parts_at(&run, Revision(1)).await.unwrap(), parts);
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(1));
    let entry = store.entry(&run, Revision(1)).await.unwrap().unwrap();
    assert_eq!(entry.body.len(), 100_000);
}

#[tokio::test]
async fn a_summary_larger_than_the_maximum_payload_is_refused_with_both_sizes() {
    let server = Server::start_with("max_payload: 32768");
    let (store, run) = (NatsStore::new(server.settings()), run("large"));
    let commit = Commit { summary: "x".repeat(40_000), ..entry_commit(&run, Position::absent(), "1") };
    let error = store.commit(commit).await.unwrap_err();
    let CommitError::TooLarge { size, limit } = error else { panic!("{error}") };
    assert!(size > 40_000 && limit < 32768, "{size} {limit}");
    assert_eq!(store.load(&run).await.unwrap(), None);
}

/// Long enough for several checkpoints, which commits with a snapshot carry, and for reads with a JetStream consumer.
#[tokio::test]
async fn a_long_run_is_readable_at_every_revision() {
    const LAST: u64 = 1200;
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("long"));
    let other = crate::contract::run("other");
    let (mut position, mut other_position) = (Position::absent(), Position::absent());
    for n in 1..=LAST {
        let snapshot = (n % 256 == 0).then(|| n.to_string());
        let parts = vec![part(&format!("{:02}", n % 50), &n.to_string())];
        let commit = Commit { parts, snapshot, ..entry_commit(&run, position, &n.to_string()) };
        position = store.commit(commit).await.unwrap();
        if n % 7 == 0 {
            other_position = store.commit(entry_commit(&other, other_position, "")).await.unwrap();
        }
    }
    let store = NatsStore::new(server.settings());
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.snapshot.unwrap().revision, Revision(1024));
    assert_eq!(loaded.tail.len(), 176);
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(LAST));
    for n in [1, 2, 255, 256, 257, 700, 1199, LAST] {
        assert_eq!(store.entry(&run, Revision(n)).await.unwrap().unwrap().body, n.to_string());
        let parts = store.parts_at(&run, Revision(n)).await.unwrap();
        assert_eq!(parts.len() as u64, n.min(50));
        assert!(parts.iter().all(|part| part.body.parse::<u64>().unwrap() > n.saturating_sub(50)));
    }
    let between = store.entries_between(&run, Revision(100), Revision(900)).await.unwrap();
    assert!(between.iter().map(|entry| entry.revision.0).eq(101..=900));
    let mut watch = store.watch(&run, Revision(1000)).await.unwrap();
    while watch.after().0 < LAST {
        let after = watch.after().0;
        let entries = watch.next().await.unwrap();
        assert!(entries.iter().map(|entry| entry.revision.0).eq(after + 1..=watch.after().0));
    }
}

/// Otherwise a writer that is killed would leave a blob that cannot be read and is never written again.
#[tokio::test]
async fn a_blob_is_found_only_when_it_is_complete() {
    let server = Server::start();
    let store = NatsStore::new(server.settings());
    store.open().await.unwrap();
    let proxy = Proxy::to(&server).await;
    let killed = proxy.store(Duration::from_secs(60));
    proxy.delay_from("$O.callboard-blobs.C.");
    let writer = tokio::spawn(async move { killed.put_blobs(vec![b"text".to_vec()]).await });
    proxy.wait_until_delayed().await;
    let digest = Digest::of("text");
    assert_eq!(store.blob(&digest).await.unwrap(), None);
    writer.abort();
    store.put_blobs(vec![b"text".to_vec()]).await.unwrap();
    assert_eq!(store.blob(&digest).await.unwrap(), Some(b"text".to_vec()));
}
