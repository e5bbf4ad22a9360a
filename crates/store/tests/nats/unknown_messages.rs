//! Messages that Callboard did not write: they stop their own run and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use protocol::Revision;
use serde_json::json;
use store::{CommitError, Digest, NatsStore, Position, ReadError, Store as _, Unavailable, UnknownMessage};
use testkit::nats::Server;

use crate::contract::{entry_commit, run};

/// Publishes bytes and returns their sequence.
async fn put(server: &Server, subject: &str, bytes: impl Into<bytes::Bytes>) -> u64 {
    let client = async_nats::connect(server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.publish(subject.to_owned(), bytes.into()).await.unwrap().await.unwrap().sequence
}

/// Reads an object of one chunk without the store.
async fn object(server: &Server, name: &str) -> Vec<u8> {
    let client = async_nats::connect(server.address()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("OBJ_callboard-blobs").await.unwrap();
    let meta = format!("$O.callboard-blobs.M.{}", URL_SAFE.encode(name));
    let meta = stream.get_last_raw_message_by_subject(&meta).await.unwrap();
    let meta: serde_json::Value = serde_json::from_slice(&meta.payload).unwrap();
    assert_eq!(meta["chunks"], 1);
    let chunk = format!("$O.callboard-blobs.C.{}", meta["nuid"].as_str().unwrap());
    stream.get_last_raw_message_by_subject(&chunk).await.unwrap().payload.to_vec()
}

#[tokio::test]
async fn an_unreadable_run_does_not_hide_the_others() {
    for payload in [r#"{"format":2,"body":{}}"#, "hello"] {
        let server = Server::start();
        let store = NatsStore::new(server.settings());
        let (fine, broken) = (run("brave"), run("broken"));
        store.commit(entry_commit(&broken, Position::absent(), "1")).await.unwrap();
        store.commit(entry_commit(&fine, Position::absent(), "1")).await.unwrap();
        put(&server, "callboard.run.broken", payload).await;
        let rows = store.runs().await.unwrap();
        let mut listed: Vec<_> =
            rows.iter().map(|row| (row.run.as_str(), row.revision, row.protocol.as_str())).collect();
        listed.sort_unstable();
        assert_eq!(listed, [("brave", Revision(1), "steps"), ("broken", Revision(0), "")]);
        assert_eq!(store.runs_with_prefix("br", 9).await.unwrap(), [fine.clone(), broken.clone()]);
        // Reading the run itself fails.
        let error = store.load(&broken).await.unwrap_err();
        assert!(matches!(error, ReadError::Unavailable(_)), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_message_is_quarantined_and_the_run_continues() {
    assert_quarantined(None).await;
}

/// The journal is read before the bucket.
#[tokio::test]
async fn an_unknown_message_of_a_run_with_a_document_is_quarantined() {
    assert_quarantined(Some("{}")).await;
}

/// Asserts that unknown messages of a run, with or without a document, are quarantined and the run continues.
async fn assert_quarantined(document: Option<&str>) {
    let change = |run: &protocol::RunId, expected, entry: &str| store::Commit {
        document: document.map(str::to_owned),
        ..entry_commit(run, expected, entry)
    };
    let server = Server::start();
    let (store, broken) = (NatsStore::new(server.settings()), run("a.b"));
    let first = store.commit(change(&broken, Position::absent(), "1")).await.unwrap();
    let second = store.commit(change(&broken, first, "2")).await.unwrap();
    // In the subject of run `a.b`, the dot is `=2E`.
    let hello = put(&server, "callboard.run.a=2Eb", "hello").await;
    let empty = put(&server, "callboard.run.a=2Eb", "").await;
    let no_run = put(&server, "callboard.run.empty", "[]").await;
    // Neither a load nor a commit of a client that has cached the run ignores these messages.
    let Err(CommitError::Unavailable(error)) = store.commit(change(&broken, second, "3")).await else {
        panic!()
    };
    assert!(matches!(&error, Unavailable::BadJournal { run, .. } if *run == broken), "{error:?}");
    let Err(ReadError::Unavailable(error)) = store.load(&broken).await else { panic!() };
    assert!(matches!(&error, Unavailable::BadJournal { run, .. } if *run == broken), "{error:?}");
    let messages = store.unknown_messages().await.unwrap();
    let names: Vec<_> = messages.iter().map(UnknownMessage::name).collect();
    let [hello, empty] = [hello, empty].map(|number| format!("recovery.a.b.{number}"));
    assert_eq!(names, [hello, empty, format!("recovery.empty.{no_run}")]);
    for message in messages.iter().chain(&messages) {
        store.quarantine_message(message).await.unwrap();
    }
    assert_eq!(store.unknown_messages().await.unwrap(), []);
    assert_eq!(object(&server, &names[0]).await, b"hello");
    let another = NatsStore::new(server.settings());
    assert_eq!(another.load(&broken).await.unwrap().unwrap().position, second);
    let third = store.commit(change(&broken, second, "3")).await.unwrap();
    assert_eq!(another.last_intact_revision(&broken).await.unwrap(), third.revision);
    assert_eq!(another.runs().await.unwrap().len(), 1, "a run needs a commit");
}

#[tokio::test]
async fn a_commit_with_a_false_checksum_is_not_intact() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("a"));
    let first = store.commit(entry_commit(&run, Position::absent(), "honest")).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    let journal = async_nats::jetstream::new(client).get_stream("callboard-journal").await.unwrap();
    let message = journal.get_last_raw_message_by_subject("callboard.run.a").await.unwrap();
    let text = String::from_utf8(message.payload.to_vec()).unwrap();
    assert!(text.contains("honest"), "{text}");
    journal.purge().await.unwrap();
    put(&server, "callboard.run.a", text.replace("honest", "forged")).await;
    let store = NatsStore::new(server.settings());
    assert_eq!(store.entry(&run, first.revision).await.unwrap().unwrap().body, "forged", "it can be read");
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(0));
}

#[tokio::test]
async fn a_message_of_a_newer_version_is_not_an_unknown_message() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    put(&server, "callboard.run.r", r#"{"format":2,"body":{}}"#).await;
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::NewerWriter { .. })), "{error:?}");
    assert_eq!(store.unknown_messages().await.unwrap(), []);
    // The format is ours, but not the content: a newer version may have written it.
    put(&server, "callboard.run.r", r#"{"format":1,"head":{},"content":"hitherto unknown"}"#).await;
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::BadJournal { .. })), "{error:?}");
    assert_eq!(store.unknown_messages().await.unwrap(), []);
}

#[tokio::test]
async fn a_blob_with_a_false_size_is_reported_as_damaged() {
    let server = Server::start();
    let store = NatsStore::new(server.settings());
    let digest: Digest = store.put_blobs(vec![b"small".to_vec()]).await.unwrap().remove(0);
    let meta = json!({
        "name": digest, "bucket": "callboard-blobs", "nuid": "none", "size": u64::MAX, "chunks": 1,
    });
    let subject = format!("$O.callboard-blobs.M.{}", URL_SAFE.encode(digest.as_str()));
    put(&server, &subject, meta.to_string()).await;
    let error = store.blob(&digest).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedBlob { .. }), "{error}");
}
