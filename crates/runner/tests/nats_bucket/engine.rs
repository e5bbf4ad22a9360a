//! An engine that is told of foreign writes while it waits.

use std::path::Path;

use protocol::peer::Peer;
use protocol::run::Request;
use runner::{Clock, Engine, EngineExit, EngineRequest};
use serde_json::json;
use store::{NatsStore, Tenure};
use testkit::harness::{engine_config_at, new_cycle, person, run_of, spec};
use tokio::sync::mpsc;

use crate::Scene;
use crate::client::Client;

#[tokio::test]
async fn an_engine_that_waits_settles_what_others_write() {
    let scene = Scene::new().await;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // Nobody is at work in it; and paused, so that nobody starts.
    let definition = new_cycle("peer:global:cycle:1");
    let run = run_of(&definition);
    let spec = spec::<Peer>(definition, &run, scene.directory.path(), None);
    runner::open(&scene.store, &Clock::system(), person(), spec).await.unwrap();
    let client = Client::of(&scene.server, &run).await;
    // On another store, as another process.
    let (store, key) = (NatsStore::new(scene.settings()), run.to_string());
    let engine_config = engine_config_at(scene.directory.path(), Path::new("/bin/false"));
    let playing = async move {
        let mut nobody = ();
        let engine =
            Engine::<Peer, _>::lock(&store, engine_config, &run, Tenure::Engine, &mut nobody).await.unwrap();
        let asked = EngineRequest { request: Request::Pause, by: Some(person()), reason: None };
        engine.drive(asked, interrupts).await
    };
    let writing = async {
        let (sequence, mut entry) = client.get().await;
        entry["note"] = json!("theirs");
        client.update(&entry, sequence).await;
        let settled = loop {
            let (_, found) = client.get().await;
            if found["sequence"] != entry["sequence"] {
                break found;
            }
        };
        assert_eq!(settled["note"], "theirs");
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
    let (rest, ()) = tokio::join!(playing, writing);
    assert!(matches!(rest.unwrap(), EngineExit::Stopped(_)));
}
