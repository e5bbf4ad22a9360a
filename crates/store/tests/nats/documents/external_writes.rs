//! Writes of other clients to a document: detection, classification and quarantine.

use std::time::Duration;

use protocol::{Revision, RunId};
use serde_json::{Value, json};
use store::{
    Commit, CommitError, Digest, ExternalWrite, ExternalWriteRefusal, NatsStore, Position, Store as _,
};

use super::client::{BUCKET, Client};
use crate::contract::{entry_commit, run};
use crate::test_store::TestStore;
use testkit::nats::Server;

struct Fixture {
    _server: Server,
    store: TestStore,
    client: Client,
    run: RunId,
    position: Position,
}

impl Fixture {
    async fn new() -> Self {
        let server = Server::start();
        let store = TestStore::with_documents(NatsStore::new(server.settings()));
        let run = run("peer.global.cycle.1");
        let first = store.commit(with_count(&run, Position::absent(), 1)).await.unwrap();
        let position = store.commit(with_count(&run, first, 2)).await.unwrap();
        Self { client: Client::of(&server).await, _server: server, store, run, position }
    }

    async fn newest(&self) -> (u64, Value) {
        self.client.get_json(&self.run).await
    }

    async fn external_write(&self) -> Option<ExternalWrite> {
        self.store.load(&self.run).await.unwrap().unwrap().external_write
    }

    /// Returns why the external write cannot be accepted.
    async fn rejection(&self) -> ExternalWriteRefusal {
        self.external_write().await.unwrap().change.unwrap_err()
    }
}

fn with_count(run: &RunId, expected: Position, count: u32) -> Commit {
    let document = json!({ "version": 2, "count": count, "phases": { "plan": { "status": "pending" } } });
    Commit { document: Some(document.to_string()), ..entry_commit(run, expected, &count.to_string()) }
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap()
}

#[tokio::test]
async fn a_change_of_the_newest_document_is_reported_with_both_versions() {
    let fixture = Fixture::new().await;
    let (sequence, mut entry) = fixture.newest().await;
    assert_eq!((&entry["count"], &entry["phases"]["plan"]["status"]), (&json!(2), &json!("pending")));
    entry["count"] = json!(3);
    let theirs = fixture.client.update(&fixture.run, bytes(&entry), sequence).await;
    let loaded = fixture.store.load(&fixture.run).await.unwrap().unwrap();
    let external_write = loaded.external_write.unwrap();
    assert_eq!((external_write.bucket.as_str(), external_write.sequence), (BUCKET, theirs));
    let change = external_write.change.unwrap();
    let count = |text: &str| serde_json::from_str::<Value>(text).unwrap()["count"].clone();
    assert_eq!((count(&change.before), count(&change.after)), (json!(2), json!(3)));
    // A commit that has not seen the external write is refused.
    assert_eq!(loaded.position.revision, Revision(2));
    let unseen = fixture.store.commit(with_count(&fixture.run, fixture.position, 9)).await.unwrap_err();
    assert!(matches!(unseen, CommitError::Conflict { found: Revision(2), .. }), "{unseen}");
    let third = fixture.store.commit(with_count(&fixture.run, loaded.position, 3)).await.unwrap();
    assert_eq!((third.revision, fixture.external_write().await), (Revision(3), None));
}

#[tokio::test]
async fn reformatting_a_document_changes_nothing() {
    let fixture = Fixture::new().await;
    let (_, entry) = fixture.newest().await;
    fixture.client.put(&fixture.run, bytes(&entry)).await;
    let loaded = fixture.store.load(&fixture.run).await.unwrap().unwrap();
    assert_eq!((loaded.position, loaded.external_write), (fixture.position, None));
    let third = fixture.store.commit(with_count(&fixture.run, fixture.position, 3)).await.unwrap();
    assert_eq!(third.revision, Revision(3));
    assert_eq!(fixture.newest().await.1["count"], 3);
}

#[tokio::test]
async fn every_external_write_that_cannot_be_accepted_has_its_reason() {
    let fixture = Fixture::new().await;
    let (_, entry) = fixture.newest().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut entry = entry.clone();
        change(&mut entry);
        bytes(&entry)
    };
    fixture.client.put(&fixture.run, "rubbish").await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::NotAnObject);
    // The engine's part of an entry is its field `callboard`.
    fixture.client.put(&fixture.run, r#"{"count":3}"#).await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::EnginePartMissing);
    fixture.client.put(&fixture.run, with(&|entry| entry["callboard"]["head"]["epoch"] = json!(7))).await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::EnginePartChanged);
    fixture.client.delete(&fixture.run).await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::Deleted);
    let bucket = fixture.client.bucket().await;
    bucket.purge().filter(format!("$KV.{BUCKET}.{}", fixture.run)).await.unwrap();
    let external_write = fixture.external_write().await.unwrap();
    assert_eq!(
        (external_write.sequence, external_write.body, external_write.change),
        (0, None, Err(ExternalWriteRefusal::Deleted))
    );
    // A commit that has seen it overwrites it.
    let position = fixture.store.load(&fixture.run).await.unwrap().unwrap().position;
    fixture.store.commit(with_count(&fixture.run, position, 3)).await.unwrap();
    assert_eq!((fixture.external_write().await, fixture.newest().await.1["count"].clone()), (None, json!(3)));
}

#[tokio::test]
async fn a_write_based_on_an_older_entry_is_stale() {
    let fixture = Fixture::new().await;
    let (_, mut entry) = fixture.newest().await;
    fixture.store.commit(with_count(&fixture.run, fixture.position, 3)).await.unwrap();
    // Changed or not, it would undo later commits.
    fixture.client.put(&fixture.run, bytes(&entry)).await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::Stale { from: Revision(2) });
    entry["count"] = json!(9);
    fixture.client.put(&fixture.run, bytes(&entry)).await;
    assert_eq!(fixture.rejection().await, ExternalWriteRefusal::Stale { from: Revision(2) });
}

#[tokio::test]
async fn the_second_of_two_external_writes_counts_only_if_it_has_seen_the_first() {
    for seen in [true, false] {
        let fixture = Fixture::new().await;
        let (sequence, mut entry) = fixture.newest().await;
        entry["count"] = json!(3);
        let first = fixture.client.update(&fixture.run, bytes(&entry), sequence).await;
        entry["other"] = json!(true);
        let second = match seen {
            true => fixture.client.update(&fixture.run, bytes(&entry), first).await,
            false => fixture.client.put(&fixture.run, bytes(&entry)).await,
        };
        let external_write = fixture.external_write().await.unwrap();
        assert_eq!(
            external_write.change.as_ref().err(),
            (!seen).then_some(&ExternalWriteRefusal::OverwroteUnseen)
        );
        // Both writes are quarantined.
        let copy_key = fixture.store.quarantine_external_write(&fixture.run, &external_write).await.unwrap();
        assert_eq!(copy_key, Some(format!("recovery.{}.{second}", fixture.run)));
        assert_eq!(fixture.client.get(&format!("recovery.{}.{second}", fixture.run)).await.1, bytes(&entry));
        let (_, earlier) = fixture.client.get(&format!("recovery.{}.{first}", fixture.run)).await;
        assert_eq!(serde_json::from_slice::<Value>(&earlier).unwrap()["count"], 3);
        assert_eq!(
            fixture.store.quarantine_external_write(&fixture.run, &external_write).await.unwrap(),
            copy_key,
            "idempotent"
        );
        // Neither is listed as a run.
        assert_eq!(fixture.store.runs().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_watch_reports_an_external_write_as_no_entries() {
    let fixture = Fixture::new().await;
    let mut watch = fixture.store.watch(&fixture.run, Revision(2)).await.unwrap();
    let mut early = fixture.store.watch(&fixture.run, Revision(0)).await.unwrap();
    assert_eq!(early.next().await.unwrap().len(), 2);
    fixture.client.put(&fixture.run, "rubbish").await;
    for watch in [&mut watch, &mut early] {
        assert_eq!(watch.next().await.unwrap(), []);
        assert_eq!(watch.after(), Revision(2));
    }
    // A later watch reports it as well.
    let mut late = fixture.store.watch(&fixture.run, Revision(2)).await.unwrap();
    assert_eq!(late.next().await.unwrap(), []);
    let position = fixture.store.load(&fixture.run).await.unwrap().unwrap().position;
    fixture.store.commit(with_count(&fixture.run, position, 3)).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].body, "3");
}

#[tokio::test]
async fn a_watch_reports_an_older_entry_that_is_written_again() {
    let fixture = Fixture::new().await;
    let (_, older) = fixture.newest().await;
    fixture.store.commit(with_count(&fixture.run, fixture.position, 3)).await.unwrap();
    let mut watch = fixture.store.watch(&fixture.run, Revision(3)).await.unwrap();
    fixture.client.put(&fixture.run, bytes(&older)).await;
    let entries = tokio::time::timeout(Duration::from_secs(60), watch.next()).await.unwrap();
    assert_eq!(entries.unwrap(), []);
}

#[tokio::test]
async fn an_external_write_of_the_maximum_size_is_quarantined() {
    let fixture = Fixture::new().await;
    let largest = vec![b'x'; 1024 * 1024];
    let sequence = fixture.client.put(&fixture.run, largest.clone()).await;
    let external_write = fixture.external_write().await.unwrap();
    let copy_key =
        fixture.store.quarantine_external_write(&fixture.run, &external_write).await.unwrap().unwrap();
    assert_eq!(copy_key, format!("recovery.{}.{sequence}", fixture.run));
    assert_eq!(
        fixture.store.quarantine_external_write(&fixture.run, &external_write).await.unwrap(),
        Some(copy_key.clone())
    );
    // With our headers it exceeds the maximum payload, so a blob holds the bytes.
    let reference: Value = serde_json::from_slice(&fixture.client.get(&copy_key).await.1).unwrap();
    let digest: Digest =
        reference["$blob"].as_str().unwrap().strip_prefix("sha256:").unwrap().parse().unwrap();
    assert_eq!(fixture.store.blob(&digest).await.unwrap(), Some(largest));
}

#[tokio::test]
async fn a_new_run_does_not_overwrite_an_external_entry() {
    let fixture = Fixture::new().await;
    let taken = run("peer.global.cycle.2");
    let theirs = br#"{"version":1,"status":"COMPLETED"}"#;
    let sequence = fixture.client.put(&taken, theirs.as_slice()).await;
    let refused = fixture.store.commit(with_count(&taken, Position::absent(), 1)).await.unwrap_err();
    assert!(matches!(refused, CommitError::Conflict { found: Revision(0), .. }), "{refused}");
    assert_eq!(fixture.client.get(taken.as_str()).await, (sequence, theirs.as_slice().into()));
    assert_eq!(fixture.store.load(&taken).await.unwrap(), None);
    assert_eq!(fixture.store.runs().await.unwrap().len(), 1);
    // A deleted key is free.
    fixture.client.delete(&taken).await;
    fixture.store.commit(with_count(&taken, Position::absent(), 1)).await.unwrap();
}
