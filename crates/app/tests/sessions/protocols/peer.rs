//! `callboard peer`: cycles of the real binary, with the scripted agent of the rehearsal or that of the tests.

mod arguments;
mod complete_cycles;
mod continuing;
mod corrupted;
mod killing;
mod naming;
mod prompts;
mod reporting;
mod stopping;

use protocol::peer::{Definition, Document, Event, Peer, PeerCycleId, RuleViolations, check_document};
use protocol::{PROTOCOLS, RunId, TypedMachine};
use runner::RunAtRevision;
use testkit::{Callboard, TestEnv, harness};

/// Prepares `callboard peer` with these arguments and the scripted agent.
fn peer<'s>(test_env: &'s TestEnv, arguments: &[&str]) -> Callboard<'s> {
    test_env.with_agent(&[&["peer"], arguments].concat())
}

/// Prepares `callboard peer --rehearse=FILE` with these arguments and this script.
fn rehearsed<'s>(test_env: &'s TestEnv, script: &str, arguments: &[&str]) -> Callboard<'s> {
    let file = test_env.agent_dir().join("script.yaml");
    std::fs::write(&file, script).unwrap();
    let rehearse = format!("--rehearse={}", file.display());
    test_env.callboard(&[&["peer"], arguments, &[&rehearse]].concat())
}

/// Loads definition and document of a cycle from the store.
fn load(test_env: &TestEnv, cycle: &str) -> (Definition, Document) {
    let cycle: PeerCycleId = cycle.parse().unwrap();
    let store = test_env.open_store();
    let run = RunId::new(cycle.key()).unwrap();
    let run_at = harness::block_on(RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, None)).unwrap();
    let run_at = run_at.expect("there is such a cycle");
    let cycle = TypedMachine::<Peer>::of(run_at.machine()).expect("a run of `peer`");
    (Definition::clone(&cycle.definition), Document::clone(&cycle.document))
}

/// Returns the document of a cycle. Fails if it violates a rule.
#[track_caller]
fn document(test_env: &TestEnv, cycle: &str) -> Document {
    let (_, document) = load(test_env, cycle);
    assert_eq!(check_document(&document), RuleViolations::default(), "{}", document.render());
    document
}

/// Returns the transitions in the history of a document: `plan started`, `cycle completed`.
fn transitions(document: &Document) -> Vec<String> {
    let entries = document.history.iter().filter(|entry| entry.event != Event::Progress);
    let phase_or_cycle = |phase: Option<protocol::peer::Phase>| phase.map_or("cycle", |phase| phase.as_str());
    entries.map(|entry| format!("{} {}", phase_or_cycle(entry.phase), entry.event.as_str())).collect()
}

/// The transitions of a cycle in which nothing failed.
const SUCCESS_TRANSITIONS: [&str; 10] = [
    "cycle initialized",
    "plan started",
    "plan completed",
    "execute started",
    "execute completed",
    "express started",
    "express completed",
    "review started",
    "review completed",
    "cycle completed",
];
