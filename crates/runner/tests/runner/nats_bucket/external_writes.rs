//! External writes to the document of a peer cycle. A valid one is absorbed: committed as an edit in the name of its
//! writer. Any other is quarantined, and the document restored. The engine's part of a KV entry is its member
//! `callboard`.

use std::sync::Arc;

use protocol::PROTOCOLS;
use protocol::entry::{Author, Input};
use protocol::peer::Event;
use runner::{Clock, LoadError, rebuild_document};
use serde_json::{Value, json};
use store::{NatsStore, Store};
use testkit::harness::{CommitFault, FaultyStore};

use super::Fixture;
use super::client::{BUCKET, Client};
use crate::peer_document;

/// Changes the output of the phase `plan` and nothing else.
fn with_draft(entry: &Value, draft: &str) -> Value {
    let mut entry = entry.clone();
    entry["phases"]["plan"]["output"]["draft"] = json!(draft);
    entry
}

/// Changes the output of the phase `plan` and adds a history entry, as the format asks its clients to.
fn with_draft_and_history(entry: &Value, draft: &str) -> Value {
    let mut entry = with_draft(entry, draft);
    let sequence = entry["sequence"].as_u64().unwrap() + 1;
    entry["sequence"] = json!(sequence);
    let at = entry["metadata"]["updated_at"].clone();
    let history_entry =
        json!({ "timestamp": at, "phase": "plan", "event": "progress", "sequence": sequence });
    entry["history"].as_array_mut().unwrap().push(history_entry);
    entry
}

#[tokio::test]
async fn a_correct_write_is_absorbed_in_the_name_of_its_writer() {
    for write in [with_draft, with_draft_and_history] {
        let mut fixture = Fixture::new().await;
        let before = peer_document(&fixture.cycle);
        let (sequence, entry) = fixture.client.get().await;
        assert_eq!(entry["phases"]["plan"]["status"], "in_progress");
        let theirs = fixture.client.update(&write(&entry, "theirs"), sequence).await;
        fixture.cycle.reload().await.unwrap();
        let document = peer_document(&fixture.cycle);
        assert_eq!(document.phases.plan.output.as_ref().unwrap()["draft"], "theirs");
        assert_eq!(
            (document.sequence, document.history.len()),
            (before.sequence + 1, before.history.len() + 1)
        );
        let history_entry = document.history.last().unwrap();
        assert_eq!(history_entry.event, Event::Progress);
        assert_eq!(history_entry.unknown["by"], format!("another client of the bucket `{BUCKET}`"));
        let absorbing = fixture.cycle.entry(fixture.cycle.position.revision).await.unwrap().unwrap();
        assert_eq!(absorbing.by, Author::BucketClient { bucket: BUCKET.to_owned(), sequence: theirs });
        assert!(matches!(absorbing.input, Input::Edited { from: None, .. }));
        // The bucket has the engine's document again.
        let (_, entry) = fixture.client.get().await;
        assert_eq!(
            (&entry["sequence"], &entry["phases"]["plan"]["output"]["draft"]),
            (&json!(before.sequence + 1), &json!("theirs"))
        );
        assert_eq!(fixture.load_again().await.external_write, None);
        assert_eq!(fixture.load_again().await.document(), fixture.cycle.document());
    }
}

#[tokio::test]
async fn an_added_error_is_absorbed_and_a_removed_one_is_restored() {
    let mut fixture = Fixture::new().await;
    let (sequence, mut entry) = fixture.client.get().await;
    let slow = json!({ "kind": "note", "message": "slow", "timestamp": entry["metadata"]["updated_at"] });
    entry["phases"]["plan"]["errors"] = json!([slow]);
    fixture.client.update(&entry, sequence).await;
    fixture.cycle.reload().await.unwrap();
    let document = peer_document(&fixture.cycle);
    assert_eq!(json!(document.phases.plan.errors), json!([slow]));
    assert_eq!(document.history.last().unwrap().event, Event::Progress);
    let corrupt = |now: &Value| {
        let mut entry = now.clone();
        entry["phases"]["plan"]["errors"] = json!([]);
        Some(entry.to_string().into_bytes())
    };
    assert_restored(&mut fixture, "a removed error", corrupt).await;
}

#[tokio::test]
async fn a_put_of_the_same_document_changes_nothing() {
    let mut fixture = Fixture::new().await;
    let (before, position) = (fixture.cycle.document(), fixture.cycle.position);
    let (_, entry) = fixture.client.get().await;
    fixture.client.put(serde_json::to_vec_pretty(&entry).unwrap()).await;
    fixture.cycle.reload().await.unwrap();
    assert_eq!((fixture.cycle.document(), fixture.cycle.position), (before, position));
}

/// Every write that is not a valid one is quarantined, and the document that was committed last is restored.
#[tokio::test]
async fn an_invalid_write_is_quarantined_and_the_document_restored() {
    let mut fixture = Fixture::new().await;
    let (_, old) = fixture.client.get().await;
    let patch = protocol::edit::Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!("ours"))]);
    let expected = peer_document(&fixture.cycle).sequence;
    runner::edit(&mut fixture.cycle, testkit::harness::test_author(), None, expected, &patch).await.unwrap();
    type Corrupt = fn(&Value) -> Option<Vec<u8>>;
    let cases: [(&str, Corrupt); 7] = [
        ("no JSON object", |_| Some(b"rubbish \xff".to_vec())),
        ("illegal transition", |now| {
            let mut entry = now.clone();
            entry["phases"]["plan"]["status"] = json!("completed");
            Some(entry.to_string().into_bytes())
        }),
        ("broken rule", |now| {
            let mut entry = with_draft_and_history(now, "x");
            entry["metadata"]["status"] = json!("perfect");
            Some(entry.to_string().into_bytes())
        }),
        ("changed engine part", |now| {
            let mut entry = with_draft(now, "x");
            entry["callboard"]["head"]["summary"] = json!("mine");
            Some(entry.to_string().into_bytes())
        }),
        ("missing engine part", |now| {
            let mut entry = with_draft(now, "x");
            entry.as_object_mut().unwrap().shift_remove("callboard");
            Some(entry.to_string().into_bytes())
        }),
        ("truncated", |now| {
            let text = now.to_string();
            Some(text.as_bytes()[..text.len() / 2].to_vec())
        }),
        ("deleted", |_| None),
    ];
    for (case, corrupt) in cases {
        assert_restored(&mut fixture, case, corrupt).await;
    }
    // A put of an old document, changed or not.
    for stale in [old.clone(), with_draft(&old, "late")] {
        assert_restored(&mut fixture, "stale", |_| Some(stale.to_string().into_bytes())).await;
    }
    runner::verify(&fixture.store, &Clock::system(), PROTOCOLS, &fixture.cycle.run).await.unwrap();
}

#[tokio::test]
async fn an_implausible_sequence_number_is_ignored() {
    let mut fixture = Fixture::new().await;
    for claimed in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let before = peer_document(&fixture.cycle).sequence;
        fixture.client.put(json!({ "sequence": claimed }).to_string()).await;
        fixture.cycle.reload().await.unwrap();
        assert_eq!(peer_document(&fixture.cycle).sequence, before + 1);
    }
}

/// Writes what `corrupt` makes of the document (`None`: deletes the key). Asserts that the write is quarantined and the
/// document before it restored.
async fn assert_restored(fixture: &mut Fixture, case: &str, corrupt: impl Fn(&Value) -> Option<Vec<u8>>) {
    let before = peer_document(&fixture.cycle);
    let (_, entry) = fixture.client.get().await;
    let bytes = corrupt(&entry);
    let sequence = match &bytes {
        Some(bytes) => fixture.client.put(bytes.clone()).await,
        None => fixture.client.delete().await,
    };
    fixture.cycle.reload().await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let document = peer_document(&fixture.cycle);
    assert_eq!(document.phases, before.phases, "{case}");
    let history_entry = document.history.last().unwrap();
    assert_eq!(
        (&history_entry.event, history_entry.sequence),
        (&Event::Recovered, document.sequence),
        "{case}"
    );
    assert!(document.sequence > before.sequence, "{case}");
    if let Some(bytes) = bytes {
        let claimed =
            serde_json::from_slice::<Value>(&bytes).ok().and_then(|entry| entry["sequence"].as_u64());
        assert!(claimed.is_none_or(|claimed| document.sequence > claimed), "{case}");
        let quarantined = fixture.client.bytes(&format!("recovery.{}.{sequence}", fixture.cycle.run)).await.1;
        assert_eq!(quarantined, bytes, "{case}");
    }
    let (_, entry) = fixture.client.get().await;
    assert_eq!(entry["sequence"], document.sequence, "{case}");
    assert_eq!(entry["phases"], json!(document.phases), "{case}");
}

#[tokio::test]
async fn an_edit_resolves_an_external_write_first() {
    let mut fixture = Fixture::new().await;
    let (sequence, entry) = fixture.client.get().await;
    fixture.client.update(&with_draft(&entry, "theirs"), sequence).await;
    // The edit was based on the document before that write. It changes another field, so both are applied.
    let expected = peer_document(&fixture.cycle).sequence;
    let note = protocol::edit::Patch::Set(vec![("/note".to_owned(), json!("ours"))]);
    let edited = runner::edit(&mut fixture.cycle, testkit::harness::test_author(), None, expected, &note)
        .await
        .unwrap();
    assert_eq!(edited.sequence, expected + 2);
    let (_, entry) = fixture.client.get().await;
    assert_eq!(
        (&entry["note"], &entry["phases"]["plan"]["output"]["draft"]),
        (&json!("ours"), &json!("theirs"))
    );
    // An edit of the same field is a conflict.
    let (sequence, entry) = fixture.client.get().await;
    fixture.client.update(&with_draft(&entry, "again"), sequence).await;
    let ours = protocol::edit::Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!("ours"))]);
    let error =
        runner::edit(&mut fixture.cycle, testkit::harness::test_author(), None, edited.sequence, &ours).await;
    let Err(runner::EditError::Conflict(conflict)) = error else { panic!("{error:?}") };
    assert_eq!((conflict.expected, conflict.found), (edited.sequence, edited.sequence + 1));
}

#[tokio::test]
async fn a_request_does_not_overwrite_an_external_write() {
    let fixture = Fixture::new().await;
    let (sequence, entry) = fixture.client.get().await;
    fixture.client.update(&with_draft(&entry, "theirs"), sequence).await;
    let mut cycle = fixture.load_again().await;
    assert!(cycle.external_write.is_some(), "it has been read");
    runner::request(&mut cycle, testkit::harness::test_author(), protocol::run::Request::Pause, None)
        .await
        .unwrap();
    let (_, entry) = fixture.client.get().await;
    assert_eq!(entry["phases"]["plan"]["output"]["draft"], "theirs");
    assert_eq!(fixture.load_again().await.document(), cycle.document());
}

#[tokio::test]
async fn a_deleted_bucket_is_rebuilt_from_the_journal() {
    let fixture = Fixture::new().await;
    let before = peer_document(&fixture.cycle);
    let (last, _) = fixture.client.get().await;
    fixture.client.delete_bucket().await;
    assert!(fixture.store.load(&fixture.cycle.run).await.is_err(), "the store reports it as missing");
    let nats = NatsStore::new(fixture.settings());
    let store = testkit::nats::any_store(nats.clone());
    assert_eq!(nats.rebuild_buckets().await.unwrap(), [BUCKET]);
    let rebuilt = rebuild_document(&store, &Clock::system(), PROTOCOLS, &fixture.cycle.run).await;
    assert_eq!(rebuilt.unwrap().unwrap().unwrap().sequence, 0, "the new bucket has no message under the key");
    let (sequence, entry) = fixture.client.get().await;
    assert!(sequence > last, "its sequence numbers continue");
    assert_eq!(entry["phases"], json!(before.phases));
    assert_eq!(entry["history"].as_array().unwrap().last().unwrap()["event"], "recovered");
    assert_eq!(fixture.load_again().await.external_write, None);
    // The second call has nothing to do.
    assert_eq!(nats.rebuild_buckets().await.unwrap(), Vec::<String>::new());
    let again = rebuild_document(&store, &Clock::system(), PROTOCOLS, &fixture.cycle.run).await.unwrap();
    assert_eq!(again, Some(None));
}

/// Regression: it was rejected for the size of the write that it had replaced.
#[tokio::test]
async fn a_write_that_replaces_one_that_is_too_large_is_absorbed() {
    let fixture = Fixture::new().await;
    let (sequence, entry) = fixture.client.get().await;
    let large = fixture.client.update(&with_draft(&entry, "large"), sequence).await;
    let (address, run) = (fixture.server.address(), fixture.cycle.run.clone());
    let mut replacement = Some(with_draft(&entry, "small"));
    let store = FaultyStore::with_fault_for_entry(fixture.store.clone(), move |_| {
        let entry = replacement.take()?;
        let write = async { Client::at(&address, &run).await.update(&entry, large).await };
        let write_in_runtime = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(write)
        };
        // This thread has a runtime already, and cannot enter another one.
        std::thread::scope(|scope| scope.spawn(write_in_runtime).join()).unwrap();
        Some(CommitFault::TooLarge)
    });
    let store: Arc<dyn Store> = store;
    let resolved = rebuild_document(&store, &Clock::system(), PROTOCOLS, &fixture.cycle.run).await;
    assert_eq!(resolved.unwrap().unwrap().unwrap().rejected, None);
    let (_, entry) = fixture.client.get().await;
    assert_eq!(entry["phases"]["plan"]["output"]["draft"], "small");
}

#[tokio::test]
async fn an_endless_stream_of_external_writes_is_an_error() {
    let mut fixture = Fixture::new().await;
    let client = Client::of(&fixture.server, &fixture.cycle.run).await;
    let writing = tokio::spawn(async move {
        loop {
            client.put("rubbish").await;
        }
    });
    let error = loop {
        if let Err(error) = fixture.cycle.reload().await {
            break error;
        }
    };
    assert!(matches!(error, LoadError::Contended { .. }), "{error:?}");
    writing.abort();
    fixture.cycle.reload().await.unwrap();
    assert_eq!(fixture.load_again().await.external_write, None);
}
