//! Others write in the place of a document: what is noticed, how it is judged, and where the bytes go.

use std::time::Duration;

use protocol::{Revision, RunId};
use serde_json::{Value, json};
use store::{Commit, CommitError, Digest, ExternalChange, ExternalWrite, NatsStore, Position, Store as _};

use super::client::{BUCKET, Client};
use crate::contract::{change, run};
use crate::test_store::TestStore;
use testkit::nats::Server;

struct Scene {
    _server: Server,
    store: TestStore,
    client: Client,
    run: RunId,
    position: Position,
}

impl Scene {
    async fn new() -> Self {
        let server = Server::start();
        let store = TestStore::with_documents(testkit::nats::any(NatsStore::new(server.settings())));
        let run = run("peer.global.cycle.1");
        let first = store.commit(shown(&run, Position::absent(), 1)).await.unwrap();
        let position = store.commit(shown(&run, first, 2)).await.unwrap();
        Self { client: Client::of(&server).await, _server: server, store, run, position }
    }

    async fn newest(&self) -> (u64, Value) {
        self.client.get_json(&self.run).await
    }

    async fn foreign(&self) -> Option<ExternalWrite> {
        self.store.load(&self.run).await.unwrap().unwrap().foreign
    }

    async fn external(&self) -> ExternalChange {
        self.foreign().await.unwrap().change.unwrap_err()
    }
}

fn shown(run: &RunId, expected: Position, count: u32) -> Commit {
    let document = json!({ "version": 2, "count": count, "phases": { "plan": { "status": "pending" } } });
    Commit { document: Some(document.to_string()), ..change(run, expected, &count.to_string()) }
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec_pretty(value).unwrap()
}

#[tokio::test]
async fn a_document_that_was_changed_on_top_of_ours_is_told_apart_from_ours() {
    let scene = Scene::new().await;
    let (sequence, mut entry) = scene.newest().await;
    assert_eq!((&entry["count"], &entry["phases"]["plan"]["status"]), (&json!(2), &json!("pending")));
    entry["count"] = json!(3);
    let theirs = scene.client.update(&scene.run, bytes(&entry), sequence).await;
    let loaded = scene.store.load(&scene.run).await.unwrap().unwrap();
    let foreign = loaded.foreign.unwrap();
    assert_eq!((foreign.bucket.as_str(), foreign.sequence), (BUCKET, theirs));
    let change = foreign.change.unwrap();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap()["count"].clone();
    assert_eq!((read(&change.ours), read(&change.theirs)), (json!(2), json!(3)));
    // Whoever has not seen it is refused; whoever has is not.
    assert_eq!(loaded.position.revision, Revision(2));
    let unseen = scene.store.commit(shown(&scene.run, scene.position, 9)).await.unwrap_err();
    assert!(matches!(unseen, CommitError::Conflict { found: Revision(2), .. }), "{unseen}");
    let third = scene.store.commit(shown(&scene.run, loaded.position, 3)).await.unwrap();
    assert_eq!((third.revision, scene.foreign().await), (Revision(3), None));
}

#[tokio::test]
async fn a_client_that_only_writes_it_again_in_its_own_way_changes_nothing() {
    let scene = Scene::new().await;
    let (_, entry) = scene.newest().await;
    scene.client.put(&scene.run, bytes(&entry)).await;
    let loaded = scene.store.load(&scene.run).await.unwrap().unwrap();
    assert_eq!((loaded.position, loaded.foreign), (scene.position, None));
    let third = scene.store.commit(shown(&scene.run, scene.position, 3)).await.unwrap();
    assert_eq!(third.revision, Revision(3));
    assert_eq!(scene.newest().await.1["count"], 3);
}

#[tokio::test]
async fn what_cannot_be_a_change_of_the_document_has_its_reason() {
    let scene = Scene::new().await;
    let (_, entry) = scene.newest().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut entry = entry.clone();
        change(&mut entry);
        bytes(&entry)
    };
    scene.client.put(&scene.run, "rubbish").await;
    assert_eq!(scene.external().await, ExternalChange::NoObject);
    scene.client.put(&scene.run, r#"{"count":3}"#).await;
    assert_eq!(scene.external().await, ExternalChange::NoPart);
    scene.client.put(&scene.run, with(&|entry| entry["callboard"]["head"]["epoch"] = json!(7))).await;
    assert_eq!(scene.external().await, ExternalChange::PartChanged);
    scene.client.delete(&scene.run).await;
    assert_eq!(scene.external().await, ExternalChange::Deleted);
    let bucket = scene.client.bucket().await;
    bucket.purge().filter(format!("$KV.{BUCKET}.{}", scene.run)).await.unwrap();
    let foreign = scene.foreign().await.unwrap();
    assert_eq!((foreign.sequence, foreign.body, foreign.change), (0, None, Err(ExternalChange::Deleted)));
    // All of it can be overwritten by whoever has seen it.
    let position = scene.store.load(&scene.run).await.unwrap().unwrap().position;
    scene.store.commit(shown(&scene.run, position, 3)).await.unwrap();
    assert_eq!((scene.foreign().await, scene.newest().await.1["count"].clone()), (None, json!(3)));
}

#[tokio::test]
async fn a_put_that_was_made_from_an_older_entry_is_stale() {
    let scene = Scene::new().await;
    let (_, mut entry) = scene.newest().await;
    scene.store.commit(shown(&scene.run, scene.position, 3)).await.unwrap();
    // Changed or not: it would undo what has been committed since.
    scene.client.put(&scene.run, bytes(&entry)).await;
    assert_eq!(scene.external().await, ExternalChange::Stale { from: Revision(2) });
    entry["count"] = json!(9);
    scene.client.put(&scene.run, bytes(&entry)).await;
    assert_eq!(scene.external().await, ExternalChange::Stale { from: Revision(2) });
}

#[tokio::test]
async fn of_two_foreign_writes_the_second_counts_only_if_it_has_seen_the_first() {
    for seen in [true, false] {
        let scene = Scene::new().await;
        let (sequence, mut entry) = scene.newest().await;
        entry["count"] = json!(3);
        let first = scene.client.update(&scene.run, bytes(&entry), sequence).await;
        entry["other"] = json!(true);
        let second = match seen {
            true => scene.client.update(&scene.run, bytes(&entry), first).await,
            false => scene.client.put(&scene.run, bytes(&entry)).await,
        };
        let foreign = scene.foreign().await.unwrap();
        assert_eq!(foreign.change.as_ref().err(), (!seen).then_some(&ExternalChange::Overwrote));
        // Both are kept.
        let kept = scene.store.set_aside(&scene.run, &foreign).await.unwrap();
        assert_eq!(kept, Some(format!("recovery.{}.{second}", scene.run)));
        assert_eq!(scene.client.get(&format!("recovery.{}.{second}", scene.run)).await.1, bytes(&entry));
        let (_, earlier) = scene.client.get(&format!("recovery.{}.{first}", scene.run)).await;
        assert_eq!(serde_json::from_slice::<Value>(&earlier).unwrap()["count"], 3);
        assert_eq!(scene.store.set_aside(&scene.run, &foreign).await.unwrap(), kept, "twice is once");
        // Neither is a run.
        assert_eq!(scene.store.runs().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_watch_tells_of_a_foreign_write_by_saying_nothing() {
    let scene = Scene::new().await;
    let mut watch = scene.store.watch(&scene.run, Revision(2)).await.unwrap();
    let mut early = scene.store.watch(&scene.run, Revision(0)).await.unwrap();
    assert_eq!(early.next().await.unwrap().len(), 2);
    scene.client.put(&scene.run, "rubbish").await;
    for watch in [&mut watch, &mut early] {
        assert_eq!(watch.next().await.unwrap(), []);
        assert_eq!(watch.after(), Revision(2));
    }
    // Whoever begins to watch later is told as well.
    let mut late = scene.store.watch(&scene.run, Revision(2)).await.unwrap();
    assert_eq!(late.next().await.unwrap(), []);
    let position = scene.store.load(&scene.run).await.unwrap().unwrap().position;
    scene.store.commit(shown(&scene.run, position, 3)).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].body, "3");
}

#[tokio::test]
async fn a_watch_tells_of_an_older_entry_of_ours_that_somebody_put_there_again() {
    let scene = Scene::new().await;
    let (_, older) = scene.newest().await;
    scene.store.commit(shown(&scene.run, scene.position, 3)).await.unwrap();
    let mut watch = scene.store.watch(&scene.run, Revision(3)).await.unwrap();
    scene.client.put(&scene.run, bytes(&older)).await;
    let told = tokio::time::timeout(Duration::from_secs(60), watch.next()).await.unwrap();
    assert_eq!(told.unwrap(), []);
}

#[tokio::test]
async fn a_foreign_write_as_large_as_the_server_takes_is_set_aside_as_well() {
    let scene = Scene::new().await;
    let largest = vec![b'x'; 1024 * 1024];
    let sequence = scene.client.put(&scene.run, largest.clone()).await;
    let foreign = scene.foreign().await.unwrap();
    let kept = scene.store.set_aside(&scene.run, &foreign).await.unwrap().unwrap();
    assert_eq!(kept, format!("recovery.{}.{sequence}", scene.run));
    assert_eq!(scene.store.set_aside(&scene.run, &foreign).await.unwrap(), Some(kept.clone()));
    // With our own headers it is more than a message can be, so its bytes are elsewhere.
    let note: Value = serde_json::from_slice(&scene.client.get(&kept).await.1).unwrap();
    let digest: Digest = note["$blob"].as_str().unwrap().strip_prefix("sha256:").unwrap().parse().unwrap();
    assert_eq!(scene.store.blob(&digest).await.unwrap(), Some(largest));
}

#[tokio::test]
async fn what_a_stranger_has_under_the_key_of_a_new_run_is_not_overwritten() {
    let scene = Scene::new().await;
    let taken = run("peer.global.cycle.2");
    let theirs = br#"{"version":1,"status":"COMPLETED"}"#;
    let sequence = scene.client.put(&taken, theirs.as_slice()).await;
    let refused = scene.store.commit(shown(&taken, Position::absent(), 1)).await.unwrap_err();
    assert!(matches!(refused, CommitError::Conflict { found: Revision(0), .. }), "{refused}");
    assert_eq!(scene.client.get(taken.as_str()).await, (sequence, theirs.as_slice().into()));
    assert_eq!(scene.store.load(&taken).await.unwrap(), None);
    assert_eq!(scene.store.runs().await.unwrap().len(), 1);
    // A key that was deleted is free.
    scene.client.delete(&taken).await;
    scene.store.commit(shown(&taken, Position::absent(), 1)).await.unwrap();
}
