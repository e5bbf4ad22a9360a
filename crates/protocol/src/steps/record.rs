//! Entry → document: how `run_state.json` changes with each commit.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::decide::Change as ProtocolChange;
use super::definition::Definition;
use super::document::{Document, HEAD, Head, Status, StepDocument, findings_part, gate_part, step_part};
use super::{PERSON, Steps, Verdict, import, layout};
use crate::brief::Finding;
use crate::entry::{Author, Entry, Evidence, Input, RecoverySource};
use crate::people::Answer;
use crate::report::{Expected, Report};
use crate::rules::RunLocation;
use crate::run::{Change, Exit, Fact};
use crate::{RunId, Stamp, StepId};

pub(super) fn open(definition: &Definition, location: &RunLocation, at: Stamp) -> Document {
    let head = Head {
        run_id: location.run.to_string(),
        workflow_name: definition.workflow().name.clone(),
        repo_dir: location.worktree.as_ref().unwrap_or(&location.repo_dir).clone(),
        reports_dir: layout::reports_dir(location),
        manual_inputs_dir: layout::manual_inputs_dir(location),
        created_at: at,
        updated_at: at,
    };
    let steps = definition.step_ids().map(|id| (id.to_string(), StepDocument::pending())).collect();
    Document { head, steps, unknown: Map::new(), gates: BTreeMap::new(), findings: BTreeMap::new() }
}

/// Applies an entry to the document and returns the parts that changed.
pub(super) fn record(definition: &Definition, document: &mut Document, entry: &Entry<Steps>) -> Vec<String> {
    document.head.updated_at = entry.at;
    let mut parts = Parts(vec![HEAD.to_owned()]);
    let evidence = match &entry.input {
        Input::Opened { .. } => {
            document.head.created_at = entry.at;
            definition.step_ids().for_each(|id| parts.0.push(step_part(id.as_str())));
            None
        }
        Input::Fact { evidence, .. } => evidence.as_deref(),
        Input::Request { .. } | Input::Refused { .. } | Input::Deferred | Input::Recovered { .. } => None,
        Input::Edited { edit, .. } => match *edit {},
    };
    let failed = entry.changes.iter().find_map(failed_step);
    for change in &entry.changes {
        match change {
            Change::Started { attempt, counted_attempt } => {
                record_start(step(document, &attempt.step, &mut parts), *counted_attempt, entry.at);
            }
            Change::Ended { attempt, exit } => {
                let path = report_path(document, &attempt.step);
                record_end(step(document, &attempt.step, &mut parts), path, *exit, evidence, entry.at);
            }
            Change::StopRequested { attempt, .. } => {
                if let Some(failed) = failed {
                    let step = step(document, &attempt.step, &mut parts);
                    step.last_error = Some(format!("Stopped because `{failed}` failed"));
                }
            }
            Change::Protocol { transition } => {
                record_transition(document, transition, entry, evidence, &mut parts);
            }
            Change::Waiting { step: id } => {
                let head = &document.head;
                let path = layout::manual_input_path(&head.manual_inputs_dir, &head.run_id, id.as_str());
                let step = step(document, id, &mut parts);
                record_start(step, step.attempts, entry.at);
                step.status = Status::WaitingOnHuman;
                step.manual_input_path = Some(path);
            }
            Change::Answered { step: id } => {
                let step = step(document, id, &mut parts);
                step.status = Status::Completed;
                step.ended_at = Some(entry.at);
                step.last_error = None;
                step.manual_input_path = None;
                step.logs = answer_line(entry, evidence).into_iter().collect();
            }
            Change::Dequeued { step: id } => {
                if document.steps[id.as_str()].status == Status::WaitingOnHuman {
                    let step = step(document, id, &mut parts);
                    step.status = Status::Pending;
                    step.manual_input_path = None;
                }
            }
            Change::Status { .. } | Change::Queued { .. } | Change::BackoffElapsed { .. } => {}
        }
    }
    if let Input::Recovered { source: RecoverySource::View { document: found, .. } } = &entry.input {
        import::copy_steps(document, found);
        document.steps.keys().for_each(|id| parts.touch(step_part(id)));
    }
    parts.0
}

/// The parts that changed, each once.
struct Parts(Vec<String>);

impl Parts {
    fn touch(&mut self, path: String) {
        if !self.0.contains(&path) {
            self.0.push(path);
        }
    }
}

fn step<'a>(document: &'a mut Document, id: &StepId, parts: &mut Parts) -> &'a mut StepDocument {
    parts.touch(step_part(id.as_str()));
    document.steps.get_mut(id.as_str()).unwrap_or_else(|| panic!("BUG: the document has no step `{id}`"))
}

fn report_path(document: &Document, id: &StepId) -> String {
    layout::report_path(&document.head.reports_dir, &document.head.run_id, id.as_str())
}

fn failed_step(change: &Change<ProtocolChange>) -> Option<&StepId> {
    match change {
        Change::Protocol { transition: ProtocolChange::Failed(step) } => Some(step),
        Change::Protocol { .. }
        | Change::Status { .. }
        | Change::Queued { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Ended { .. }
        | Change::Dequeued { .. } => None,
    }
}

/// Applies a transition of the protocol's state.
fn record_transition(
    document: &mut Document,
    transition: &ProtocolChange,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    match transition {
        ProtocolChange::Done(id) => {
            if document.findings.remove(id.as_str()).is_some() {
                parts.touch(findings_part(id.as_str()));
            }
        }
        ProtocolChange::GateFailed(id) => {
            let report_path = report_path(document, id);
            step(document, id, parts).last_error = Some(gate_failure(evidence));
            let reported = evidence.and_then(|evidence| evidence.report.clone());
            let finding = match reported {
                Some(report) => Some(Finding { from: id.to_string(), report_path, report }),
                None => rejection(document, id, entry, evidence),
            };
            if let Some(finding) = finding {
                document.gates.insert(id.to_string(), finding);
                parts.touch(gate_part(id.as_str()));
            }
        }
        ProtocolChange::Failed(id) => {
            let step = step(document, id, parts);
            // The same entry has completed it, with a rejection or with a gate failure that exceeds the iterations.
            if step.status == Status::Completed {
                step.status = Status::Failed;
                if is_rejected(entry) {
                    step.last_error = answer_line(entry, evidence);
                    return;
                }
                let executions = step.iteration_count + 1;
                step.last_error =
                    Some(format!("{} (execution {executions}, the last)", gate_failure(evidence)));
            }
        }
        ProtocolChange::Reset { gates, targets, steps } => reset(document, gates, targets, steps, parts),
        ProtocolChange::Retried(id) => {
            let step = step(document, id, parts);
            step.status = Status::Pending;
            step.attempts = 0;
        }
        ProtocolChange::Skipped(id) => {
            let step = step(document, id, parts);
            step.status = Status::Skipped;
            step.ended_at = Some(entry.at);
            step.last_error = None;
            step.blocked_by_loop = None;
            step.logs = vec![skipped_because(entry)];
        }
        ProtocolChange::RestartRequested(_) => {}
        ProtocolChange::Restarted { steps, .. } => {
            for id in steps {
                let step = step(document, id, parts);
                *step =
                    StepDocument { unknown: std::mem::take(&mut step.unknown), ..StepDocument::pending() };
                if document.findings.remove(id.as_str()).is_some() {
                    parts.touch(findings_part(id.as_str()));
                }
                if document.gates.remove(id.as_str()).is_some() {
                    parts.touch(gate_part(id.as_str()));
                }
            }
        }
    }
}

fn gate_failure(evidence: Option<&Evidence>) -> String {
    let reported =
        evidence.and_then(|evidence| evidence.report.as_ref()).and_then(|report| report.logs.last());
    let why = reported.map(String::as_str).or_else(|| evidence?.answer.as_ref()?.text());
    format!("Gate failure: {}", why.unwrap_or("no reason was given"))
}

/// Returns the rejection of a person as a finding. There is no file with it.
fn rejection(
    document: &Document,
    id: &StepId,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
) -> Option<Finding> {
    let expected = Expected {
        run_id: RunId::new(&document.head.run_id).ok()?,
        step_id: id.clone(),
        agent: PERSON.to_owned(),
    };
    let mut report = Report::completed(&expected, entry.at, Map::new());
    report.gate_failure = true;
    report.logs = vec![answer_line(entry, evidence)?];
    Some(Finding { from: id.to_string(), report_path: String::new(), report })
}

/// Whether the entry is the rejection of a step that is not a gate.
fn is_rejected(entry: &Entry<Steps>) -> bool {
    matches!(&entry.input, Input::Fact { fact: Fact::Answered { verdict: Verdict::Rejected, .. }, .. })
}

/// Returns who answered what: `Rejected by ada: too dark`.
fn answer_line(entry: &Entry<Steps>, evidence: Option<&Evidence>) -> Option<String> {
    let answer = evidence?.answer.as_ref()?;
    let done = match answer {
        Answer::Approve => "Approved",
        Answer::Reject { .. } => "Rejected",
        Answer::Choose { .. } | Answer::Resolve { .. } | Answer::Workaround { .. } | Answer::Text { .. } => {
            "Answered"
        }
    };
    let text = answer.text().map(|text| format!(": {text}")).unwrap_or_default();
    Some(format!("{done} by {}{text}", author(&entry.by)))
}

fn author(by: &Author) -> &str {
    match by {
        Author::Engine { .. } => "the engine",
        Author::Person { name, .. } => name,
        Author::Client { .. } => "another client",
    }
}

fn skipped_because(entry: &Entry<Steps>) -> String {
    let who = author(&entry.by);
    match &entry.input {
        Input::Request { reason: Some(reason), .. } => format!("Skipped by {who}: {reason}"),
        Input::Request { reason: None, .. }
        | Input::Opened { .. }
        | Input::Fact { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => format!("Skipped by {who}"),
    }
}

/// Applies a loop-back: resets the targets and everything downstream for the next iteration.
fn reset(document: &mut Document, gates: &[StepId], targets: &[StepId], steps: &[StepId], parts: &mut Parts) {
    for id in steps {
        let step = step(document, id, parts);
        *step = StepDocument {
            iteration_count: step.iteration_count + 1,
            report_path: step.report_path.take(),
            blocked_by_loop: gates
                .first()
                .filter(|_| !targets.contains(id) && !gates.contains(id))
                .map(ToString::to_string),
            unknown: std::mem::take(&mut step.unknown),
            ..StepDocument::pending()
        };
        if document.findings.remove(id.as_str()).is_some() {
            parts.touch(findings_part(id.as_str()));
        }
    }
    let found: Vec<_> = gates.iter().filter_map(|gate| document.gates.remove(gate.as_str())).collect();
    gates.iter().for_each(|gate| parts.touch(gate_part(gate.as_str())));
    for target in targets {
        document.findings.insert(target.to_string(), found.clone());
        parts.touch(findings_part(target.as_str()));
    }
}

fn record_start(step: &mut StepDocument, counted_attempt: u32, at: Stamp) {
    step.status = Status::Running;
    step.attempts = counted_attempt;
    step.started_at = Some(at);
    step.ended_at = None;
    step.blocked_by_loop = None;
    step.artifacts.clear();
    step.metrics.clear();
    step.logs.clear();
}

fn record_end(
    step: &mut StepDocument,
    report_path: String,
    exit: Exit,
    evidence: Option<&Evidence>,
    at: Stamp,
) {
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
        Exit::Exhausted => {
            step.status = Status::Failed;
            step.last_error =
                Some(error.unwrap_or_else(|| "The attempt was interrupted too often".to_owned()));
        }
        Exit::WillRetry { .. } | Exit::Drained => {
            step.status = Status::Pending;
            step.last_error = error;
        }
        // The attempt does not count: `attempts` goes back to the number of failed ones.
        Exit::Interrupted { .. } | Exit::Stopped => {
            step.status = Status::Pending;
            step.attempts = step.attempts.saturating_sub(1);
            step.last_error = error.or(step.last_error.take());
        }
        Exit::Released => {
            step.status = Status::Pending;
            step.attempts = step.attempts.saturating_sub(1);
            step.last_error = step.last_error.take().or(error);
        }
    }
}
