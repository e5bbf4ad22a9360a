//! Entry → document: what the seed's file shows after each commit.

use serde_json::Value;

use super::decide::Change as Play;
use super::definition::Definition;
use super::document::{Document, HEAD, Head, Status, StepDocument, step_part};
use super::{Steps, layout};
use crate::entry::{Entry, Evidence, Input};
use crate::rules::Stage;
use crate::run::{Attempt, Change, Exit};
use crate::{SeatName, Stamp};

pub(super) fn open(definition: &Definition, stage: &Stage, at: Stamp) -> Document {
    let head = Head {
        run_id: stage.run.to_string(),
        workflow_name: definition.workflow().name.clone(),
        repo_dir: stage.repo_dir.clone(),
        reports_dir: layout::reports_dir(&stage.repo_dir, &stage.run),
        manual_inputs_dir: layout::manual_inputs_dir(&stage.repo_dir, &stage.run),
        created_at: at,
        updated_at: at,
    };
    let steps = definition.step_ids().map(|id| (id.to_string(), StepDocument::pending())).collect();
    Document { head, steps, unknown: Default::default() }
}

/// Writes the entry into the document; answers the parts that changed.
pub(super) fn record(definition: &Definition, document: &mut Document, entry: &Entry<Steps>) -> Vec<String> {
    document.head.updated_at = entry.at;
    let mut parts = vec![HEAD.to_owned()];
    let evidence = match &entry.input {
        Input::Opened { .. } => {
            document.head.created_at = entry.at;
            parts.extend(definition.step_ids().map(|id| step_part(id.as_str())));
            None
        }
        Input::Fact { evidence, .. } => evidence.as_deref(),
        Input::Request { .. } => None,
    };
    let failed_step = entry.changes.iter().find_map(|change| match change {
        Change::Play { play: Play::Failed(step) } => Some(step.clone()),
        Change::Play { play: Play::Done(_) }
        | Change::Phase { .. }
        | Change::Called { .. }
        | Change::Rested { .. }
        | Change::Began { .. }
        | Change::AskedToEnd { .. }
        | Change::Over { .. }
        | Change::Uncalled { .. } => None,
    });
    for change in &entry.changes {
        let touched = match change {
            Change::Began { attempt, counted } => {
                began(document, attempt, *counted, entry.at);
                &attempt.seat
            }
            Change::Over { attempt, exit } => {
                over(document, attempt, *exit, evidence, entry.at);
                &attempt.seat
            }
            Change::AskedToEnd { attempt, .. } => {
                if let Some(failed) = &failed_step {
                    step(document, &attempt.seat).last_error =
                        Some(format!("Stopped because `{failed}` failed"));
                }
                &attempt.seat
            }
            Change::Phase { .. }
            | Change::Play { .. }
            | Change::Called { .. }
            | Change::Rested { .. }
            | Change::Uncalled { .. } => continue,
        };
        let path = step_part(touched.as_str());
        if !parts.contains(&path) {
            parts.push(path);
        }
    }
    parts
}

fn step<'a>(document: &'a mut Document, id: &SeatName) -> &'a mut StepDocument {
    document.steps.get_mut(id.as_str()).unwrap_or_else(|| panic!("BUG: the document has no step `{id}`"))
}

fn began(document: &mut Document, attempt: &Attempt<SeatName>, counted: u32, at: Stamp) {
    let step = step(document, &attempt.seat);
    step.status = Status::Running;
    step.attempts = counted;
    step.started_at = Some(at);
    step.ended_at = None;
    step.artifacts.clear();
    step.metrics.clear();
    step.logs.clear();
}

fn over(
    document: &mut Document,
    attempt: &Attempt<SeatName>,
    exit: Exit,
    evidence: Option<&Evidence>,
    at: Stamp,
) {
    let report_path =
        layout::report_path(&document.head.reports_dir, &document.head.run_id, attempt.seat.as_str());
    let step = step(document, &attempt.seat);
    step.ended_at = Some(at);
    if let Some(report) = evidence.and_then(|evidence| evidence.report.as_ref()) {
        step.report_path = Some(report_path);
        step.artifacts.clone_from(&report.artifacts);
        step.logs.clone_from(&report.logs);
        step.metrics =
            report.metrics.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
    }
    let error = evidence.and_then(|evidence| evidence.error.clone());
    match exit {
        Exit::Reported => {
            step.status = Status::Completed;
            step.last_error = None;
        }
        Exit::GaveUp => {
            step.status = Status::Failed;
            step.last_error =
                Some(error.unwrap_or_else(|| "The attempt was interrupted too often".to_owned()));
        }
        Exit::Repeats { .. } => {
            step.status = Status::Pending;
            step.last_error = error;
        }
        // Not counted: the number goes back to the tries that failed.
        Exit::Interrupted { .. } | Exit::Halted | Exit::Dismissed => {
            step.status = Status::Pending;
            step.attempts = step.attempts.saturating_sub(1);
            step.last_error = error.or(step.last_error.take());
        }
    }
}
