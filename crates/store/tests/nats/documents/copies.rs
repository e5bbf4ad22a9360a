//! A commit with a document is an entry of the bucket, which is then copied to the journal: nothing is lost or doubled
//! between an entry and its copy. In this file, an entry is one of the bucket unless the journal is named.

use std::time::Duration;

use protocol::{Epoch, Revision, RunId};
use store::{
    Commit, CommitError, Digest, NatsSettings, NatsStore, Position, ReadError, Store as _, StoredEntry,
    Timeouts, Unavailable, ViewMark,
};
use testkit::nats::{Proxy, Server, deliver};

use super::client::Client;
use super::with_documents;
use crate::contract::{entry_commit, run};
use crate::test_store::TestStore;

fn bodies(entries: &[StoredEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.body.as_str()).collect()
}

/// A store that writes entries and fails before their copies, like a process that is killed in between. A write to a run
/// is one to its journal.
async fn failing_before_copies(proxy: &Proxy) -> TestStore {
    let store = proxy.store(Duration::from_millis(300));
    store.open().await.unwrap();
    proxy.refuse_run_writes(u32::MAX);
    TestStore::with_documents(store)
}

async fn commit_without_copy(proxy: &Proxy, run: &RunId, expected: Position, entry: &str) {
    let failed =
        failing_before_copies(proxy).await.commit(entry_commit(run, expected, entry)).await.unwrap_err();
    assert!(matches!(failed, CommitError::OutcomeUnknown { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_run_whose_first_commit_has_no_copy_exists() {
    let server = Server::start();
    let (proxy, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    commit_without_copy(&proxy, &run, Position::absent(), "1").await;
    let client = Client::of(&server).await;
    assert_eq!(client.messages(&run).await, 0, "no copy yet");
    let listed = with_documents(&server).runs().await.unwrap();
    assert_eq!(listed.iter().map(|row| (&row.run, row.revision)).collect::<Vec<_>>(), [(&run, Revision(1))]);
    assert_eq!(client.messages(&run).await, 1, "listing has written the copy");
    assert_eq!(
        with_documents(&server).runs_with_prefix("peer.", 9).await.unwrap(),
        std::slice::from_ref(&run)
    );
    let again =
        with_documents(&server).commit(entry_commit(&run, Position::absent(), "again")).await.unwrap_err();
    assert!(matches!(again, CommitError::Conflict { found: Revision(1), .. }), "{again}");
    assert_eq!(client.messages(&run).await, 1, "the copy is written once");
}

#[tokio::test]
async fn every_operation_writes_a_missing_copy() {
    let server = Server::start();
    for operation in ["load", "entries", "document", "watch", "commit", "resolve"] {
        let (store, run) = (with_documents(&server), run(operation));
        let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
        let mut watch = store.watch(&run, Revision(1)).await.unwrap();
        commit_without_copy(&Proxy::to(&server).await, &run, first, "2").await;
        let client = Client::of(&server).await;
        assert_eq!(client.messages(&run).await, 1);
        let another = with_documents(&server);
        match operation {
            "load" => assert_eq!(another.load(&run).await.unwrap().unwrap().position.revision, Revision(2)),
            "entries" => assert_eq!(bodies(&another.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]),
            "document" => assert_eq!(another.document(&run).await.unwrap().unwrap().revision, Revision(2)),
            "watch" => {
                let mut watch = another.watch(&run, Revision(1)).await.unwrap();
                assert_eq!(bodies(&watch.next().await.unwrap()), ["2"]);
            }
            "commit" => {
                let late = another.commit(entry_commit(&run, first, "late")).await.unwrap_err();
                assert!(matches!(late, CommitError::Conflict { found: Revision(2), .. }), "{late}");
            }
            _ => assert_eq!(another.resolve_unknown_write(&run, store::WriteId::new()).await.unwrap(), None),
        }
        assert_eq!(client.messages(&run).await, 2, "{operation} writes the copy");
        assert_eq!(
            bodies(&watch.next().await.unwrap()),
            ["2"],
            "a watcher misses the copy that {operation} wrote"
        );
        let position = another.load(&run).await.unwrap().unwrap().position;
        another.commit(entry_commit(&run, position, "3")).await.unwrap();
        assert_eq!(bodies(&another.entries(&run, Revision(0)).await.unwrap()), ["1", "2", "3"]);
        assert_eq!(another.last_intact_revision(&run).await.unwrap(), Revision(3));
    }
}

/// The other client may or may not have read the commit; the journal must get its copy.
#[tokio::test]
async fn a_commit_overwritten_before_its_copy_is_not_lost() {
    for has_seen in [true, false] {
        let server = Server::start();
        let (store, run) = (with_documents(&server), run("peer.global.cycle.1"));
        let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
        commit_without_copy(&Proxy::to(&server).await, &run, first, "2").await;
        let client = Client::of(&server).await;
        let theirs = if has_seen {
            let (sequence, _) = client.get(run.as_str()).await;
            client.update(&run, "rubbish", sequence).await
        } else {
            client.put(&run, "rubbish").await
        };
        let loaded = store.load(&run).await.unwrap().unwrap();
        assert_eq!(
            (loaded.position.revision, loaded.external_write.unwrap().sequence),
            (Revision(2), theirs)
        );
        assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
    }
}

#[tokio::test]
async fn an_entry_without_a_copy_resolves_as_landed() {
    let server = Server::start();
    let (proxy, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let store = failing_before_copies(&proxy).await;
    let commit = entry_commit(&run, Position::absent(), "1");
    let id = commit.write_id;
    let failed = store.commit(commit).await.unwrap_err();
    assert!(matches!(failed, CommitError::OutcomeUnknown { .. }), "{failed:?}");
    proxy.refuse_run_writes(0);
    let resolved = store.resolve_unknown_write(&run, id).await.unwrap().unwrap();
    store.commit(entry_commit(&run, resolved, "2")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// The entry stands, and the next engine acts on it.
#[tokio::test]
async fn an_engine_replaced_between_entry_and_copy_is_fenced() {
    let server = Server::start();
    let (proxy, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let old = TestStore::with_documents(proxy.store(Duration::from_secs(60)));
    let held = old.lock_engine(&run).await.unwrap().epoch();
    let first = old.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let client = Client::of(&server).await;
    let (stored, _) = client.get(run.as_str()).await;
    proxy.refuse_run_writes(u32::MAX);
    let commit = Commit { epoch: Some(held), ..entry_commit(&run, first, "2") };
    let writing = tokio::spawn({
        let old = old.clone();
        async move { old.commit(commit).await }
    });
    while client.get(run.as_str()).await.0 == stored {}
    let new = with_documents(&server).lock_engine(&run).await.unwrap();
    proxy.refuse_run_writes(0);
    let failed = writing.await.unwrap().unwrap_err();
    assert!(matches!(failed, CommitError::Fenced { held: Epoch(1), by: Epoch(2) }), "{failed:?}");
    let loaded = with_documents(&server).load(&run).await.unwrap().unwrap();
    assert_eq!((loaded.position.revision, loaded.epoch), (Revision(2), new.epoch()));
    assert_eq!(bodies(&loaded.tail), ["1", "2"]);
}

/// More entries are written between the read of the journal and that of the bucket than the bucket keeps.
#[tokio::test]
async fn a_slow_reader_reads_again_when_the_bucket_has_dropped_entries() {
    let server = Server::start();
    let (proxy, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let slow = TestStore::with_documents(proxy.store(Duration::from_secs(60)));
    let mut position = slow.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.delay_from("MSG.GET.KV_");
    let loading = tokio::spawn({
        let (slow, run) = (slow.clone(), run.clone());
        async move { slow.load(&run).await }
    });
    proxy.wait_until_delayed().await;
    let others = with_documents(&server);
    for number in 2..=60 {
        position = others.commit(entry_commit(&run, position, &number.to_string())).await.unwrap();
    }
    proxy.forward_delayed().await;
    let loaded = loading.await.unwrap().unwrap().unwrap();
    assert_eq!((loaded.position, loaded.external_write), (position, None));
}

#[tokio::test]
async fn an_entry_resolved_as_lost_does_not_land_later() {
    for creates in [false, true] {
        let server = Server::start();
        let proxy = Proxy::to(&server).await;
        let (store, run) = (TestStore::with_documents(proxy.store(Duration::from_millis(600))), run("late"));
        // Creates the bucket.
        store.commit(entry_commit(&crate::contract::run("other"), Position::absent(), "")).await.unwrap();
        let mut position = Position::absent();
        if !creates {
            position = store.commit(entry_commit(&run, position, "1")).await.unwrap();
        }
        proxy.delay_from_bucket_write();
        let commit = entry_commit(&run, position, "late");
        let id = commit.write_id;
        let error = store.commit(commit).await.unwrap_err();
        assert!(matches!(error, CommitError::OutcomeUnknown { .. }), "{error:?}");
        let connections = proxy.cut();
        let resolved = loop {
            if let Ok(resolved) = store.resolve_unknown_write(&run, id).await {
                break resolved;
            }
        };
        assert_eq!(resolved, None);
        let answer = deliver(connections).await;
        assert!(answer.contains("wrong last sequence"), "{answer}");
        let loaded = with_documents(&server).load(&run).await.unwrap();
        assert_eq!(
            loaded.map(|loaded| loaded.position),
            (!creates).then_some(position),
            "what occupies the sequence of the lost write is not a commit"
        );
        store.commit(entry_commit(&run, position, "next")).await.unwrap();
        let entries = store.entries(&run, Revision(0)).await.unwrap();
        assert_eq!(bodies(&entries).last(), Some(&"next"));
        assert!(!bodies(&entries).contains(&"late"));
    }
}

#[tokio::test]
async fn an_unacknowledged_entry_is_not_a_conflict_with_its_retry() {
    let server = Server::start();
    let proxy = Proxy::to(&server).await;
    let (store, run) =
        (TestStore::with_documents(proxy.store(Duration::from_secs(60))), run("peer.global.cycle.1"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    proxy.drop_answers_after_bucket_write();
    let (writer, name) = (store.clone(), run.clone());
    let writing = tokio::spawn(async move { writer.commit(entry_commit(&name, first, "2")).await });
    // The reader writes the copy that the writer cannot write.
    let reader = with_documents(&server);
    while reader.newest_revision(&run).await.unwrap() != Some(Revision(2)) {}
    proxy.cut();
    let second = writing.await.unwrap().unwrap();
    assert_eq!(second, reader.load(&run).await.unwrap().unwrap().position);
    assert_eq!(bodies(&reader.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// Replicated servers sometimes refuse a correct sequence.
#[tokio::test]
async fn a_refused_entry_without_a_conflict_is_retried_or_an_outage() {
    let server = Server::start();
    let run = run("peer.global.cycle.1");
    let first = with_documents(&server).commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let proxy = Proxy::to(&server).await;
    let with_long_timeout = TestStore::with_documents(proxy.store(Duration::from_secs(60)));
    proxy.refuse_bucket_writes(3);
    let second = with_long_timeout.commit(entry_commit(&run, first, "2")).await.unwrap();
    assert_eq!((second.revision, proxy.remaining_refusals()), (Revision(2), 0), "every refusal was used");
    let with_short_timeout = TestStore::with_documents(proxy.store(Duration::from_millis(300)));
    proxy.refuse_bucket_writes(u32::MAX);
    let error = with_short_timeout.commit(entry_commit(&run, second, "3")).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(_)), "{error:?}");
    assert_eq!(bodies(&with_documents(&server).entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// A checkpoint is a commit with a snapshot. Readers start at the newest one, so it repeats what earlier messages have set,
/// such as the view marks.
#[tokio::test]
async fn view_marks_between_a_checkpoint_and_its_copy_are_kept() {
    let server = Server::start();
    let (store, run) = (with_documents(&server), run("peer.global.cycle.1"));
    let view_mark =
        |path: &str| ViewMark { path: path.to_owned(), revision: Revision(1), digest: Digest::of(path) };
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    store.record_view_marks(&run, vec![view_mark("before")]).await.unwrap();
    let proxy = Proxy::to(&server).await;
    let other = proxy.store(Duration::from_secs(60));
    other.open().await.unwrap();
    proxy.delay_from_bucket_write();
    let checkpoint = Commit { snapshot: Some("state".to_owned()), ..entry_commit(&run, first, "2") };
    let checkpoint = Commit { views: vec![view_mark("with")], ..checkpoint };
    let committing = tokio::spawn(async move { TestStore::with_documents(other).commit(checkpoint).await });
    proxy.wait_until_delayed().await;
    store.record_view_marks(&run, vec![view_mark("between")]).await.unwrap();
    proxy.forward_delayed().await;
    let second = committing.await.unwrap().unwrap();
    for reader in [&store, &with_documents(&server)] {
        let loaded = reader.load(&run).await.unwrap().unwrap();
        assert_eq!(loaded.position, second);
        let paths: Vec<_> = loaded.views.iter().map(|view| view.path.as_str()).collect();
        assert_eq!(paths, ["before", "between", "with"]);
    }
}

#[tokio::test]
async fn a_reader_that_always_loses_the_race_for_a_copy_gives_up() {
    let server = Server::start();
    let (others, run) = (with_documents(&server), run("peer.global.cycle.1"));
    let first = others.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    commit_without_copy(&Proxy::to(&server).await, &run, first, "2").await;
    let proxy = Proxy::to(&server).await;
    let settings = proxy.store(Duration::ZERO).settings().clone();
    // No time for conflicts, and enough for answers.
    let timeouts = Timeouts { request: Duration::from_secs(30), ..settings.timeouts };
    let store = NatsStore::new(NatsSettings { timeouts, ..settings });
    store.open().await.unwrap();
    proxy.delay_from("HPUB callboard.run.");
    let (loaded, ()) = tokio::join!(store.load(&run), async {
        proxy.wait_until_delayed().await;
        let second = others.load(&run).await.unwrap().unwrap().position;
        others.commit(entry_commit(&run, second, "3")).await.unwrap();
        proxy.forward_delayed().await;
    });
    let Err(ReadError::Unavailable(Unavailable::Server { source, .. })) = loaded else {
        panic!("{loaded:?}")
    };
    assert_eq!(source.to_string(), "too many conflicts with other writers of the run");
    assert_eq!(store.load(&run).await.unwrap().unwrap().position.revision, Revision(3));
}
