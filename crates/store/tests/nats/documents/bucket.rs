//! The bucket: how it is created, and what happens when it is deleted. The run `shown` has a document, `plain` has none.

use std::error::Error as _;
use std::fs;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, StorageType};
use protocol::Revision;
use store::{
    CommitError, NatsSettings, NatsStore, NatsWarning, Position, ReadError, Store as _, Unavailable,
};

use super::client::{BUCKET, Client};
use super::with_documents;
use crate::contract::{entry_commit, run};
use crate::test_store::TestStore;
use testkit::nats::Server;

fn is_deleted_bucket(unavailable: &Unavailable) -> bool {
    matches!(unavailable, Unavailable::StreamDeleted { stream, .. } if stream == "KV_agent-os-peer-state")
}

#[tokio::test]
async fn the_first_document_creates_the_bucket_as_nats_clients_do() {
    let server = Server::start();
    let client = Client::of(&server).await;
    let store = NatsStore::new(server.settings());
    store.commit(entry_commit(&run("plain"), Position::absent(), "1")).await.unwrap();
    assert!(client.context.get_stream(format!("KV_{BUCKET}")).await.is_err(), "no document needs it");
    with_documents(&server).commit(entry_commit(&run("shown"), Position::absent(), "1")).await.unwrap();
    let Config { max_messages_per_subject, storage, max_age, allow_rollup, deny_delete, .. } =
        client.bucket().await.cached_info().config.clone();
    assert_eq!((max_messages_per_subject, storage, max_age), (50, StorageType::File, Duration::ZERO));
    assert!(allow_rollup && deny_delete);
    assert_eq!(NatsStore::new(server.settings()).open().await.unwrap(), []);
}

#[tokio::test]
async fn an_existing_bucket_is_used_and_each_difference_is_a_warning() {
    let server = Server::start();
    let client = Client::of(&server).await;
    let config = Config {
        name: format!("KV_{BUCKET}"),
        subjects: vec![format!("$KV.{BUCKET}.>")],
        max_messages_per_subject: 5,
        discard: async_nats::jetstream::stream::DiscardPolicy::New,
        max_message_size: 20_000,
        ..Config::default()
    };
    client.context.create_stream(config).await.unwrap();
    let store = with_documents(&server);
    let mut position = Position::absent();
    for n in 1..=8 {
        position = store.commit(entry_commit(&run("shown"), position, &n.to_string())).await.unwrap();
    }
    assert_eq!(store.entries(&run("shown"), Revision(0)).await.unwrap().len(), 8);
    // Each text is small enough to stay in the entry.
    let texts: serde_json::Map<_, _> =
        (0..30).map(|n| (n.to_string(), serde_json::json!("x".repeat(1000)))).collect();
    let large = store::Commit {
        document: Some(serde_json::Value::Object(texts).to_string()),
        ..entry_commit(&run("shown"), position, "9")
    };
    let refused = store.commit(large).await.unwrap_err();
    // The server's limit of 20,000 bytes counts headers, for which 4,096 bytes are reserved.
    assert!(matches!(refused, CommitError::TooLarge { limit: 15_904, .. }), "{refused}");
    let later = NatsStore::new(server.settings());
    let warning = |setting, found: &str| {
        let (stream, found) = (format!("KV_{BUCKET}"), found.to_owned());
        NatsWarning::ConfigDiffers { stream, setting, found }
    };
    let warning = [warning("largest message", "20000 bytes"), warning("history", "5")];
    assert_eq!(later.open().await.unwrap(), warning);
}

#[tokio::test]
async fn a_run_stays_in_the_bucket_it_was_created_in() {
    let server = Server::start();
    let named = NatsSettings { bucket: "other".to_owned(), ..server.settings() };
    let (store, run) = (TestStore::with_documents(NatsStore::new(named)), run("shown"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    // A store with another setting uses the bucket of the run.
    let second = with_documents(&server).commit(entry_commit(&run, first, "2")).await.unwrap();
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, second);
    assert!(Client::of(&server).await.context.get_stream(format!("KV_{BUCKET}")).await.is_err());
}

/// A server writes the configuration of a stream and its checksum to two files. Killed in between, it starts without
/// the stream. So the creation of the bucket must not change the configuration of the journal: its old checksum still
/// matches.
#[tokio::test]
async fn a_server_killed_while_the_bucket_is_created_keeps_the_journal() {
    let mut server = Server::start();
    let (store, run) = (with_documents(&server), run("shown"));
    store.runs().await.unwrap();
    let checksum = server.stream_dir("callboard-journal").join("meta.sum");
    let before = fs::read(&checksum).unwrap();
    let position = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    server.kill();
    fs::write(&checksum, before).unwrap();
    server.restart();
    assert_eq!(with_documents(&server).load(&run).await.unwrap().unwrap().position, position);
}

#[tokio::test]
async fn a_deleted_bucket_is_an_error_and_not_created_again() {
    let server = Server::start();
    let (store, run, plain) = (with_documents(&server), run("shown"), run("plain"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let plain_store = NatsStore::new(server.settings());
    let other = plain_store.commit(entry_commit(&plain, Position::absent(), "1")).await.unwrap();
    Client::of(&server).await.context.delete_stream(format!("KV_{BUCKET}")).await.unwrap();
    for store in [store, with_documents(&server)] {
        let ReadError::Unavailable(error) = store.load(&run).await.unwrap_err() else { panic!() };
        assert!(is_deleted_bucket(&error), "{error}");
        for (run, position) in [(&run, first), (&crate::contract::run("new"), Position::absent())] {
            let error = store.commit(entry_commit(run, position, "2")).await.unwrap_err();
            let CommitError::Unavailable(unavailable) = &error else {
                panic!("{error:?} {:?}", error.source())
            };
            assert!(is_deleted_bucket(unavailable), "{error}");
        }
        // Everything acknowledged is readable, and runs without a document continue.
        assert_eq!(store.entries(&run, Revision(0)).await.unwrap().len(), 1);
        assert_eq!(store.document(&run).await.unwrap().unwrap().revision, Revision(1));
        assert_eq!(store.runs().await.unwrap().len(), 2);
    }
    plain_store.commit(entry_commit(&plain, other, "2")).await.unwrap();
    NatsStore::new(server.settings())
        .commit(entry_commit(&crate::contract::run("another"), Position::absent(), "1"))
        .await
        .unwrap();
    let warnings = [NatsWarning::StreamDeleted { stream: format!("KV_{BUCKET}") }];
    assert_eq!(NatsStore::new(server.settings()).open().await.unwrap(), warnings);
}
