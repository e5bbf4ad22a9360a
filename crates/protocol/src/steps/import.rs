//! A foreign document → a run: what a `run_state.json` tells of a run whose journal is lost.
//!
//! It tells which steps are behind us and how often they were sent back. It does not tell who was at work: a step that
//! runs in it is asked again. What gates have found is lost with the journal.

use serde_json::Value;

use super::check::check;
use super::decide::{self, Change, State};
use super::definition::Definition;
use super::document::{Document, Status, StepDocument};
use crate::StepId;
use crate::rules::{ImportRefusal, Move};

/// What the document calls a gate that failed; see `record`.
const GATE_FAILURE: &str = "Gate failure";

/// Each round becomes a change: a count that nobody can have reached would fill the memory with them.
const MOST_ROUNDS: u32 = 10_000;

pub(super) fn import(
    definition: &Definition,
    document: &Value,
) -> Result<Move<Change, StepId>, ImportRefusal> {
    let violations = check(document);
    if !violations.is_empty() {
        return Err(ImportRefusal::Broken(violations));
    }
    let document: Document = serde_json::from_value(document.clone())
        .map_err(|error| ImportRefusal::OtherSteps(format!("it cannot be read: {error}")))?;
    let missing = definition.step_ids().find(|id| !document.steps.contains_key(id.as_str()));
    if let Some(missing) = missing {
        return Err(ImportRefusal::OtherSteps(format!("it has no step `{missing}`")));
    }
    let unknown = document.steps.keys().find(|id| definition.step_ids().all(|known| known.as_str() != *id));
    if let Some(unknown) = unknown {
        return Err(ImportRefusal::OtherSteps(format!("the workflow has no step `{unknown}`")));
    }
    let endless = document.steps.iter().find(|(_, step)| step.iteration_count > MOST_ROUNDS);
    if let Some((id, step)) = endless {
        let count = step.iteration_count;
        return Err(ImportRefusal::OtherSteps(format!(
            "step `{id}` cannot have been sent back {count} times"
        )));
    }
    let changes = changes(definition, &document);
    let mut state = State::default();
    changes.iter().for_each(|change| state.apply(change));
    Ok(Move { next: decide::next(definition, &state), changes })
}

fn changes(definition: &Definition, document: &Document) -> Vec<Change> {
    let steps = || definition.step_ids().map(|id| (id, &document.steps[id.as_str()]));
    let rounds = steps().map(|(_, step)| step.iteration_count).max().unwrap_or(0);
    let mut changes: Vec<_> = (1..=rounds)
        .map(|round| {
            let sent_back = steps().filter(|(_, step)| step.iteration_count >= round);
            let steps = sent_back.map(|(id, _)| id.clone()).collect();
            Change::Reset { gates: Vec::new(), targets: Vec::new(), steps }
        })
        .collect();
    for (id, step) in steps() {
        changes.extend(match step.status {
            Status::Completed if waits_to_go_back(definition, id, step) => {
                Some(Change::GateFailed(id.clone()))
            }
            Status::Completed => Some(Change::Done(id.clone())),
            Status::Skipped => Some(Change::Skipped(id.clone())),
            Status::Failed => Some(Change::Failed(id.clone())),
            Status::Pending | Status::Running | Status::WaitingOnHuman => None,
        });
    }
    changes
}

/// Its gate failed, and the way back had not been taken yet.
fn waits_to_go_back(definition: &Definition, id: &StepId, step: &StepDocument) -> bool {
    let failed = step.last_error.as_deref().is_some_and(|error| error.starts_with(GATE_FAILURE));
    failed && definition.step(id).loop_back_to.is_some()
}

/// Puts what was found into the document. Whoever was at work is asked again. Paths stay those of this place.
pub(super) fn take_over(document: &mut Document, found: &Value) {
    let Ok(found) = serde_json::from_value::<Document>(found.clone()) else { return };
    document.head.created_at = found.head.created_at;
    document.unknown = found.unknown;
    for (id, mut step) in found.steps {
        let Some(slot) = document.steps.get_mut(&id) else { continue };
        match step.status {
            Status::Running | Status::WaitingOnHuman => {
                step.status = Status::Pending;
                step.attempts = step.attempts.saturating_sub(1);
            }
            Status::Pending | Status::Completed | Status::Failed | Status::Skipped => {}
        }
        *slot = step;
    }
}
