//! Presents runs of `steps`.

use serde_json::{Value, json};

use super::import::GATE_FAILURE;
use super::phases::loops;
use super::workflow::ENGINE;
use super::{
    Change, Definition, Document, Phase, Request, State, Status, StepDocument, Steps, Time, Verdict,
};
use crate::present::{Line, LoopBack, Present, StatusKind, StepDetails, StepSummary, Tone};
use crate::protocol_trait::Never;
use crate::{RunId, StepId, Timestamp};

impl Present for Steps {
    const STEP_NOUNS: (&'static str, &'static str) = ("step", "steps");
    const STEPS_KEY: &'static str = "steps";
    const START_COMMAND: &'static str = "callboard run";
    const START_ARGUMENT: &'static str = "workflow";
    const CAN_RETRY: bool = true;
    const IMPORT_CAN_RENAME: bool = true;
    const CHECKS_ARE_TURNS: bool = true;

    fn agent(definition: &Definition, state: &State, step: &StepId) -> String {
        match state.phase(definition, step) {
            Phase::When | Phase::ReadItems | Phase::Checks => ENGINE.to_owned(),
            Phase::Conditions | Phase::WorkOnItems | Phase::Work | Phase::Approval | Phase::Approved => {
                definition.step(step).agent.clone()
            }
        }
    }

    fn needs(definition: &Definition, state: &State, step: &StepId) -> Vec<StepId> {
        loops::needs(definition, state, step)
    }

    fn loop_back(definition: &Definition, _: &State, step: &StepId) -> Option<LoopBack<StepId>> {
        let to = loops::target(definition, step)?;
        Some(LoopBack { to, max_iterations: definition.max_iterations().get() })
    }

    fn details(definition: &Definition, step: &StepId) -> StepDetails {
        let details = definition.step(step).details();
        match definition.item_of(step) {
            Some(_) => StepDetails { conditions: Vec::new(), repeats_for: None, ..details },
            None => details,
        }
    }

    /// A gate that failed is completed in the document, but its dependents may not start.
    fn unblocks_dependents(_: &Definition, state: &State, step: &StepId) -> bool {
        state.done.contains(step)
    }

    fn created_at(document: &Document) -> Timestamp {
        document.run_fields.created_at.stamp()
    }

    fn step_summary(document: &Document, step: &StepId) -> StepSummary {
        let pending = StepDocument::pending();
        let step = document.step(step.as_str()).unwrap_or(&pending);
        // The first log line of a skipped step says who skipped it and why.
        let skipped = step.logs.first().filter(|_| step.status == Status::Skipped);
        StepSummary {
            status: step.status.as_str(),
            kind: kind(step.status),
            attempts: step.attempts,
            loop_backs: step.iteration_count,
            started_at: step.started_at.map(Time::stamp),
            ended_at: step.ended_at.map(Time::stamp),
            error: step.last_error.clone(),
            note: skipped.map(|why| why.strip_prefix("Skipped ").unwrap_or(why).to_owned()),
        }
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Done => "reported success",
            Verdict::GateFailed => "reported that its gate failed",
            Verdict::Rejected => "rejected it",
            Verdict::ChecksFailed => "had a failed check",
            Verdict::Items(_) => "found its items",
            Verdict::Skip => "is not to run",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        match change {
            Change::GateFailed(gate) => {
                Some(Line::toned(Tone::Attention, "⟲").then(format!(" gate {gate} failed")))
            }
            // Past loop-backs of a run that is imported from its `run_state.json`: that file names neither gates nor targets.
            Change::Reset { gates, targets, .. } if gates.is_empty() || targets.is_empty() => None,
            Change::Reset { gates, targets, .. } => {
                let text = format!(" looping back to {} for {}", names(targets), names(gates));
                Some(Line::toned(Tone::Attention, "⟲").then(text))
            }
            Change::Skipped(step) => Some(Line::toned(Tone::Dim, "»").then(format!(" {step} skipped"))),
            Change::Retried(step) => Some(Line::toned(Tone::Active, "↻").then(format!(" retrying {step}"))),
            Change::ChecksFailed(step) => {
                Some(Line::toned(Tone::Attention, "✗").then(format!(" a check of {step} failed")))
            }
            Change::Items { step, count } => {
                Some(Line::toned(Tone::Dim, "≡").then(format!(" {step} has {count} items")))
            }
            Change::Restarted { from, .. } => {
                Some(Line::toned(Tone::Active, "↻").then(format!(" starting again at {from}")))
            }
            // The line of the attempt that starts or has ended, or of the request, says it.
            Change::Done(_) | Change::Failed(_) | Change::Entered { .. } | Change::RestartRequested(_) => {
                None
            }
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::GateFailed(gate) => Some(("gate_failed", json!({ "step": gate }))),
            Change::Reset { gates, targets, steps, .. } => {
                Some(("reset", json!({ "gates": gates, "targets": targets, "steps": steps })))
            }
            Change::Retried(step) => Some(("retried", json!({ "step": step }))),
            Change::Skipped(step) => Some(("skipped", json!({ "step": step }))),
            Change::ChecksFailed(step) => Some(("checks_failed", json!({ "step": step }))),
            Change::Items { step, count } => Some(("items", json!({ "step": step, "count": count }))),
            Change::Entered { step, phase } => Some(("entered", json!({ "step": step, "phase": phase }))),
            Change::Restarted { from, steps, .. } => {
                Some(("restarted", json!({ "from": from, "steps": steps })))
            }
            // The event of the ended attempt, or of the request, says it.
            Change::Done(_) | Change::Failed(_) | Change::RestartRequested(_) => None,
        }
    }

    fn request_text(Request::StartAt(step): &Request) -> String {
        format!("start again at {step}")
    }

    fn edit_summary(edit: &Never) -> String {
        match *edit {}
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        match change {
            Change::Done(about)
            | Change::Failed(about)
            | Change::GateFailed(about)
            | Change::Retried(about)
            | Change::Skipped(about)
            | Change::ChecksFailed(about)
            | Change::Items { step: about, .. }
            | Change::Entered { step: about, .. }
            | Change::RestartRequested(about) => about == step,
            Change::Restarted { steps, items, .. } => steps.contains(step) || items.contains(step),
            Change::Reset { gates, steps, items, .. } => {
                gates.contains(step) || steps.contains(step) || items.contains(step)
            }
        }
    }

    fn failure_reason(change: &Change, step: &StepId) -> Option<&'static str> {
        match change {
            Change::Failed(about) if about == step => {
                Some("its result was refused, and no iteration or attempt is left")
            }
            Change::Done(_)
            | Change::Entered { .. }
            | Change::Items { .. }
            | Change::ChecksFailed(_)
            | Change::Failed(_)
            | Change::GateFailed(_)
            | Change::Reset { .. }
            | Change::Retried(_)
            | Change::Skipped(_)
            | Change::RestartRequested(_)
            | Change::Restarted { .. } => None,
        }
    }

    fn failure_hint(definition: &Definition, run: &RunId, document: &Document) -> String {
        let retry = Self::retry_command(definition, run, document);
        format!(
            "run `{retry}` to retry the failed steps, or `callboard skip {run} STEP --reason WHY` to continue without one"
        )
    }

    /// A gate that failed in its last iteration is retried from the target of its loop-back: repeated alone, it would only
    /// judge the same work again.
    fn retry_command(definition: &Definition, run: &RunId, document: &Document) -> String {
        let target = definition.step_ids().find_map(|id| {
            let step = document.steps.get(id.as_str())?;
            let is_failed_gate = step.status == Status::Failed
                && step.last_error.as_deref().is_some_and(|error| error.starts_with(GATE_FAILURE));
            definition.step(id).loop_back_to.as_ref().filter(|_| is_failed_gate)
        });
        match target {
            Some(target) => format!("callboard retry {run} --from {target}"),
            None => format!("callboard retry {run}"),
        }
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
