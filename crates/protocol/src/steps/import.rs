//! Imports a document: makes the state of a run whose journal is lost from its `run_state.json`.
//!
//! The document says which steps are done, and how many loop-backs have reset each. Attempts are not in it, so running steps
//! are started again. The reports of failed gates are lost with the journal.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::check;
use super::decide;
use super::definition::Definition;
use super::document::{Document, Status, StepDocument};
use super::phases::Phase;
use super::state::{Change, State};
use super::workflow::StepSpec;
use crate::check::Violation;
use crate::protocol_trait::{ImportRefusal, Move};
use crate::{StepId, Timestamp};

/// How `record` begins the error of a failed gate.
pub(super) const GATE_FAILURE: &str = "Gate failure";

/// The largest `iteration_count` that is accepted. Each iteration becomes a change in memory.
const MAX_ITERATIONS: u32 = 10_000;

pub(super) fn import(
    definition: &Definition,
    document: &Value,
) -> Result<Move<Change, StepId>, ImportRefusal> {
    let violations: Vec<_> =
        check(document).into_iter().filter(|found| !is_harmless(document, found)).collect();
    if !violations.is_empty() {
        return Err(ImportRefusal::Invalid(violations));
    }
    let document: Document = serde_json::from_value(document.clone())
        .map_err(|error| ImportRefusal::Unusable(format!("it cannot be parsed: {error}")))?;
    let missing = definition.step_ids().find(|id| !document.steps.contains_key(id.as_str()));
    if let Some(missing) = missing {
        return Err(ImportRefusal::StepsDiffer(format!("it has no step `{missing}`")));
    }
    let unknown = document.steps.keys().find(|id| definition.step_ids().all(|known| known.as_str() != *id));
    if let Some(unknown) = unknown {
        return Err(ImportRefusal::StepsDiffer(format!("the workflow has no step `{unknown}`")));
    }
    let implausible = document.steps.iter().find(|(_, step)| step.iteration_count > MAX_ITERATIONS);
    if let Some((id, step)) = implausible {
        let count = step.iteration_count;
        return Err(ImportRefusal::Unusable(format!(
            "step `{id}` has an implausible `iteration_count` of {count}"
        )));
    }
    let changes = changes(definition, &document);
    let mut state = State::default();
    changes.iter().for_each(|change| state.apply(change));
    Ok(Move { next: decide::next_after_import(definition, &state), changes })
}

/// Returns whether a document with this violation can be imported nevertheless. Other programs store metrics and
/// artifacts as reported, leave out the microseconds of a time if there are none, and leave fields empty that a status
/// requires.
fn is_harmless(document: &Value, found: &Violation) -> bool {
    match found.rule {
        "bad-time" => {
            let time = document.pointer(&found.pointer).and_then(Value::as_str);
            time.is_some_and(|time| time.parse::<Timestamp>().is_ok())
        }
        rule => HARMLESS.contains(&rule),
    }
}

const HARMLESS: [&str; 6] = [
    "metric-not-text",
    "artifact-not-relative",
    "running-without-start",
    "waiting-without-input-path",
    "ended-without-end",
    "failed-without-error",
];

fn changes(definition: &Definition, document: &Document) -> Vec<Change> {
    let steps = || definition.step_ids().map(|id| (id, &document.steps[id.as_str()]));
    let iterations = steps().map(|(_, step)| step.iteration_count).max().unwrap_or(0);
    let mut changes: Vec<_> = (1..=iterations)
        .map(|iteration| {
            let reset_steps = steps().filter(|(_, step)| step.iteration_count >= iteration);
            let steps = reset_steps.map(|(id, _)| id.clone()).collect();
            let (gates, targets, items, reopened) = Default::default();
            Change::Reset { gates, targets, steps, items, reopened }
        })
        .collect();
    let incomplete = incomplete_loops(definition, document);
    for (id, step) in steps().filter(|(id, _)| !incomplete.contains(*id)) {
        changes.extend(match step.status {
            Status::Completed if loop_back_pending(definition, id, step) => {
                Some(Change::GateFailed(id.clone()))
            }
            Status::Completed => Some(Change::Done(id.clone())),
            Status::Skipped => Some(Change::Skipped(id.clone())),
            Status::Failed => Some(Change::Failed(id.clone())),
            // The agent has done its work.
            Status::WaitingOnHuman if definition.step(id).human_in_the_loop => {
                Some(Change::Entered { step: id.clone(), phase: Phase::Approval })
            }
            Status::Pending | Status::Running | Status::WaitingOnHuman => None,
        });
    }
    changes
}

/// Returns the steps of every data loop in which a step is not done. The document does not say how many items there
/// are, so the whole loop starts again.
fn incomplete_loops(definition: &Definition, document: &Document) -> BTreeSet<StepId> {
    let is_done = |step: &StepSpec| match document.steps.get(step.id.as_str()).map(|step| step.status) {
        Some(Status::Completed | Status::Skipped) => true,
        Some(Status::Pending | Status::Running | Status::WaitingOnHuman | Status::Failed) | None => false,
    };
    let steps = definition.workflow().steps.iter();
    let incomplete = steps.filter(|step| {
        let group =
            definition.items_owner(step).map(|items_owner| definition.steps_sharing_items(items_owner));
        group.is_some_and(|mut group| !group.all(is_done))
    });
    incomplete.map(|step| step.id.clone()).collect()
}

/// Returns whether the gate failed and its loop-back was still pending.
fn loop_back_pending(definition: &Definition, id: &StepId, step: &StepDocument) -> bool {
    let failed = step.last_error.as_deref().is_some_and(|error| error.starts_with(GATE_FAILURE));
    failed && definition.step(id).loop_back_to.is_some()
}

/// Copies the steps of the imported document `found`. Running steps become pending, except those for which the run asks
/// a person. The paths of `document` stay as they are.
pub(super) fn copy_steps(definition: &Definition, document: &mut Document, found: &Value) {
    let Ok(found) = serde_json::from_value::<Document>(found.clone()) else { return };
    let incomplete = incomplete_loops(definition, &found);
    document.run_fields.created_at = found.run_fields.created_at;
    document.run_fields.updated_at = found.run_fields.updated_at;
    document.unknown = found.unknown;
    for (id, mut step) in found.steps {
        let Some(current) = document.steps.get_mut(&id) else { continue };
        match (current.status, step.status) {
            // The run asks again.
            (Status::WaitingOnHuman, _) => {
                step.status = current.status;
                step.manual_input_path = current.manual_input_path.take();
                step.started_at = step.started_at.or(current.started_at);
            }
            (_, Status::Running | Status::WaitingOnHuman) => {
                step.status = Status::Pending;
                step.attempts = step.attempts.saturating_sub(1);
            }
            (_, Status::Pending | Status::Completed | Status::Failed | Status::Skipped) => {}
        }
        if incomplete.iter().any(|again| again.as_str() == id) {
            let (iteration_count, unknown) = (step.iteration_count, step.unknown);
            step = StepDocument { iteration_count, unknown, ..StepDocument::pending() };
        }
        *current = step;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol_trait::Next;
    use crate::steps::{OnFailure, Request, StoredDefinition, load};

    const WORKFLOW: &str = "
name: w
steps:
  - {id: plan, agent: x, prompt: p.md}
  - {id: code, agent: x, prompt: p.md, needs: [plan], loop: {items: [a, b]}}
  - {id: review, agent: x, prompt: p.md, needs: [code], loop: {with: code}}
";

    fn definition() -> Definition {
        let source = StoredDefinition {
            workflow: load::analyze(WORKFLOW).workflow.unwrap(),
            source: String::new(),
            prompts: Default::default(),
            max_attempts: crate::protocol_trait::DEFAULT_MAX_ATTEMPTS,
            max_iterations: crate::steps::DEFAULT_MAX_ITERATIONS,
            on_failure: OnFailure::Stop,
            gate_state_file: None,
            report_schema: None,
            memory: Default::default(),
        };
        source.into()
    }

    fn document(statuses: [&str; 3]) -> Value {
        let step = |status: &str| {
            json!({
                "status": status, "attempts": 1, "iteration_count": 0, "report_path": null, "started_at": null,
                "ended_at": null, "last_error": null, "artifacts": [], "metrics": {"n": 1}, "logs": [],
                "manual_input_path": null, "blocked_by_loop": null,
            })
        };
        let [plan, code, review] = statuses.map(step);
        json!({
            "run_id": "r", "workflow_name": "w", "repo_dir": "/r", "reports_dir": "/r/reports",
            "manual_inputs_dir": "/r/inputs", "created_at": "2025-01-15T14:30:00Z",
            "updated_at": "2025-01-15T14:30:00Z", "steps": {"plan": plan, "code": code, "review": review},
        })
    }

    fn next(statuses: [&str; 3]) -> Next {
        import(&definition(), &document(statuses)).unwrap().next
    }

    #[test]
    fn a_data_loop_starts_again_unless_all_steps_of_its_items_are_done() {
        let id = |id| StepId::new(id).unwrap();
        assert_eq!(next(["COMPLETED", "COMPLETED", "PENDING"]), Next::QueueUnlessInTurn(vec![id("code")]));
        assert_eq!(next(["COMPLETED", "FAILED", "PENDING"]), Next::QueueUnlessInTurn(vec![id("code")]));
        assert_eq!(
            next(["COMPLETED", "COMPLETED", "COMPLETED"]),
            Next::Finish(crate::protocol_trait::Outcome::Succeeded)
        );
    }

    #[test]
    fn a_step_does_not_start_again_without_its_items() {
        let definition = definition();
        let mut state = State::default();
        let imported = import(&definition, &document(["COMPLETED"; 3])).unwrap();
        imported.changes.iter().for_each(|change| state.apply(change));
        let start =
            |step| decide::consider(&definition, &state, &Request::StartAt(StepId::new(step).unwrap()));
        assert_eq!(start("review").unwrap_err().code, "items_unknown");
        assert!(start("code").is_ok());
    }

    #[test]
    fn invalid_times_are_refused() {
        let mut document = document(["PENDING"; 3]);
        document["created_at"] = "yesterday".into();
        assert!(matches!(import(&definition(), &document), Err(ImportRefusal::Invalid(_))));
    }
}
