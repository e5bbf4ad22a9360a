//! Runs on NATS, by the real binary, when the server is not there, says no, or holds a great deal. What is true on either
//! store is in `sessions` and `faults`, which run on both.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod large;
mod leases;
mod outages;
mod secrets;

use testkit::Scene;
use testkit::nats::Server;

/// A fresh repository whose runs are on a server of its own.
fn scene() -> Scene {
    Scene::on(Server::start(), env!("CARGO_BIN_EXE_callboard"))
}

/// Says more about the store, in the user's own configuration.
fn configure(scene: &Scene, settings: &str) {
    scene.write("../home/.config/callboard/config.toml", &format!("[store]\nreplicas = 1\n{settings}\n"));
}
