//! Sessions of the real binary, one file per theme. Each runs in a repository of its own with a real agent process.

mod agents;
mod archives;
mod checking;
mod crash;
mod delivering;
mod demo;
mod doctor;
mod failing;
mod formats;
mod graphs;
mod hardening;
mod importing;
mod looking;
mod peer;
mod protocols;
mod recovering;
mod rehearsing;
mod reporting;
mod resuming;
mod state;
mod steering;
mod stopping;
mod terminal;
mod unlinked;
mod views;
mod workflows;

use testkit::{Scene, last_error, status};

/// A fresh repository for the built program.
fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_callboard"))
}
