//! What is in our streams and is not as we write it: it stops nobody but whom it concerns.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use protocol::Revision;
use serde_json::json;
use store::{CommitError, Digest, NatsStore, Position, ReadError, Store as _, Unavailable, UnknownMessage};
use testkit::nats::Server;

use crate::contract::{change, run};

/// Gives its number.
async fn put(server: &Server, subject: &str, bytes: impl Into<bytes::Bytes>) -> u64 {
    let client = async_nats::connect(server.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    context.publish(subject.to_owned(), bytes.into()).await.unwrap().await.unwrap().sequence
}

/// What any client of the object store reads under a name.
async fn object(server: &Server, name: &str) -> Vec<u8> {
    let client = async_nats::connect(server.address()).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream("OBJ_callboard-blobs").await.unwrap();
    let meta = format!("$O.callboard-blobs.M.{}", URL_SAFE.encode(name));
    let meta = stream.get_last_raw_message_by_subject(&meta).await.unwrap();
    let meta: serde_json::Value = serde_json::from_slice(&meta.payload).unwrap();
    let chunk = format!("$O.callboard-blobs.C.{}", meta["nuid"].as_str().unwrap());
    stream.get_last_raw_message_by_subject(&chunk).await.unwrap().payload.to_vec()
}

#[tokio::test]
async fn a_run_that_cannot_be_understood_does_not_hide_the_others() {
    for rubbish in [r#"{"format":2,"body":{}}"#, "hello"] {
        let server = Server::start();
        let store = NatsStore::new(server.settings());
        let (well, ill) = (run("well"), run("weird"));
        store.commit(change(&ill, Position::absent(), "1")).await.unwrap();
        store.commit(change(&well, Position::absent(), "1")).await.unwrap();
        put(&server, "callboard.run.weird", rubbish).await;
        let rows = store.runs().await.unwrap();
        let mut listed: Vec<_> =
            rows.iter().map(|row| (row.run.as_str(), row.revision, row.protocol.as_str())).collect();
        listed.sort_unstable();
        assert_eq!(listed, [("weird", Revision(0), ""), ("well", Revision(1), "steps")]);
        assert_eq!(store.runs_beginning("we", 9).await.unwrap(), [ill.clone(), well.clone()]);
        // Whoever asks for it is told what is wrong with it.
        let error = store.load(&ill).await.unwrap_err();
        assert!(matches!(error, ReadError::Unavailable(_)), "{error}");
    }
}

#[tokio::test]
async fn what_somebody_else_put_there_can_be_set_aside_and_the_run_goes_on() {
    set_aside_from(None).await;
}

/// The entry in the bucket is the commit, and nobody gets to it past the journal.
#[tokio::test]
async fn the_same_is_true_of_a_run_whose_document_is_kept_in_a_bucket() {
    set_aside_from(Some("{}")).await;
}

async fn set_aside_from(document: Option<&str>) {
    let change = |run: &protocol::RunId, expected, entry: &str| store::Commit {
        document: document.map(str::to_owned),
        ..change(run, expected, entry)
    };
    let server = Server::start();
    let (store, ill) = (NatsStore::new(server.settings()), run("a.b"));
    let first = store.commit(change(&ill, Position::absent(), "1")).await.unwrap();
    let second = store.commit(change(&ill, first, "2")).await.unwrap();
    let hello = put(&server, "callboard.run.a=2Eb", "hello").await;
    let empty = put(&server, "callboard.run.a=2Eb", "").await;
    let nobody = put(&server, "callboard.run.nobody", "[]").await;
    // Neither who reads nor who remembers gets past it.
    let Err(CommitError::Unavailable(error)) = store.commit(change(&ill, second, "3")).await else {
        panic!()
    };
    assert!(matches!(&error, Unavailable::NotUnderstood { run, .. } if *run == ill), "{error:?}");
    let Err(ReadError::Unavailable(error)) = store.load(&ill).await else { panic!() };
    assert!(matches!(&error, Unavailable::NotUnderstood { run, .. } if *run == ill), "{error:?}");
    let strangers = store.unknown_messages().await.unwrap();
    let named: Vec<_> = strangers.iter().map(UnknownMessage::name).collect();
    let [hello, empty] = [hello, empty].map(|number| format!("recovery.a.b.{number}"));
    assert_eq!(named, [hello, empty, format!("recovery.nobody.{nobody}")]);
    for stranger in strangers.iter().chain(&strangers) {
        store.quarantine_message(stranger).await.unwrap();
    }
    assert_eq!(store.unknown_messages().await.unwrap(), []);
    assert_eq!(object(&server, &named[0]).await, b"hello");
    let another = NatsStore::new(server.settings());
    assert_eq!(another.load(&ill).await.unwrap().unwrap().position, second);
    let third = store.commit(change(&ill, second, "3")).await.unwrap();
    assert_eq!(another.intact(&ill).await.unwrap(), third.revision);
    assert_eq!(another.runs().await.unwrap().len(), 1, "nobody is no run");
}

#[tokio::test]
async fn what_a_newer_program_wrote_is_nobodys_rubbish() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    put(&server, "callboard.run.r", r#"{"format":2,"body":{}}"#).await;
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::NewerWriter { .. })), "{error:?}");
    assert_eq!(store.unknown_messages().await.unwrap(), []);
    put(&server, "callboard.run.r", r#"{"format":1,"head":{},"content":"hitherto unknown"}"#).await;
    let error = store.load(&run).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::NotUnderstood { .. })), "{error:?}");
    assert_eq!(store.unknown_messages().await.unwrap(), []);
}

#[tokio::test]
async fn a_blob_that_claims_to_be_huge_is_damaged_and_nothing_worse() {
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
