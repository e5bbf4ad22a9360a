//! The protocols, explored: every state of small definitions, long walks through larger ones, and tables for people.
//!
//! `CALLBOARD_REWRITE=1 cargo test -p callboard-explorer` writes the files in `docs/protocols/`. Without it they must be what
//! the exploration gives.

mod cycle;
mod explore_all;
mod generated_files;
mod issue;
mod peer;
mod shapes;
mod steps;
mod tables;
mod team;
mod walks;

use explorer::steps::Shape;
use explorer::{Model, Slots};
use protocol::steps::{Document, OnFailure, Steps, check_document};

/// Enough executions of a gate for one loop-back and the final failure.
const ITERATIONS: u32 = 2;

const ON_FAILURE_VALUES: [OnFailure; 3] = [OnFailure::Stop, OnFailure::Drain, OnFailure::Continue];

fn model(shape: &Shape, policy: OnFailure, slots: Slots) -> Model<Steps> {
    let word = match policy {
        OnFailure::Stop => "stop",
        OnFailure::Drain => "drain",
        OnFailure::Continue => "continue",
    };
    let name = format!("{}, {word}", shape.name);
    Model::new(name, shape.definition(policy, ITERATIONS), slots, check)
}

/// Returns what is wrong with a document, by the rules of its format.
fn check(document: &Document) -> Vec<String> {
    let violations = check_document(document).into_iter();
    violations.map(|violation| format!("{}: {}", violation.pointer, violation.message)).collect()
}
