//! Sessions about NATS, each on a server of its own. Tests for both stores are in `sessions` and `faults`.

mod addresses;
mod deleted_streams;
mod doctor;
mod import;
mod leases;
mod many_steps;
mod outages;
mod secrets;
mod systemd_units;
mod unknown_messages;

use async_nats::jetstream;
use store::{NatsSettings, NatsStore};
use testkit::nats::{Server, settings};
use testkit::{TestEnv, harness};

/// Makes a repository whose runs are on this server.
fn test_env_on(server: Server) -> TestEnv {
    TestEnv::on(server, env!("CARGO_BIN_EXE_callboard"))
}

/// Makes a repository whose runs are on a server of its own.
fn test_env() -> TestEnv {
    test_env_on(Server::start())
}

/// Starts a cluster of three servers, creates a store with three replicas, and returns the servers and their addresses.
fn start_cluster_of_three() -> ([Server; 3], String) {
    let servers = Server::start_cluster();
    let addresses = format!("nats://{}", servers.each_ref().map(Server::address).join(","));
    let store = NatsStore::new(NatsSettings { replicas: 3, ..settings(&addresses) });
    assert_eq!(harness::block_on(store.open()).unwrap(), [], "three replicas of everything");
    (servers, addresses)
}

/// Writes the user's configuration with these settings in `[store]`.
fn configure(test_env: &TestEnv, settings: &str) {
    test_env.write("../home/.config/callboard/config.toml", &format!("[store]\nreplicas = 1\n{settings}\n"));
}

/// Connects a client that is not Callboard.
fn client(test_env: &TestEnv) -> jetstream::Context {
    let address = test_env.backend().address().unwrap();
    harness::block_on(async { jetstream::new(async_nats::connect(address).await.unwrap()) })
}

fn delete_stream(test_env: &TestEnv, stream: &str) {
    harness::block_on(client(test_env).delete_stream(stream)).unwrap();
}

fn has_stream(test_env: &TestEnv, stream: &str) -> bool {
    harness::block_on(client(test_env).get_stream(stream)).is_ok()
}
