//! Sessions of the real binary that are about NATS: each on a server of its own, whatever the other tests run on. What is true
//! on either store is in `sessions` and `faults`, which run on both.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod doctoring;
mod large;
mod leases;
mod losing;
mod migrating;
mod outages;
mod saying;
mod secrets;
mod strangers;
mod units;

use async_nats::jetstream;
use store::{NatsSettings, NatsStore};
use testkit::nats::{Server, settings};
use testkit::{Scene, harness};

/// A fresh repository whose runs are on that server.
fn scene_on(server: Server) -> Scene {
    Scene::on(server, env!("CARGO_BIN_EXE_callboard"))
}

/// A fresh repository whose runs are on a server of its own.
fn scene() -> Scene {
    scene_on(Server::start())
}

/// Three servers that keep everything three times, and where they all are.
fn three() -> ([Server; 3], String) {
    let servers = Server::start_three();
    let addresses = format!("nats://{}", servers.each_ref().map(Server::address).join(","));
    let store = NatsStore::new(NatsSettings { replicas: 3, ..settings(&addresses) });
    assert_eq!(harness::wait(store.open()).unwrap(), [], "three replicas of everything");
    (servers, addresses)
}

/// Says more about the store, in the user's own configuration.
fn configure(scene: &Scene, settings: &str) {
    scene.write("../home/.config/callboard/config.toml", &format!("[store]\nreplicas = 1\n{settings}\n"));
}

/// A client of that server that knows nothing of us.
fn client(scene: &Scene) -> jetstream::Context {
    let address = scene.backend().address().unwrap();
    harness::wait(async { jetstream::new(async_nats::connect(address).await.unwrap()) })
}

fn delete_stream(scene: &Scene, stream: &str) {
    harness::wait(client(scene).delete_stream(stream)).unwrap();
}

fn has_stream(scene: &Scene, stream: &str) -> bool {
    harness::wait(client(scene).get_stream(stream)).is_ok()
}
