//! Sessions about NATS, each on a server of its own. What holds on either store is in `sessions` and `faults`, which run on
//! both.

mod addresses;
mod deleted_streams;
mod doctor;
mod garbage;
mod import;
mod large;
mod leases;
mod outages;
mod secrets;
mod units;

use async_nats::jetstream;
use store::{NatsSettings, NatsStore};
use testkit::nats::{Server, settings};
use testkit::{Scene, harness};

/// Makes a repository whose runs are on this server.
fn scene_on(server: Server) -> Scene {
    Scene::on(server, env!("CARGO_BIN_EXE_callboard"))
}

/// Makes a repository whose runs are on a server of its own.
fn scene() -> Scene {
    scene_on(Server::start())
}

/// Starts a cluster of three with three replicas, and returns its addresses.
fn three() -> ([Server; 3], String) {
    let servers = Server::start_three();
    let addresses = format!("nats://{}", servers.each_ref().map(Server::address).join(","));
    let store = NatsStore::new(NatsSettings { replicas: 3, ..settings(&addresses) });
    assert_eq!(harness::wait(store.open()).unwrap(), [], "three replicas of everything");
    (servers, addresses)
}

/// Adds settings to the user's `[store]` section.
fn configure(scene: &Scene, settings: &str) {
    scene.write("../home/.config/callboard/config.toml", &format!("[store]\nreplicas = 1\n{settings}\n"));
}

/// Connects a client that is not Callboard.
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
