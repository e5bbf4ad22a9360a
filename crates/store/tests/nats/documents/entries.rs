//! Entries of the bucket: the document, complete or with large values in blobs.

use protocol::Revision;
use serde_json::{Value, json};
use store::{Commit, CommitError, Digest, NatsStore, Position, Store as _};

use super::client::Client;
use super::with_documents;
use crate::contract::{entry_commit, part, run};
use testkit::nats::Server;

#[tokio::test]
async fn a_large_output_is_a_blob_in_the_bucket_and_complete_for_the_engine() {
    let server = Server::start();
    let (store, run) = (with_documents(&server), run("peer.spec.large.cycle.1"));
    let output = json!({ "text": "ü".repeat(400_000) });
    let phases = json!({ "plan": { "status": "completed", "output": output } });
    let document = json!({ "version": 2, "phases": phases }).to_string();
    let parts = vec![part("phases/plan", &output.to_string())];
    let commit = Commit {
        document: Some(document),
        parts: parts.clone(),
        ..entry_commit(&run, Position::absent(), "1")
    };
    store.commit(commit).await.unwrap();
    let (_, entry) = Client::of(&server).await.get_json(&run).await;
    let plan = &entry["phases"]["plan"];
    assert_eq!(plan["status"], "completed");
    let text = output.to_string();
    assert_eq!(plan["output"]["bytes"], text.len());
    let named = plan["output"]["$blob"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let digest: Digest = named.parse().unwrap();
    assert_eq!(store.blob(&digest).await.unwrap().unwrap(), text.into_bytes());
    let another = with_documents(&server);
    assert_eq!(another.parts_at(&run, Revision(1)).await.unwrap(), parts);
    assert_eq!(another.load(&run).await.unwrap().unwrap().external_write, None);
}

#[tokio::test]
async fn a_document_that_does_not_fit_is_refused_with_both_sizes() {
    let server = Server::start();
    let (store, run) = (with_documents(&server), run("peer.global.cycle.1"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let fields: serde_json::Map<_, _> =
        (0..2000).map(|n| (format!("field-{n}"), json!("x".repeat(900)))).collect();
    let document = Some(Value::Object(fields).to_string());
    let error = store.commit(Commit { document, ..entry_commit(&run, first, "2") }).await.unwrap_err();
    let CommitError::TooLarge { size, limit } = error else { panic!("{error}") };
    assert!(size > 1_800_000 && limit < 1_048_576, "{size} {limit}");
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, first);
    store.commit(entry_commit(&run, first, "2")).await.unwrap();
}

/// A phase must not fail at its end because of the size of earlier ones.
#[tokio::test]
async fn values_that_are_too_large_together_become_blobs() {
    let server = Server::start();
    let (store, run) = (with_documents(&server), run("peer.global.cycle.1"));
    let phase = json!({ "status": "completed", "output": { "text": "x".repeat(90_000) } });
    let phases: serde_json::Map<_, _> = (0..20).map(|n| (format!("phase-{n}"), phase.clone())).collect();
    let document = Some(json!({ "version": 2, "phases": phases }).to_string());
    store.commit(Commit { document, ..entry_commit(&run, Position::absent(), "1") }).await.unwrap();
    let (_, entry) = Client::of(&server).await.get_json(&run).await;
    let phase_entry = &entry["phases"]["phase-19"];
    assert_eq!((&entry["version"], &phase_entry["status"]), (&json!(2), &json!("completed")));
    let digest: Digest = phase_entry["output"]["$blob"].as_str().unwrap()["sha256:".len()..].parse().unwrap();
    let output = phase["output"].to_string().into_bytes();
    assert_eq!(store.blob(&digest).await.unwrap(), Some(output));
    assert_eq!(with_documents(&server).load(&run).await.unwrap().unwrap().external_write, None);
}

/// The engine keeps its own data in the field `callboard` of an entry. A field of the document with that name is not in
/// the entry, but stays in the parts.
#[tokio::test]
async fn a_field_with_the_name_of_the_engines_own_field_is_hidden() {
    let server = Server::start();
    let (store, run) = (with_documents(&server), run("peer.global.cycle.1"));
    let document = Some(json!({ "callboard": "theirs", "note": 1 }).to_string());
    store.commit(Commit { document, ..entry_commit(&run, Position::absent(), "1") }).await.unwrap();
    let (_, entry) = Client::of(&server).await.get_json(&run).await;
    assert_eq!((&entry["note"], entry["callboard"].is_object()), (&json!(1), true));
    assert_eq!(store.load(&run).await.unwrap().unwrap().external_write, None);
}

#[tokio::test]
async fn a_commit_without_a_document_leaves_it_unchanged() {
    let server = Server::start();
    let run = run("peer.global.cycle.1");
    let store = NatsStore::new(server.settings());
    let document = Some(json!({ "note": 1 }).to_string());
    let first = Commit { document, ..entry_commit(&run, Position::absent(), "1") };
    let first = store.commit(first).await.unwrap();
    store.commit(entry_commit(&run, first, "2")).await.unwrap();
    let (sequence, entry) = Client::of(&server).await.get_json(&run).await;
    assert_eq!((sequence, &entry["note"]), (2, &json!(1)));
    assert_eq!(entry["callboard"]["head"]["revision"], 2);
}

#[tokio::test]
async fn runs_with_and_without_documents_share_a_store() {
    let server = Server::start();
    let store = NatsStore::new(server.settings());
    // A name with two dots in a row is not a valid key of a bucket.
    let (plain, with_key, without_key) = (run("plain"), run("peer.global.cycle.1"), run("no..key"));
    let mut positions = [Position::absent(); 3];
    for n in 1..=3 {
        for (run, position) in [&plain, &with_key, &without_key].into_iter().zip(&mut positions) {
            let document = (run != &plain).then(|| json!({ "n": n }).to_string());
            let commit = Commit { document, ..entry_commit(run, *position, &n.to_string()) };
            *position = store.commit(commit).await.unwrap();
        }
    }
    let client = Client::of(&server).await;
    assert_eq!(client.bucket().await.cached_info().state.messages, 3, "only one run has a key");
    assert_eq!(NatsStore::new(server.settings()).runs().await.unwrap().len(), 3);
}
