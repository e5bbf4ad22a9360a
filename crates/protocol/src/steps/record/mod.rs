//! Entry → document: how `run_state.json` changes with each commit.

mod answers;
mod checks;
mod items;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use self::answers::{answer_line, forget_answer, is_rejected, record_answer, record_wait, rejection};
use self::checks::{
    check_finding, failed_checks_text, has_failed_checks, record_engine_attempt_end, record_failed_checks,
};
use super::definition::Definition;
use super::document::{
    Document, RUN_FIELDS, RunFields, Status, StepDocument, StepProgress, findings_part, gate_finding_part,
    item_part, progress_part, step_part,
};
use super::phases::Phase;
use super::phases::{loops, when};
use super::state::Change as ProtocolChange;
use super::{Steps, Verdict, import, layout};
use crate::brief::Finding;
use crate::entry::{Author, Entry, Evidence, Input, RecoverySource};
use crate::protocol_trait::RunLocation;
use crate::run::{AttemptConsequence, Change, Ending, Fact};
use crate::{StepId, Timestamp};

pub(super) fn open(definition: &Definition, location: &RunLocation, at: Timestamp) -> Document {
    let run_fields = RunFields {
        run_id: location.run.to_string(),
        workflow_name: definition.workflow().name.clone(),
        repo_dir: location.worktree.as_ref().unwrap_or(&location.repo_dir).clone(),
        reports_dir: layout::reports_dir(location),
        manual_inputs_dir: layout::manual_inputs_dir(location),
        created_at: at.into(),
        updated_at: at.into(),
    };
    let steps = definition.step_ids().map(|id| (id.to_string(), StepDocument::pending())).collect();
    Document {
        run_fields,
        steps,
        unknown: Map::new(),
        gate_findings: BTreeMap::new(),
        findings: BTreeMap::new(),
        progress: BTreeMap::new(),
        items: BTreeMap::new(),
    }
}

/// Applies an entry to the document and returns the parts that changed.
pub(super) fn record(definition: &Definition, document: &mut Document, entry: &Entry<Steps>) -> Vec<String> {
    document.run_fields.updated_at = entry.at.into();
    let mut parts = Parts(vec![RUN_FIELDS.to_owned()]);
    let evidence = match &entry.input {
        Input::Opened { .. } => {
            document.run_fields.created_at = entry.at.into();
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
            Change::Started { attempt, counted_attempt, .. } => {
                let id = &attempt.step;
                match document.phase(definition, id) {
                    // This attempt only evaluates the step's `when`: the step itself has not started.
                    Phase::When => continue,
                    Phase::Checks => {
                        step(document, id, &mut parts).status = Status::Running;
                        continue;
                    }
                    Phase::Conditions
                    | Phase::ReadItems
                    | Phase::WorkOnItems
                    | Phase::Work
                    | Phase::Approval
                    | Phase::Approved => {}
                }
                forget_answer(document, id, &mut parts);
                let attempts = counted_attempt + document.failed_check_turns(id);
                record_start(step(document, id, &mut parts), attempts, entry.at);
            }
            Change::Ended { attempt, consequence, .. } => {
                let path = report_path(document, &attempt.step);
                let phase = document.phase(definition, &attempt.step);
                let step = step(document, &attempt.step, &mut parts);
                match phase {
                    Phase::When if *consequence != AttemptConsequence::Exhausted => {}
                    Phase::When | Phase::ReadItems | Phase::Checks => {
                        record_engine_attempt_end(step, *consequence, evidence, entry.at);
                    }
                    Phase::Conditions
                    | Phase::WorkOnItems
                    | Phase::Work
                    | Phase::Approval
                    | Phase::Approved => {
                        record_end(step, path, *consequence, evidence, entry.at);
                    }
                }
            }
            Change::StopRequested { attempt, .. } => {
                if let Some(failed) = failed {
                    let step = step(document, &attempt.step, &mut parts);
                    step.last_error = Some(format!("Stopped because `{failed}` failed"));
                }
            }
            Change::Protocol { transition } => {
                record_transition(definition, document, transition, entry, evidence, &mut parts);
            }
            Change::Waiting { step: id, .. } => record_wait(definition, document, id, entry.at, &mut parts),
            Change::Answered { step: id, .. } => {
                record_answer(definition, document, id, entry, evidence, &mut parts);
            }
            Change::Dequeued { step: id } => {
                if document.step(id.as_str()).is_some_and(|step| step.status == Status::WaitingOnHuman) {
                    let step = step(document, id, &mut parts);
                    step.status = Status::Pending;
                    step.manual_input_path = None;
                }
            }
            Change::Status { .. } | Change::Queued { .. } | Change::BackoffElapsed { .. } => {}
        }
    }
    items::record_parents(definition, document, entry, &mut parts);
    if let Input::Recovered { source: RecoverySource::View { document: found, .. } } = &entry.input {
        import::copy_steps(definition, document, found);
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

/// Returns a step or an item to be changed, and marks its part as changed.
fn step<'a>(document: &'a mut Document, id: &StepId, parts: &mut Parts) -> &'a mut StepDocument {
    let found = if document.items.contains_key(id.as_str()) {
        parts.touch(item_part(id.as_str()));
        document.items.get_mut(id.as_str())
    } else {
        parts.touch(step_part(id.as_str()));
        document.steps.get_mut(id.as_str())
    };
    found.unwrap_or_else(|| panic!("BUG: the document has no step `{id}`"))
}

fn report_path(document: &Document, id: &StepId) -> String {
    layout::report_path(&document.run_fields.reports_dir, &document.run_fields.run_id, id.as_str())
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

/// Records the phase of a step; `None` for its first one, and for its end.
fn record_phase(document: &mut Document, id: &StepId, phase: Option<Phase>, parts: &mut Parts) {
    let known = document.progress.get(id.as_str());
    if known.is_some_and(|known| known.phase != phase) || (known.is_none() && phase.is_some()) {
        progress(document, id, parts).phase = phase;
    }
    if phase.is_none() && document.failed_check_turns(id) > 0 {
        progress(document, id, parts).failed_check_turns = 0;
    }
}

/// Returns the progress of a step to be changed, and marks its part as changed.
fn progress<'a>(document: &'a mut Document, id: &StepId, parts: &mut Parts) -> &'a mut StepProgress {
    parts.touch(progress_part(id.as_str()));
    document.progress.entry(id.to_string()).or_default()
}

/// Applies a transition of the protocol's state.
fn record_transition(
    definition: &Definition,
    document: &mut Document,
    transition: &ProtocolChange,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    match transition {
        ProtocolChange::Entered { step: id, phase } => {
            record_phase(document, id, Some(*phase), parts);
            // Only the attempt has ended: the step goes on with another phase.
            let step = step(document, id, parts);
            if step.status == Status::Completed {
                step.status = Status::Pending;
                step.ended_at = None;
            }
        }
        ProtocolChange::Items { step: id, count } => {
            items::record_items(definition, document, id, *count, entry.at, evidence, parts);
        }
        ProtocolChange::ChecksFailed(id) => record_failed_checks(document, id, entry, evidence, parts),
        ProtocolChange::Done(id) => {
            record_phase(document, id, None, parts);
            items::collect_results(definition, document, id, entry.at, parts);
            complete(step(document, id, parts), entry.at);
            if document.findings.remove(id.as_str()).is_some() {
                parts.touch(findings_part(id.as_str()));
            }
            take_gate_finding(document, id, parts);
        }
        ProtocolChange::GateFailed(id) => {
            let phase = document.phase(definition, id);
            record_phase(document, id, None, parts);
            let step = step(document, id, parts);
            complete(step, entry.at);
            step.last_error = Some(gate_failure(phase, evidence));
            record_gate_finding(document, id, phase, entry, evidence, parts);
        }
        ProtocolChange::Failed(id) => {
            let phase = document.phase(definition, id);
            record_phase(document, id, None, parts);
            if is_rejected(entry) {
                let findings = rejection(document, id, entry, evidence).into_iter().collect();
                document.findings.insert(id.to_string(), findings);
                parts.touch(findings_part(id.as_str()));
            } else if is_gate_failure(entry) {
                // No iteration is left. If a user restarts the run at the target, the target is given the finding.
                record_gate_finding(document, id, phase, entry, evidence, parts);
            }
            let step = step(document, id, parts);
            complete(step, entry.at);
            // The step is completed here if its last attempt has reported: a person rejected it, its checks failed, or its
            // gate failed and no iteration is left. An exhausted step is failed already, with its error.
            if step.status == Status::Completed {
                step.status = Status::Failed;
                if is_rejected(entry) {
                    step.last_error = answer_line(entry, evidence);
                    return;
                }
                if has_failed_checks(entry) {
                    step.last_error = Some(failed_checks_text(evidence));
                    return;
                }
                let iteration = step.iteration_count + 1;
                step.last_error =
                    Some(format!("{} (iteration {iteration}, the last)", gate_failure(phase, evidence)));
            }
        }
        ProtocolChange::Reset { gates, targets, steps, items, reopened } => {
            // Taken before the items are forgotten, because a gate may be one of them.
            let gate_findings: Vec<_> =
                gates.iter().filter_map(|gate| take_gate_finding(document, gate, parts)).collect();
            items::forget_items(document, items, parts);
            items::reopen(document, reopened, parts);
            let blocked_by = gates.first().map(|gate| definition.step(gate).id.clone());
            reset(document, gates, blocked_by.as_ref(), targets, steps, parts);
            for target in targets {
                document.findings.insert(target.to_string(), gate_findings.clone());
                parts.touch(findings_part(target.as_str()));
            }
        }
        ProtocolChange::Retried(id) => {
            let step = step(document, id, parts);
            step.status = Status::Pending;
            step.attempts = 0;
        }
        ProtocolChange::Skipped(id) => {
            let why = match document.phase(definition, id) {
                Phase::When => evidence
                    .and_then(|evidence| evidence.report.as_ref())
                    .and_then(|report| when::unmet(document, definition.step(id), report)),
                Phase::Conditions
                | Phase::ReadItems
                | Phase::WorkOnItems
                | Phase::Work
                | Phase::Checks
                | Phase::Approval
                | Phase::Approved => None,
            };
            record_phase(document, id, None, parts);
            take_gate_finding(document, id, parts);
            let step = step(document, id, parts);
            step.status = Status::Skipped;
            step.ended_at = Some(entry.at.into());
            step.last_error = None;
            step.blocked_by_loop = None;
            step.logs = vec![match why {
                Some(why) => format!("Skipped because {why}"),
                None => skipped_because(entry),
            }];
        }
        ProtocolChange::RestartRequested(_) => {}
        ProtocolChange::Restarted { steps, items, .. } => {
            items::keep_findings(definition, document, items, steps, parts);
            items::forget_items(document, items, parts);
            for id in steps {
                record_phase(document, id, None, parts);
                forget_answer(document, id, parts);
                let step = step(document, id, parts);
                *step =
                    StepDocument { unknown: std::mem::take(&mut step.unknown), ..StepDocument::pending() };
            }
            // The finding of a failed gate goes to the target of its loop-back, if the target is reset, too.
            for gate in steps {
                let Some(finding) = take_gate_finding(document, gate, parts) else { continue };
                if let Some(target) = loops::target(definition, gate).filter(|target| steps.contains(target))
                {
                    document.findings.entry(target.to_string()).or_default().push(finding);
                    parts.touch(findings_part(target.as_str()));
                }
            }
        }
    }
}

/// Records the finding of a failed gate, for the target of its loop-back.
fn record_gate_finding(
    document: &mut Document,
    id: &StepId,
    phase: Phase,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    let report_path = report_path(document, id);
    let reported = evidence.and_then(|evidence| evidence.report.clone());
    let finding = match reported {
        Some(_) if phase == Phase::Checks => check_finding(document, id, entry, evidence),
        Some(report) => Some(Finding { from: id.to_string(), report_path, report }),
        None => rejection(document, id, entry, evidence),
    };
    if let Some(finding) = finding {
        document.gate_findings.insert(id.to_string(), finding);
        parts.touch(gate_finding_part(id.as_str()));
    }
}

/// Removes the finding of a gate, and returns it.
fn take_gate_finding(document: &mut Document, id: &StepId, parts: &mut Parts) -> Option<Finding> {
    let finding = document.gate_findings.remove(id.as_str())?;
    parts.touch(gate_finding_part(id.as_str()));
    Some(finding)
}

/// Whether the entry is the failure of a gate: by its report, its checks or a person.
fn is_gate_failure(entry: &Entry<Steps>) -> bool {
    let Input::Fact { fact, .. } = &entry.input else { return false };
    match fact {
        Fact::Ended { ending: Ending::Reported(verdict), .. } | Fact::Answered { verdict, .. } => {
            *verdict == Verdict::GateFailed
        }
        Fact::Ended { ending: Ending::Failed | Ending::Interrupted | Ending::Stopped, .. }
        | Fact::BackoffElapsed { .. } => false,
    }
}

/// Completes a step that is still running although its last attempt has ended: one that a person answered, or a data
/// loop whose items are done. Leaves any other step as it is.
fn complete(step: &mut StepDocument, at: Timestamp) {
    if step.status == Status::Running {
        step.status = Status::Completed;
        step.ended_at = Some(at.into());
    }
}

/// Says why a gate failed. The checks in the report are named only in the phase of the step's checks: in another phase,
/// they are those that follow a merge.
fn gate_failure(phase: Phase, evidence: Option<&Evidence>) -> String {
    if phase == Phase::Checks {
        return format!("Gate failure: {}", failed_checks_text(evidence));
    }
    let reported =
        evidence.and_then(|evidence| evidence.report.as_ref()).and_then(|report| report.logs.last());
    let why = reported.map(String::as_str).or_else(|| evidence?.answer.as_ref()?.text());
    format!("Gate failure: {}", why.unwrap_or("no reason was given"))
}

fn author(by: &Author) -> &str {
    match by {
        Author::Engine { .. } => "the engine",
        Author::Person { name, .. } => name,
        Author::BucketClient { .. } => "another client",
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
fn reset(
    document: &mut Document,
    gates: &[StepId],
    blocked_by: Option<&StepId>,
    targets: &[StepId],
    steps: &[StepId],
    parts: &mut Parts,
) {
    for id in steps {
        record_phase(document, id, None, parts);
        forget_answer(document, id, parts);
        let step = step(document, id, parts);
        *step = StepDocument {
            iteration_count: step.iteration_count + 1,
            report_path: step.report_path.take(),
            blocked_by_loop: blocked_by
                .filter(|_| !targets.contains(id) && !gates.contains(id))
                .map(ToString::to_string),
            unknown: std::mem::take(&mut step.unknown),
            ..StepDocument::pending()
        };
        if document.findings.remove(id.as_str()).is_some() {
            parts.touch(findings_part(id.as_str()));
        }
    }
}

fn record_start(step: &mut StepDocument, attempts: u32, at: Timestamp) {
    step.status = Status::Running;
    step.attempts = attempts;
    step.started_at = Some(at.into());
    step.ended_at = None;
    step.blocked_by_loop = None;
    step.artifacts.clear();
    step.metrics.clear();
    step.logs.clear();
}

fn record_end(
    step: &mut StepDocument,
    report_path: String,
    consequence: AttemptConsequence,
    evidence: Option<&Evidence>,
    at: Timestamp,
) {
    step.ended_at = Some(at.into());
    if let Some(report) = evidence.and_then(|evidence| evidence.report.as_ref()) {
        step.report_path = Some(report_path);
        step.artifacts.clone_from(&report.artifacts);
        step.logs.clone_from(&report.logs);
        step.metrics =
            report.metrics.iter().map(|(key, value)| (key.clone(), Value::String(value.clone()))).collect();
    }
    let error = evidence.and_then(|evidence| evidence.error.clone());
    match consequence {
        AttemptConsequence::Reported => {
            step.status = Status::Completed;
            step.last_error = None;
        }
        AttemptConsequence::Exhausted => {
            step.status = Status::Failed;
            step.last_error =
                Some(error.unwrap_or_else(|| "The attempt was interrupted too often".to_owned()));
        }
        AttemptConsequence::WillRetry { .. } | AttemptConsequence::FailedWhileDraining => {
            step.status = Status::Pending;
            step.last_error = error;
        }
        // The attempt does not count: `attempts` goes back to the number of failed ones.
        AttemptConsequence::Interrupted { .. } | AttemptConsequence::Stopped => {
            step.status = Status::Pending;
            step.attempts = step.attempts.saturating_sub(1);
            step.last_error = error.or(step.last_error.take());
        }
        // The reason for the stop, if it is recorded, says more than the error of the stopped attempt.
        AttemptConsequence::Released => {
            step.status = Status::Pending;
            step.attempts = step.attempts.saturating_sub(1);
            step.last_error = step.last_error.take().or(error);
        }
    }
}
