//! What the explorer needs to visit every state of `items`: notation and rules.

use protocol::protocol_trait::StepStatus;
use protocol::report::{Report, ReportIdentity};
use protocol::run::{Run, RunStatus, TurnStatus};
use protocol::{Answer, Outcome, Protocol as _, RunId, StepId, StepRecordStatus, Timestamp, TypedMachine};
use serde_json::{Map, Value, json};

use super::{Change, Definition, Items, Reopen, Stage, State, Step, Verdict};
use explorer::{Explored, StepNotation, Transition, Violation};

/// The items of every explored plan.
fn items() -> Vec<StepId> {
    ["a", "b"].map(|id| StepId::new(id).expect("BUG: the name is safe")).to_vec()
}

impl Explored for Items {
    fn verdicts(_: &Definition, _: &State, step: &Step) -> Vec<Verdict> {
        match step {
            Step::Plan => vec![Verdict::Planned(items())],
            Step::Make(_) => vec![Verdict::Made],
            Step::Approve(_) => vec![Verdict::Approved, Verdict::Rejected],
            Step::Record(_) => vec![Verdict::Recorded],
        }
    }

    fn report(_: &Definition, step: &Step, verdict: &Verdict) -> Report {
        let fields = match verdict {
            Verdict::Planned(items) => {
                json!({ "items": items.iter().map(|id| json!({ "id": id, "name": format!("item {id}") })).collect::<Vec<_>>() })
            }
            Verdict::Recorded => json!({ "line": 1 }),
            Verdict::Made | Verdict::Approved | Verdict::Rejected => Value::Object(Map::new()),
        };
        let expected = ReportIdentity {
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: Self::step_id(step),
            agent: step.agent().to_owned(),
        };
        let at = Timestamp::from_micros(1_750_000_000_000_000);
        Report::completed(&expected, at, fields.as_object().cloned().unwrap_or_default())
    }

    fn answer(_: &Definition, _: &Step, verdict: &Verdict) -> Answer {
        match verdict {
            Verdict::Approved => Answer::Approve { text: None },
            Verdict::Rejected | Verdict::Planned(_) | Verdict::Made | Verdict::Recorded => {
                Answer::Reject { reason: "because".to_owned() }
            }
        }
    }

    fn requests(_: &Definition, _: &State) -> Vec<Reopen> {
        items().into_iter().map(|reopen| Reopen { reopen }).collect()
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Planned(_) => "planned",
            Verdict::Made => "made",
            Verdict::Approved => "approve",
            Verdict::Rejected => "reject",
            Verdict::Recorded => "recorded",
        }
        .to_owned()
    }

    fn describe_step(_: &Definition, state: &State, step: &Step) -> StepNotation {
        let symbol = match state.status(step) {
            StepStatus::Succeeded | StepStatus::Skipped => "✓",
            StepStatus::Failed => "✗",
            StepStatus::Unfinished => "·",
        };
        StepNotation { symbol, note: String::new() }
    }

    fn describe_change(change: &Change) -> String {
        match change {
            Change::Planned(items) => format!("{} items", items.len()),
            Change::Made(item) => format!("{item} made"),
            Change::Approved(item) => format!("{item} approved"),
            Change::Rejected(item) => format!("{item} rejected"),
            Change::Recorded(item) => format!("{item} recorded"),
            Change::Reopened(item) => format!("{item} reopened"),
            Change::Failed(step) => format!("{step} failed"),
            Change::Retried(step) => format!("{step} again"),
        }
    }

    fn document_differences(
        run: &Run,
        TypedMachine { state, document, .. }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let differs = state.steps().into_iter().filter_map(|step| {
            let shown = document.step(&step.id()).map(|step| step.status);
            let active = run.active_turns.get(&step.id()).map(|active| active.status);
            let expected = match (active, state.status(&step)) {
                (Some(TurnStatus::Running | TurnStatus::Stopping), _) => StepRecordStatus::Running,
                (Some(TurnStatus::Waiting), _) => StepRecordStatus::Waiting,
                (_, StepStatus::Failed) => StepRecordStatus::Failed,
                (_, StepStatus::Succeeded | StepStatus::Skipped) => StepRecordStatus::Succeeded,
                (_, StepStatus::Unfinished) => StepRecordStatus::Pending,
            };
            (shown != Some(expected)).then(|| format!("`{step}` is shown as {shown:?}, not {expected:?}"))
        });
        differs.collect()
    }

    fn check_rules(_: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        let machine = TypedMachine::<Self>::of(&*transition.after.machine).expect("BUG: another protocol");
        let all_recorded = !machine.state.items.is_empty()
            && machine.state.items.values().all(|stage| *stage == Stage::Recorded);
        let succeeded = transition.after.status == RunStatus::Finished(Outcome::Succeeded);
        let mut violations = Vec::new();
        if succeeded != all_recorded {
            let what = format!("recorded: {all_recorded}, succeeded: {succeeded}");
            violations.push(Violation::new("a run has succeeded if all items are recorded", what));
        }
        violations
    }
}
