//! The face of `steps`.

use protocol::edit::NoEdit;
use protocol::steps::{Change, Definition, Document, State, Status, Steps, Verdict};
use protocol::{RunId, Stamp, StepId};
use serde_json::{Map, Value, json};

use super::{Presentation, Shown, StatusKind, WayBack};
use crate::output::{CYAN, DIM, YELLOW, styled};

impl Presentation for Steps {
    const STEP: (&'static str, &'static str) = ("step", "steps");
    const STEPS_AT: &'static str = "steps";
    const OPENED_BY: &'static str = "callboard run";
    const OPENED_WITH: &'static str = "workflow";
    const RETRIES: bool = true;
    const RENAMES: bool = true;

    fn steps(definition: &Definition) -> Vec<StepId> {
        definition.step_ids().cloned().collect()
    }

    fn agent(definition: &Definition, step: &StepId) -> String {
        definition.step(step).agent.clone()
    }

    fn needs(definition: &Definition, step: &StepId) -> Vec<StepId> {
        definition.step(step).needs.clone()
    }

    fn way_back(definition: &Definition, step: &StepId) -> Option<WayBack<StepId>> {
        let to = definition.step(step).loop_back_to.clone()?;
        Some(WayBack { to, most: definition.max_iterations().get() })
    }

    /// A step whose gate failed is done, and yet nothing that needs it may begin.
    fn is_behind(_: &Definition, state: &State, step: &StepId) -> bool {
        state.done.contains(step)
    }

    fn about(_: &Document) -> Vec<String> {
        Vec::new()
    }

    fn created_at(document: &Document) -> Stamp {
        document.head.created_at
    }

    fn shown(document: &Document, step: &StepId) -> Shown {
        let step = &document.steps[step.as_str()];
        // The document's own words: by whom, and why.
        let skipped = step.logs.first().filter(|_| step.status == Status::Skipped);
        Shown {
            status: step.status.as_str(),
            kind: kind(step.status),
            attempts: step.attempts,
            sent_back: step.iteration_count,
            began: step.started_at,
            ended: step.ended_at,
            error: step.last_error.clone(),
            remark: skipped.map(|why| why.strip_prefix("Skipped ").unwrap_or(why).to_owned()),
        }
    }

    fn result(_: &Document) -> Vec<String> {
        Vec::new()
    }

    fn result_fields(_: &Document) -> Map<String, Value> {
        Map::new()
    }

    fn said(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Done => "reported that it is done",
            Verdict::GateFailed => "reported that its gate failed",
        }
    }

    fn line(change: &Change) -> Option<String> {
        match change {
            Change::GateFailed(gate) => Some(format!("{} the gate of {gate} failed", styled(YELLOW, "⟲"))),
            // Of a run that was rebuilt: it is known how often, not by whom and to where.
            Change::Reset { gates, targets, .. } if gates.is_empty() || targets.is_empty() => None,
            Change::Reset { gates, targets, .. } => Some(format!(
                "{} back to {}, because of {}",
                styled(YELLOW, "⟲"),
                names(targets),
                names(gates)
            )),
            Change::Skipped(step) => Some(format!("{} {step} is skipped", styled(DIM, "»"))),
            Change::Retried(step) => Some(format!("{} {step} is tried again", styled(CYAN, "↻"))),
            // Told by how the attempt is over.
            Change::Done(_) | Change::Failed(_) => None,
        }
    }

    fn event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::GateFailed(gate) => Some(("gate_failed", json!({ "step": gate }))),
            Change::Reset { gates, targets, steps } => {
                Some(("reset", json!({ "gates": gates, "targets": targets, "steps": steps })))
            }
            Change::Retried(step) => Some(("retried", json!({ "step": step }))),
            Change::Skipped(step) => Some(("skipped", json!({ "step": step }))),
            // Told by how the attempt is over.
            Change::Done(_) | Change::Failed(_) => None,
        }
    }

    fn edited(edit: &NoEdit) -> String {
        match *edit {}
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        match change {
            Change::Done(about)
            | Change::Failed(about)
            | Change::GateFailed(about)
            | Change::Retried(about)
            | Change::Skipped(about) => about == step,
            Change::Reset { gates, steps, .. } => gates.contains(step) || steps.contains(step),
        }
    }

    fn defeat(change: &Change, step: &StepId) -> Option<&'static str> {
        match change {
            Change::Failed(about) if about == step => Some("its gate failed once too often"),
            Change::Done(_)
            | Change::Failed(_)
            | Change::GateFailed(_)
            | Change::Reset { .. }
            | Change::Retried(_)
            | Change::Skipped(_) => None,
        }
    }

    fn after_failure(run: &RunId, _: &Document) -> String {
        format!(
            "`callboard retry {run}` tries what failed again, `callboard skip {run} STEP --reason WHY` goes on without it"
        )
    }
}

fn kind(status: Status) -> StatusKind {
    match status {
        Status::Pending => StatusKind::Pending,
        Status::Running => StatusKind::Running,
        Status::WaitingOnHuman => StatusKind::Waiting,
        Status::Completed => StatusKind::Succeeded,
        Status::Failed => StatusKind::Failed,
        Status::Skipped => StatusKind::Skipped,
    }
}

fn names(steps: &[StepId]) -> String {
    steps.iter().map(StepId::as_str).collect::<Vec<_>>().join(", ")
}
