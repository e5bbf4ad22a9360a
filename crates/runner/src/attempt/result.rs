//! Turns the end of a process into a fact: what the report says, or why there is none.

use std::collections::BTreeMap;

use protocol::check::schema;
use protocol::entry::{Evidence, FailureKind};
use protocol::report::{CopyEdit, Report, ReportForm, Status, can_replace_report};
use protocol::run::Ending;
use protocol::{Machine, ParsedReport, Timestamp};
use serde_json::{Map, Value};
use supervisor::adapter::ReportRule;
use supervisor::copies;
use supervisor::report::{Collected, collect, collect_raw_fields};
use supervisor::{AttemptDir, AttemptEnd, EndReason, ExitRecord, ExitStatus};

use super::log_tail::{last_line, last_lines};
use super::{AttemptSpec, ProcessOutcome};

/// The result of an attempt.
#[derive(Debug)]
pub(crate) struct AttemptResult {
    pub(crate) ending: Ending,
    pub(crate) evidence: Evidence,
}

impl AttemptResult {
    /// Returns the result that a report says.
    pub(crate) fn of_report(machine: &dyn Machine, mut report: Report, duration_ms: Option<u64>) -> Self {
        let refused_edits = machine.remove_unauthorized(&report.step_id.clone(), &mut report);
        let (ending, kind, error) = match machine.parse_report(&report.step_id, &report) {
            ParsedReport::Verdict(verdict) => (Ending::Reported(verdict), None, None),
            ParsedReport::Failed(error) => (Ending::Failed, Some(FailureKind::ReportedFailure), Some(error)),
            ParsedReport::Invalid(error) => (Ending::Failed, Some(FailureKind::InvalidReport), Some(error)),
        };
        let report = Some(report);
        Self { ending, evidence: Evidence { kind, error, report, answer: None, refused_edits, duration_ms } }
    }

    pub(crate) fn failure(
        ending: Ending,
        kind: FailureKind,
        error: String,
        duration_ms: Option<u64>,
    ) -> Self {
        let evidence = Evidence { kind: Some(kind), error: Some(error), duration_ms, ..Evidence::default() };
        Self { ending, evidence }
    }
}

/// What the result of an attempt depends on.
#[derive(Debug)]
pub(crate) struct Classifier<'a> {
    pub(crate) machine: &'a dyn Machine,
    pub(crate) spec: &'a AttemptSpec,
    /// The current boot of this host.
    pub(crate) boot_id: &'a str,
}

impl Classifier<'_> {
    /// Returns the result. An attempt succeeds with a valid report and committed work. Without a report, its exit code, its
    /// output or its edits of private copies may stand for one. Anything else is a failure.
    pub(crate) fn classify(&self, end: &ProcessOutcome) -> AttemptResult {
        let mut result = self.result(end);
        match end {
            // The note is about the worktree.
            ProcessOutcome::Ended(_, note) => result.evidence.refused_edits.extend(note.clone()),
            ProcessOutcome::NotCommitted(_, error) => match result.ending {
                Ending::Reported(_) => {
                    let duration_ms = result.evidence.duration_ms;
                    let kind = FailureKind::EffectFailed;
                    return AttemptResult::failure(Ending::Failed, kind, error.clone(), duration_ms);
                }
                // An agent that is stopped while it resolves a conflict leaves what cannot be committed. That costs no attempt.
                Ending::Failed | Ending::Interrupted | Ending::Stopped => {
                    result.evidence.refused_edits.push(error.clone());
                }
            },
            ProcessOutcome::Unclaimed | ProcessOutcome::NotStarted(_) => {}
        }
        result
    }

    fn result(&self, end: &ProcessOutcome) -> AttemptResult {
        let exit_record = match end {
            ProcessOutcome::NotStarted(error) => {
                return AttemptResult::failure(Ending::Failed, FailureKind::NotStarted, error.clone(), None);
            }
            ProcessOutcome::Unclaimed => {
                return AttemptResult::failure(
                    Ending::Interrupted,
                    FailureKind::Interrupted,
                    "Agent process was interrupted before it began".to_owned(),
                    None,
                );
            }
            ProcessOutcome::Ended(AttemptEnd::Voided, _)
            | ProcessOutcome::NotCommitted(AttemptEnd::Voided, _) => {
                return AttemptResult::failure(
                    Ending::Stopped,
                    FailureKind::Cancelled,
                    "Agent process was stopped before it began".to_owned(),
                    None,
                );
            }
            ProcessOutcome::Ended(AttemptEnd::Vanished, _)
            | ProcessOutcome::NotCommitted(AttemptEnd::Vanished, _) => None,
            ProcessOutcome::Ended(AttemptEnd::Exit(record), _)
            | ProcessOutcome::NotCommitted(AttemptEnd::Exit(record), _) => Some(record),
        };
        let is_committed = matches!(end, ProcessOutcome::Ended(..));
        let duration_ms = exit_record.map(|record| record.duration_ms);
        let edits = copies::edits(&self.spec.dir);
        let report_problem = match collect(&self.spec.dir, &self.spec.expected) {
            Collected::Valid(report, _) => match self.validate(*report) {
                Ok(report) => {
                    let mut report = Report { copy_edits: edits, ..report };
                    let notes =
                        if is_committed { self.spec.apply_memory_updates(&report) } else { Vec::new() };
                    self.spec.add_git_field(&mut report);
                    let mut result = AttemptResult::of_report(self.machine, report, duration_ms);
                    result.evidence.refused_edits.extend(notes);
                    return result;
                }
                Err(reason) => Some(reason),
            },
            Collected::Invalid(reason) => Some(reason),
            Collected::Missing => None,
        };
        let Some(record) = exit_record else {
            return AttemptResult::failure(
                Ending::Interrupted,
                FailureKind::Interrupted,
                "Agent process was interrupted: its shim was killed".to_owned(),
                None,
            );
        };
        if report_problem.is_none()
            && self.spec.report_rule() == ReportRule::ExitCode
            && let Some(report) = self.exit_code_report(record)
        {
            let report = Report { copy_edits: edits, ..report };
            return AttemptResult::of_report(self.machine, report, duration_ms);
        }
        if report_problem.is_none()
            && record.reason == EndReason::Finished
            && let Some(report) = self.printed_report(record)
        {
            let report = Report { copy_edits: edits, ..report };
            return AttemptResult::of_report(self.machine, report, duration_ms);
        }
        // The agent asked whether to continue, was told to pause or to stop, and exited.
        if report_problem.is_none()
            && record.reason == EndReason::Finished
            && self.spec.dir.told_signal().exists()
        {
            let error = "Agent process ended because the run is paused or stopped".to_owned();
            return AttemptResult::failure(Ending::Interrupted, FailureKind::Interrupted, error, duration_ms);
        }
        let report_problem = match report_problem {
            None if self.has_succeeded(record) => match can_replace_report(&edits) {
                Ok(true) => return self.result_of_edits(record, edits),
                Ok(false) => None,
                Err(reason) => Some(reason),
            },
            report_problem => report_problem,
        };
        let (ending, kind, error) = self.classify_failure(record, report_problem);
        AttemptResult::failure(ending, kind, error, duration_ms)
    }

    /// Returns the report with relative artifacts. Fails if it does not match the schema of the user, or names an artifact
    /// outside of the tree.
    fn validate(&self, report: Report) -> Result<Report, String> {
        if let ReportForm::Matching(schema) = &self.spec.brief.form
            && let Some(stated) = collect_raw_fields(&self.spec.dir, &self.spec.expected)
        {
            let violations = schema::violations(schema, &Value::Object(stated));
            let violations = violations.iter().map(|violation| {
                let at = if violation.pointer.is_empty() { "the report" } else { &violation.pointer };
                format!("{at}: {}, {}", violation.message, violation.repair)
            });
            let violations: Vec<_> = violations.collect();
            if !violations.is_empty() {
                return Err(format!("it does not match the schema: {}", violations.join("; ")));
            }
        }
        self.spec.relative_artifacts(report)
    }

    /// Makes a report of the exit code of a plain command, with its last output lines and its duration. A gate that
    /// exits with another code than 0 has failed, with these lines as findings; 126 and 127 say that the command itself
    /// could not be executed.
    fn exit_code_report(&self, record: &ExitRecord) -> Option<Report> {
        let ExitStatus::Exited { code } = record.status else { return None };
        if record.reason != EndReason::Finished {
            return None;
        }
        let (dir, expected) = (&self.spec.dir, &self.spec.expected);
        let gate_failure = self.spec.brief.gate && !matches!(code, 0 | 126 | 127);
        let status = if code == 0 || gate_failure { Status::Completed } else { Status::Failed };
        let mut logs = last_lines(&dir.stdout(), 20);
        if code != 0 {
            logs.extend(last_lines(&dir.stderr(), 20));
            logs.push(format!("exited with code {code}"));
        }
        let ended_at = Timestamp::from_micros(record.ended_at.as_microsecond());
        let metrics = [("exit_code", code.to_string()), ("duration_ms", record.duration_ms.to_string())];
        Some(Report {
            status,
            started_at: record.started_at.to_string(),
            ended_at: record.ended_at.to_string(),
            metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            logs,
            gate_failure,
            ..Report::completed(expected, ended_at, Map::new())
        })
    }

    /// Returns whether the agent exited by itself with 0, and what it wrote cannot have been lost since.
    fn has_succeeded(&self, record: &ExitRecord) -> bool {
        record.reason == EndReason::Finished
            && record.status == ExitStatus::Exited { code: 0 }
            && record.boot_id == self.boot_id
    }

    /// Returns the result of an attempt that edited its private copies instead of reporting. It fails if the step had no
    /// right to any of these edits.
    fn result_of_edits(&self, record: &ExitRecord, edits: BTreeMap<String, CopyEdit>) -> AttemptResult {
        let ended_at = Timestamp::from_micros(record.ended_at.as_microsecond());
        let mut report = Report {
            started_at: Timestamp::from_micros(record.started_at.as_microsecond()).to_string(),
            copy_edits: edits,
            ..Report::completed(&self.spec.expected, ended_at, Map::new())
        };
        self.spec.add_git_field(&mut report);
        let result = AttemptResult::of_report(self.machine, report, Some(record.duration_ms));
        let is_empty = result.evidence.report.as_ref().is_some_and(|report| report.copy_edits.is_empty());
        if !is_empty {
            return result;
        }
        let why = match result.evidence.refused_edits.as_slice() {
            [] => "it changed nothing that its step may change".to_owned(),
            refused => refused.join("; "),
        };
        let error =
            format!("Agent process {} without a report, and its edits were refused: {why}", record.status);
        let kind = Some(FailureKind::InvalidReport);
        let evidence = Evidence { kind, error: Some(error), report: None, ..result.evidence };
        AttemptResult { ending: Ending::Failed, evidence }
    }

    /// Makes a report of what the attempt has printed, if its protocol has a text form of reports.
    fn printed_report(&self, record: &ExitRecord) -> Option<Report> {
        let (dir, expected) = (&self.spec.dir, &self.spec.expected);
        let stdout = std::fs::read(dir.stdout()).ok()?;
        let fields = self.machine.report_from_stdout(&expected.step_id, &String::from_utf8_lossy(&stdout))?;
        let mut report = serde_json::json!({
            "schema": protocol::report::SCHEMA,
            "run_id": expected.run_id,
            "step_id": expected.step_id,
            "agent": expected.agent,
            "started_at": record.started_at.to_string(),
            "ended_at": record.ended_at.to_string(),
            "logs": last_lines(&dir.stdout(), 1),
        });
        report.as_object_mut()?.extend(fields);
        protocol::report::parse(report.to_string().as_bytes(), expected).ok()
    }

    fn classify_failure(
        &self,
        record: &ExitRecord,
        report_problem: Option<String>,
    ) -> (Ending, FailureKind, String) {
        let duration = match record.duration_ms {
            millis @ ..1000 => format!("{millis} ms"),
            millis => format!("{} s", millis / 1000),
        };
        match record.reason {
            EndReason::Stopped => {
                (Ending::Stopped, FailureKind::Cancelled, "Agent process was stopped".to_owned())
            }
            // Files that the agent wrote just before a power failure may be gone. That is not the agent's fault.
            EndReason::Finished if record.boot_id != self.boot_id => (
                Ending::Interrupted,
                FailureKind::Interrupted,
                "The machine went down before the report was safe".to_owned(),
            ),
            EndReason::TimedOut => {
                (Ending::Failed, FailureKind::Timeout, format!("Agent process timed out after {duration}"))
            }
            EndReason::Silent => (
                Ending::Failed,
                FailureKind::Silence,
                format!("Agent process was silent for too long and was ended after {duration}"),
            ),
            EndReason::Finished => {
                let kind = match (&report_problem, &record.status) {
                    (Some(_), _) => FailureKind::InvalidReport,
                    (None, ExitStatus::NotStarted { .. }) => FailureKind::NotStarted,
                    (None, ExitStatus::Exited { .. } | ExitStatus::Signalled { .. }) => FailureKind::NoReport,
                };
                (Ending::Failed, kind, no_report_error(&self.spec.dir, &record.status, report_problem))
            }
        }
    }
}

/// Returns the error of an attempt that ended by itself without a usable report.
fn no_report_error(dir: &AttemptDir, status: &ExitStatus, report_problem: Option<String>) -> String {
    let what = format!("Agent process {status}");
    match (report_problem, status) {
        (Some(reason), _) => format!("{what} and its report was refused: {reason}"),
        (None, ExitStatus::NotStarted { .. }) => what,
        (None, ExitStatus::Exited { .. } | ExitStatus::Signalled { .. }) => {
            match last_line(&dir.stderr()).or_else(|| last_line(&dir.stdout())) {
                Some(line) => format!("{what} without a report: {line}"),
                None => format!("{what} without a report"),
            }
        }
    }
}
