//! A waiting engine resolves external writes, which are those of another client of the bucket: it takes a valid one into
//! the run, and restores the document after any other.

use std::path::Path;

use protocol::peer::Peer;
use protocol::protocol_kind;
use protocol::run::Request;
use runner::{Clock, Engine, EngineExit, EngineRequest};
use serde_json::json;
use store::{LockPurpose, NatsStore};
use testkit::harness::{engine_config_at, new_peer_cycle, run_of, run_spec, test_author};
use testkit::nats;
use tokio::sync::mpsc;

use super::Fixture;
use super::client::Client;

#[tokio::test]
async fn a_waiting_engine_resolves_external_writes() {
    let fixture = Fixture::new().await;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // The engine below starts with a request to pause, so no attempt starts, and the engine waits.
    let definition = new_peer_cycle("peer:global:cycle:1");
    let run = run_of(&definition);
    let spec = run_spec(&definition, &run, fixture.directory.path(), None);
    runner::open(&fixture.store, &Clock::system(), protocol_kind::<Peer>(), test_author(), spec)
        .await
        .unwrap();
    let client = Client::of(&fixture.server, &run).await;
    // A connection of its own, as in another process.
    let (store, key) = (nats::any_store(NatsStore::new(fixture.settings())), run.to_string());
    let engine_config = engine_config_at(fixture.directory.path(), Path::new("/bin/false"));
    let driving = async move {
        let mut observer = ();
        let engine =
            Engine::lock(&store, engine_config, &run, LockPurpose::Engine, &mut observer).await.unwrap();
        let engine_request = EngineRequest { request: Request::Pause, by: Some(test_author()), reason: None };
        engine.drive(engine_request, interrupts).await
    };
    let writing = async {
        let (sequence, mut entry) = client.get().await;
        entry["note"] = json!("theirs");
        client.update(&entry, sequence).await;
        // The engine commits the write under the next sequence.
        let resolved = loop {
            let (_, found) = client.get().await;
            if found["sequence"] != entry["sequence"] {
                break found;
            }
        };
        assert_eq!(resolved["note"], "theirs");
        client.put("rubbish").await;
        loop {
            let (_, bytes) = client.bytes(&key).await;
            if let Ok(entry) = serde_json::from_slice::<serde_json::Value>(&bytes) {
                assert_eq!(entry["note"], "theirs");
                assert_eq!(entry["history"].as_array().unwrap().last().unwrap()["event"], "recovered");
                break;
            }
        }
        interrupt.send(()).unwrap();
    };
    let (exit, ()) = tokio::join!(driving, writing);
    assert!(matches!(exit.unwrap(), EngineExit::Stopped(_)));
}
