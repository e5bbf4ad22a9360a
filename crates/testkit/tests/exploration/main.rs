//! The protocols, explored: every state of small definitions, long walks through larger ones, and what was seen, for
//! people. `steps` is in this directory, `peer` in its own file.
//!
//! `CALLBOARD_REWRITE=1 cargo test -p callboard-testkit --test exploration` writes the files under `docs/protocols/`
//! anew; without it they must be what the exploration gives.

mod all;
mod every_state;
mod files;
mod peer;
mod shapes;
mod tables;
mod walks;

use protocol::steps::{Document, OnFailure, Steps, check_document};
use testkit::explorer::steps::Shape;
use testkit::explorer::{Scene, Slots};

/// As many executions of a gate as it takes to see one way back and the end of them.
const ITERATIONS: u32 = 2;

const POLICIES: [OnFailure; 3] = [OnFailure::Stop, OnFailure::Drain, OnFailure::Continue];

fn scene(shape: &Shape, policy: OnFailure, places: Slots) -> Scene<Steps> {
    let word = match policy {
        OnFailure::Stop => "stop",
        OnFailure::Drain => "drain",
        OnFailure::Continue => "continue",
    };
    let name = format!("{}, {word}", shape.name);
    Scene::new(name, shape.definition(policy, ITERATIONS), places, check)
}

/// What is wrong with a document, by the rules of its seed.
fn check(document: &Document) -> Vec<String> {
    let violations = check_document(document).into_iter();
    violations.map(|violation| format!("{}: {}", violation.pointer, violation.message)).collect()
}
