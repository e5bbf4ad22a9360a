//! Records in the document the results of checks, and the end of the attempts that the engine makes without an agent.

use serde_json::Map;

use super::{Parts, progress, step};
use crate::brief::Finding;
use crate::checks::{self, CheckResult};
use crate::entry::{Entry, Evidence, Input};
use crate::report::{Report, ReportIdentity};
use crate::run::{AttemptConsequence, Ending, Fact};
use crate::steps::document::{Document, Status, StepDocument, findings_part};
use crate::steps::phases::Phase;
use crate::steps::workflow::ENGINE;
use crate::steps::{Steps, Verdict};
use crate::{RunId, StepId, Timestamp};

/// Records that a check failed and the agent works again, with the output of the check in its prompt.
pub(super) fn record_failed_checks(
    document: &mut Document,
    id: &StepId,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    let progress = progress(document, id, parts);
    progress.phase = Some(Phase::Work);
    progress.failed_check_turns += 1;
    let findings = check_finding(document, id, entry, evidence).into_iter().collect();
    document.findings.insert(id.to_string(), findings);
    parts.touch(findings_part(id.as_str()));
    let step = step(document, id, parts);
    step.status = Status::Pending;
    step.last_error = Some(failed_checks_text(evidence));
}

/// Returns the failed checks in one line: `test failed: exit code 101`.
pub(super) fn failed_checks_text(evidence: Option<&Evidence>) -> String {
    let summaries: Vec<_> = failed_results(evidence).iter().map(CheckResult::summary).collect();
    if summaries.is_empty() { "a check failed".to_owned() } else { summaries.join("; ") }
}

fn failed_results(evidence: Option<&Evidence>) -> Vec<CheckResult> {
    let report = evidence.and_then(|evidence| evidence.report.as_ref());
    let results = report.and_then(|report| checks::results(report).ok()).unwrap_or_default();
    results.into_iter().filter(|result| !result.passed()).collect()
}

/// Returns the failed checks as a finding, with the end of their output.
pub(super) fn check_finding(
    document: &Document,
    id: &StepId,
    entry: &Entry<Steps>,
    evidence: Option<&Evidence>,
) -> Option<Finding> {
    let results = failed_results(evidence);
    if results.is_empty() {
        return None;
    }
    let expected = ReportIdentity {
        run_id: RunId::new(&document.run_fields.run_id).ok()?,
        step_id: id.clone(),
        agent: ENGINE.to_owned(),
    };
    let mut report = Report::completed(&expected, entry.at, Map::new());
    report.gate_failure = true;
    report.logs = results
        .iter()
        .map(|result| {
            let (summary, command) = (result.summary(), result.command_line());
            format!("{summary}\ncommand: {command}\n{}", result.output.trim_end())
        })
        .collect();
    Some(Finding { from: id.to_string(), report_path: String::new(), report })
}

/// Records the end of an attempt without an agent, in which the engine evaluates `when`, reads the items or runs the checks.
/// The results of the step's agent stay; its log grows.
pub(super) fn record_engine_attempt_end(
    step: &mut StepDocument,
    consequence: AttemptConsequence,
    evidence: Option<&Evidence>,
    at: Timestamp,
) {
    step.ended_at = Some(at.into());
    let error = evidence.and_then(|evidence| evidence.error.clone());
    match consequence {
        AttemptConsequence::Reported => {
            let report = evidence.and_then(|evidence| evidence.report.as_ref());
            step.logs.extend(report.into_iter().flat_map(|report| report.logs.iter().cloned()));
            step.status = Status::Completed;
            step.last_error = None;
        }
        AttemptConsequence::Exhausted => {
            step.status = Status::Failed;
            step.last_error = Some(error.unwrap_or_else(|| "It was interrupted too often".to_owned()));
        }
        AttemptConsequence::WillRetry { .. }
        | AttemptConsequence::FailedWhileDraining
        | AttemptConsequence::Interrupted { .. }
        | AttemptConsequence::Stopped
        | AttemptConsequence::Released => {
            step.status = Status::Pending;
            step.last_error = error.or(step.last_error.take());
        }
    }
}

/// Whether the entry reports failed checks of a step that is not a gate.
pub(super) fn has_failed_checks(entry: &Entry<Steps>) -> bool {
    matches!(
        &entry.input,
        Input::Fact { fact: Fact::Ended { ending: Ending::Reported(Verdict::ChecksFailed), .. }, .. }
    )
}
