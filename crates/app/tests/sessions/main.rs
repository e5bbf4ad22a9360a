//! Sessions of the real binary, one file per theme. Each runs in a repository of its own with a real agent process.

mod agents;
mod archives;
mod crash;
mod cycles;
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
mod reporting;
mod resuming;
mod state;
mod steering;
mod stopping;
mod terminal;
mod unlinked;
mod views;
mod workflows;

use testkit::Scene;

/// A fresh repository for the built program.
fn scene() -> Scene {
    Scene::new(env!("CARGO_BIN_EXE_callboard"))
}

/// The status of a step in the view.
fn status<'d>(document: &'d serde_json::Value, step: &str) -> &'d str {
    document["steps"][step]["status"].as_str().unwrap_or("no such step")
}

/// What happened last to a step, in the view.
fn last_error<'d>(document: &'d serde_json::Value, step: &str) -> &'d str {
    document["steps"][step]["last_error"].as_str().unwrap_or_default()
}
