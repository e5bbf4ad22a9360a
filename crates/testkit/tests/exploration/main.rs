//! `steps`, explored: every state of small workflows, long walks through larger ones, and what was seen, for people.
//!
//! `CALLBOARD_REWRITE=1 cargo test -p callboard-testkit --test exploration` writes the files under `docs/protocols/`
//! anew; without it they must be what the exploration gives.

mod every_state;
mod files;
mod shapes;
mod tables;
mod walks;

use protocol::SeatName;
use protocol::rules::{Protocol, Standing};
use protocol::run::{Request, Run};
use protocol::steps::{Definition, Document, OnFailure, Steps, check_document};
use testkit::explorer::steps::Shape;
use testkit::explorer::{Places, Scene};

/// As many executions of a gate as it takes to see one way back and the end of them.
const ITERATIONS: u32 = 2;

const POLICIES: [OnFailure; 3] = [OnFailure::Stop, OnFailure::Drain, OnFailure::Continue];

fn scene(shape: &Shape, policy: OnFailure, places: Places) -> Scene<Steps> {
    let word = match policy {
        OnFailure::Stop => "stop",
        OnFailure::Drain => "drain",
        OnFailure::Continue => "continue",
    };
    let name = format!("{}, {word}", shape.name);
    Scene::new(name, shape.definition(policy, ITERATIONS), places, check).asked_only(unless_known)
}

/// What is wrong with a document, by the rules of its seed.
fn check(document: &Document) -> Vec<String> {
    let violations = check_document(document).into_iter();
    violations.map(|violation| format!("{}: {}", violation.pointer, violation.message)).collect()
}

/// Skipping ahead of what is not done, or beside what has failed, finds faults that are known (`docs/exploration.md`,
/// "Found") and would hide all others.
fn unless_known(definition: &Definition, run: &Run<Steps>, request: &Request<SeatName>) -> bool {
    let Request::Skip { seat } = request else { return true };
    let is_done = |step: &SeatName| run.play.done.contains(step);
    let others_failed = Steps::failed(definition, &run.play).iter().any(|failed| failed != seat);
    let open = Steps::standing(definition, &run.play, seat) != Standing::Skipped;
    !open || (definition.step(seat).needs.iter().all(is_done) && !others_failed)
}
