//! What the explorer needs of `peer`: its verdicts and reports, the words for its steps and changes in tables of transitions, and
//! how a document must agree with its run. The rules are in `rules`, the explored cycles in `models`.

mod expected;
mod models;
mod rules;
mod writes;

use protocol::peer::{
    Change as ProtocolChange, Definition, Document, Peer, PeerCycleStatus, Phase, PhaseStatus, State, Verdict,
};
use protocol::report::{self, Report, SCHEMA};
use protocol::run::Run;
use protocol::{Protocol as _, RunId, TypedMachine};
use serde_json::{Map, Value, json};

use super::{Explored, StepNotation, Transition, Violation, WriteInput};
pub use models::{continued, cycle, imported, model, of_whole_repository};

/// The meaning of the symbols in tables of `peer`.
pub const LEGEND: &str =
    "· not started yet   ✓ completed   ! completed, and the review is unsuccessful   ✗ failed
⇐ in progress: its output is reused from the cycle that this one continues
✎ the new status of the document, if the document changed";

/// The specified order, written down independently of the protocol.
pub(super) const ORDER: [Phase; 4] = [Phase::Plan, Phase::Execute, Phase::Express, Phase::Review];

/// The quality score from which a review is successful.
const MIN_SUCCESSFUL_SCORE: u64 = 70;

/// The output of a phase in all explorations.
pub(super) fn output(phase: Phase) -> Value {
    match phase {
        Phase::Plan => json!({"phases": [{"phase": "preparation"}], "success_criteria": "it works"}),
        Phase::Execute => json!({"progress": "all done", "execution_status": "success"}),
        Phase::Express => json!({"told": "what was done"}),
        Phase::Review => json!({"quality_score": 85}),
    }
}

/// Returns what a report with this verdict has in addition to the fields of every report.
fn report_fields(phase: Phase, verdict: Verdict) -> Map<String, Value> {
    let fields = match verdict {
        Verdict::Completed | Verdict::Reviewed { success: true } => json!({ "output": output(phase) }),
        Verdict::Reviewed { success: false } => json!({
            "output": {"quality_score": 40},
            "cycle_summary": {"user_action_required": true},
            "insights": {"questions_for_user": ["which mail server?"]},
        }),
    };
    fields.as_object().cloned().unwrap_or_default()
}

/// Returns whether the cycle is completed and its review successful.
fn succeeded(document: &Document) -> bool {
    let score = document.phases.review.output.as_ref().and_then(|review| review["quality_score"].as_u64());
    document.metadata.status == PeerCycleStatus::Completed
        && score.is_some_and(|score| score >= MIN_SUCCESSFUL_SCORE)
}

/// Returns the first phase that is not completed in the document.
fn first_incomplete_phase(document: &Document) -> Option<Phase> {
    ORDER.into_iter().find(|phase| document.phases[*phase].status != PhaseStatus::Completed)
}

impl Explored for Peer {
    fn verdicts(_: &Definition, _: &State, step: &Phase) -> Vec<Verdict> {
        match step {
            Phase::Plan | Phase::Execute | Phase::Express => vec![Verdict::Completed],
            Phase::Review => {
                vec![Verdict::Reviewed { success: true }, Verdict::Reviewed { success: false }]
            }
        }
    }

    fn report(_: &Definition, step: &Phase, verdict: &Verdict) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: Self::step_id(step),
            agent: step.agent().to_owned(),
            status: report::Status::Completed,
            started_at: "2025-06-15T15:00:00.000000Z".to_owned(),
            ended_at: "2025-06-15T15:00:01.000000Z".to_owned(),
            artifacts: Vec::new(),
            metrics: [("lines".to_owned(), "12".to_owned())].into_iter().collect(),
            logs: vec![format!("{step} worked")],
            next_suggested_steps: Vec::new(),
            gate_failure: false,
            memory_updates: Vec::new(),
            copy_edits: Default::default(),
            extra_fields: report_fields(*step, *verdict),
        }
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Completed => "completed",
            Verdict::Reviewed { success: true } => "success",
            Verdict::Reviewed { success: false } => "no success",
        }
        .to_owned()
    }

    fn describe_step(_: &Definition, state: &State, step: &Phase) -> StepNotation {
        let (open, symbol) = match state {
            // The turn shows whether the phase is queued or running.
            State::Ready(phase) | State::Active(phase) => (Some(*phase), "·"),
            State::Reusing(phase) => (Some(*phase), "⇐"),
            State::Failed(phase) => (Some(*phase), "✗"),
            State::Reviewed { success: true } | State::Closed { success: true } => (None, "✓"),
            State::Reviewed { success: false } | State::Closed { success: false } => (None, "!"),
        };
        let symbol = match open {
            Some(open) if *step == open => symbol,
            Some(open) if *step > open => "·",
            Some(_) => "✓",
            None if *step == Phase::Review => symbol,
            None => "✓",
        };
        StepNotation { symbol, note: String::new() }
    }

    fn describe_change(change: &ProtocolChange) -> String {
        match change {
            ProtocolChange::Activated(phase) => format!("{phase} next"),
            ProtocolChange::ReuseStarted(phase) => format!("{phase} reused"),
            ProtocolChange::Completed(phase) => format!("{phase} completed"),
            ProtocolChange::Reviewed { success: true } => "review completed".to_owned(),
            ProtocolChange::Reviewed { success: false } => "review completed, no success".to_owned(),
            ProtocolChange::Closed => "cycle completed".to_owned(),
            ProtocolChange::Failed(phase) => format!("{phase} failed"),
            ProtocolChange::Imported(_) => "imported".to_owned(),
        }
    }

    fn describe_document(document: &Document) -> Option<String> {
        Some(document_status(document))
    }

    fn writes(run: &Run, document: &Document) -> Vec<WriteInput> {
        writes::writes(run, document)
    }

    fn document_differences(
        run: &Run,
        TypedMachine { state, document, .. }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let turn = |phase| run.active_turns.get(&Self::step_id(&phase));
        let started = |phase| turn(phase).is_some_and(|active| active.attempt_no.0 > 0);
        // The first phase that is not completed, with its status in the document: `None` if it is pending or in progress. Then
        // the status of the cycle, `None` if several are right.
        let (open, cycle_status) = match *state {
            // The phase is queued. The document may already show it as in progress, if the run was imported.
            State::Ready(phase) | State::Active(phase) if !started(phase) => (Some((phase, None)), None),
            State::Ready(phase) | State::Active(phase) | State::Reusing(phase) => {
                (Some((phase, Some(PhaseStatus::InProgress))), Some(PeerCycleStatus::InProgress))
            }
            State::Failed(phase) => (Some((phase, Some(PhaseStatus::Failed))), Some(PeerCycleStatus::Failed)),
            State::Reviewed { .. } => (None, Some(PeerCycleStatus::InProgress)),
            State::Closed { .. } => (None, Some(PeerCycleStatus::Completed)),
        };
        let mut differences = Vec::new();
        for phase in ORDER {
            let shown = document.phases[phase].status;
            let expected = match open {
                Some((open, status)) if phase == open => status,
                Some((open, _)) if phase > open => Some(PhaseStatus::Pending),
                Some(_) | None => Some(PhaseStatus::Completed),
            };
            let is_right = match expected {
                Some(expected) => shown == expected,
                None => matches!(shown, PhaseStatus::Pending | PhaseStatus::InProgress),
            };
            if !is_right {
                differences.push(format!("`{phase}` is shown as {shown:?}, the run is {state:?}"));
            }
        }
        if cycle_status.is_some_and(|cycle_status| document.metadata.status != cycle_status) {
            differences
                .push(format!("the cycle is shown as {:?}, the run is {state:?}", document.metadata.status));
        }
        differences
    }

    fn check_rules(definition: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        rules::inspect(definition, transition)
    }
}

/// Returns the status of the document, such as `plan in_progress`: that of the phase in progress, or of the cycle.
fn document_status(document: &Document) -> String {
    let phase_with = |status| ORDER.into_iter().find(|phase| document.phases[*phase].status == status);
    match document.metadata.status {
        PeerCycleStatus::Initialized => "initialized".to_owned(),
        PeerCycleStatus::Completed => "completed".to_owned(),
        PeerCycleStatus::Failed => "failed".to_owned(),
        PeerCycleStatus::InProgress => match phase_with(PhaseStatus::InProgress) {
            Some(phase) => format!("{phase} in_progress"),
            None => format!("{} completed", document.metadata.current_phase),
        },
    }
}

/// Returns every status that a document can have, in the order of a successful cycle; `failed` is the last.
pub fn document_statuses() -> Vec<String> {
    let phases =
        ORDER.into_iter().flat_map(|phase| [format!("{phase} in_progress"), format!("{phase} completed")]);
    let ends = ["completed", "failed"].map(str::to_owned);
    ["initialized".to_owned()].into_iter().chain(phases).chain(ends).collect()
}
