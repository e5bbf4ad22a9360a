//! Presents runs of `items`.

use protocol::present::{Line, Present, StepSummary, Tone};
use protocol::protocol_trait::StepStatus;
use protocol::{Never, RunId, StepId, Timestamp};
use serde_json::{Value, json};

use super::{Change, Definition, Document, Items, Reopen, State, Step, Verdict};

impl Present for Items {
    const STEP_NOUNS: (&'static str, &'static str) = ("step", "steps");
    const STEPS_KEY: &'static str = "items";
    const START_COMMAND: &'static str = "items start";
    const START_ARGUMENT: &'static str = "request";
    const CAN_RETRY: bool = true;
    const IMPORT_CAN_RENAME: bool = false;
    const ROLES: &'static [&'static str] = &["planner", "maker"];
    const VIEW_PATTERNS: &'static [&'static str] = &["/.items/"];

    fn agent(_: &Definition, _: &State, step: &Step) -> String {
        step.agent().to_owned()
    }

    fn needs(_: &Definition, _: &State, step: &Step) -> Vec<Step> {
        match step {
            Step::Plan => Vec::new(),
            Step::Make(_) => vec![Step::Plan],
            Step::Approve(item) => vec![Step::Make(item.clone())],
            Step::Record(item) => vec![Step::Approve(item.clone())],
        }
    }

    fn unblocks_dependents(_: &Definition, state: &State, step: &Step) -> bool {
        state.status(step) == StepStatus::Succeeded
    }

    fn created_at(document: &Document) -> Timestamp {
        document.plan.created_at
    }

    fn step_summary(document: &Document, step: &Step) -> StepSummary {
        document.step(&step.id()).cloned().unwrap_or_default().summary()
    }

    fn failure_hint(_: &Definition, run: &RunId, _: &Document) -> String {
        format!("run `callboard retry {run}` to retry the failed steps")
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Planned(_) => "reported a plan",
            Verdict::Made => "reported that the item is made",
            Verdict::Approved => "approved the item",
            Verdict::Rejected => "rejected the item",
            Verdict::Recorded => "recorded the item",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        match change {
            Change::Planned(items) => {
                let names: Vec<_> = items.iter().map(StepId::as_str).collect();
                Some(Line::plain(format!("the plan has the items {}", names.join(", "))))
            }
            Change::Rejected(item) => {
                Some(Line::toned(Tone::Attention, "✗").then(format!(" {item} rejected")))
            }
            Change::Reopened(item) => Some(Line::toned(Tone::Active, "↻").then(format!(" {item} reopened"))),
            Change::Retried(step) => Some(Line::toned(Tone::Active, "↻").then(format!(" retrying {step}"))),
            Change::Made(_) | Change::Approved(_) | Change::Recorded(_) | Change::Failed(_) => None,
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::Planned(items) => Some(("planned", json!({ "items": items }))),
            Change::Rejected(item) => Some(("rejected", json!({ "item": item }))),
            Change::Reopened(item) => Some(("reopened", json!({ "item": item }))),
            Change::Made(_)
            | Change::Approved(_)
            | Change::Recorded(_)
            | Change::Failed(_)
            | Change::Retried(_) => None,
        }
    }

    fn request_text(Reopen { reopen }: &Reopen) -> String {
        format!("reopen {reopen}")
    }

    fn edit_summary(edit: &Never) -> String {
        match *edit {}
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        let parsed = Step::parse(step);
        let item = parsed.as_ref().and_then(Step::item);
        match change {
            Change::Planned(_) => parsed == Some(Step::Plan),
            Change::Made(changed)
            | Change::Approved(changed)
            | Change::Rejected(changed)
            | Change::Recorded(changed)
            | Change::Reopened(changed) => item == Some(changed),
            Change::Failed(changed) | Change::Retried(changed) => parsed.as_ref() == Some(changed),
        }
    }
}
