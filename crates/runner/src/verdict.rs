//! From the end of a process to a fact: what the report says, or why there is none.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use protocol::entry::{Evidence, FailureKind};
use protocol::report::{Expected, Report};
use protocol::run::Ending;
use protocol::{ParsedReport, Protocol};
use supervisor::adapter::ReportRule;
use supervisor::report::{Collected, collect};
use supervisor::{AttemptDir, Because, ExitRecord, How, Over};

use crate::attempt::{AttemptSpec, Ended};

/// What one attempt came to.
#[derive(Debug)]
pub(crate) struct Judged<V> {
    pub(crate) ending: Ending<V>,
    pub(crate) evidence: Evidence,
}

/// Everything needed to judge an attempt.
#[derive(Debug)]
pub(crate) struct Judge<'a, P: Protocol> {
    pub(crate) definition: &'a P::Definition,
    pub(crate) document: &'a P::Document,
    pub(crate) step: &'a P::Step,
    pub(crate) spec: &'a AttemptSpec,
    /// The machine's present boot.
    pub(crate) boot_id: &'a str,
}

impl<P: Protocol> Judge<'_, P> {
    /// Done = valid report and exited process. Whatever else is true is a reason for another attempt.
    pub(crate) fn judge(&self, ended: &Ended) -> Judged<P::Verdict> {
        let over = match ended {
            Ended::NotStarted(error) => {
                return failure(Ending::Failed, FailureKind::NotStarted, error.clone(), None);
            }
            Ended::Over(Over::Unclaimed) => {
                return failure(
                    Ending::Interrupted,
                    FailureKind::Interrupted,
                    "Agent process was interrupted before it began".to_owned(),
                    None,
                );
            }
            Ended::Over(Over::Voided) => {
                return failure(
                    Ending::Stopped,
                    FailureKind::Cancelled,
                    "Agent process was stopped before it began".to_owned(),
                    None,
                );
            }
            Ended::Over(Over::Vanished) => None,
            Ended::Over(Over::Exit(record)) => Some(record),
        };
        let duration_ms = over.map(|record| record.duration_ms);
        let unfit = match collect(&self.spec.dir, &self.spec.expected) {
            Collected::Valid(report, _) => match self.spec.localise(*report) {
                Ok(report) => return self.reported(report, duration_ms),
                Err(reason) => Some(reason),
            },
            Collected::Unfit(reason) => Some(reason),
            Collected::Missing => None,
        };
        let Some(record) = over else {
            return failure(
                Ending::Interrupted,
                FailureKind::Interrupted,
                "Agent process was interrupted: its shim was killed".to_owned(),
                None,
            );
        };
        if unfit.is_none()
            && self.spec.report_rule() == ReportRule::ExitCode
            && let Some(report) = exit_code_report(&self.spec.dir, &self.spec.expected, record)
        {
            return self.reported(report, duration_ms);
        }
        let (ending, kind, error) = self.failed(record, unfit);
        failure(ending, kind, error, duration_ms)
    }

    fn reported(&self, report: Report, duration_ms: Option<u64>) -> Judged<P::Verdict> {
        let (ending, kind, error) = match P::parse_report(self.definition, self.document, self.step, &report)
        {
            ParsedReport::Verdict(verdict) => (Ending::Reported(verdict), None, None),
            ParsedReport::Failed(error) => (Ending::Failed, Some(FailureKind::ReportedFailure), Some(error)),
            ParsedReport::Invalid(error) => (Ending::Failed, Some(FailureKind::InvalidReport), Some(error)),
        };
        Judged { ending, evidence: Evidence { kind, error, report: Some(report), duration_ms } }
    }

    fn failed(
        &self,
        record: &ExitRecord,
        unfit: Option<String>,
    ) -> (Ending<P::Verdict>, FailureKind, String) {
        let seconds = record.duration_ms / 1000;
        match record.because {
            Because::Ordered => {
                (Ending::Stopped, FailureKind::Cancelled, "Agent process was stopped".to_owned())
            }
            // Files the agent wrote just before a power cut may be gone: that is not the agent's fault.
            Because::Own if record.boot_id != self.boot_id => (
                Ending::Interrupted,
                FailureKind::Interrupted,
                "The machine went down before the report was safe".to_owned(),
            ),
            Because::TimedOut => {
                (Ending::Failed, FailureKind::Timeout, format!("Agent process timed out after {seconds} s"))
            }
            Because::Silent => (
                Ending::Failed,
                FailureKind::Silence,
                format!("Agent process was silent for too long and was ended after {seconds} s"),
            ),
            Because::Own => {
                let kind = match (&unfit, &record.how) {
                    (Some(_), _) => FailureKind::InvalidReport,
                    (None, How::NotStarted { .. }) => FailureKind::NotStarted,
                    (None, How::Exited { .. } | How::Signalled { .. }) => FailureKind::NoReport,
                };
                (Ending::Failed, kind, own_fault(&self.spec.dir, &record.how, unfit))
            }
        }
    }
}

fn failure<V>(ending: Ending<V>, kind: FailureKind, error: String, duration_ms: Option<u64>) -> Judged<V> {
    let evidence = Evidence { kind: Some(kind), error: Some(error), report: None, duration_ms };
    Judged { ending, evidence }
}

/// The sentence for an attempt that ended by itself without a usable report.
fn own_fault(dir: &AttemptDir, how: &How, unfit: Option<String>) -> String {
    let what = format!("Agent process {how}");
    match (unfit, how) {
        (Some(reason), _) => format!("{what} and its report was refused: {reason}"),
        (None, How::NotStarted { .. }) => what,
        (None, How::Exited { .. } | How::Signalled { .. }) => {
            match last_line(&dir.stderr()).or_else(|| last_line(&dir.stdout())) {
                Some(line) => format!("{what} without a report: {line}"),
                None => format!("{what} without a report"),
            }
        }
    }
}

/// Plain commands write no report: their exit code is one, with the command's last lines and figures as evidence.
fn exit_code_report(dir: &AttemptDir, expected: &Expected, record: &ExitRecord) -> Option<Report> {
    let How::Exited { code } = record.how else { return None };
    if record.because != Because::Own {
        return None;
    }
    let status = if code == 0 { "COMPLETED" } else { "FAILED" };
    let mut logs = last_lines(&dir.stdout(), 20);
    if code != 0 {
        logs.extend(last_lines(&dir.stderr(), 20));
        logs.push(format!("exited with code {code}"));
    }
    let report = serde_json::json!({
        "schema": protocol::report::SCHEMA,
        "run_id": expected.run_id,
        "step_id": expected.step_id,
        "agent": expected.agent,
        "status": status,
        "started_at": record.started_at.to_string(),
        "ended_at": record.ended_at.to_string(),
        "metrics": { "exit_code": code, "duration_ms": record.duration_ms },
        "logs": logs,
    });
    protocol::report::parse(report.to_string().as_bytes(), expected).ok()
}

/// How much of a log is looked at for its last lines.
const TAIL_BYTES: u64 = 16 * 1024;
/// A line is quoted up to here.
const LONGEST_QUOTE: usize = 300;

/// The last line of a log with something on it.
pub fn last_line(path: &Path) -> Option<String> {
    last_lines(path, 1).pop()
}

/// The last lines with something on them, oldest first, without terminal control codes.
pub fn last_lines(path: &Path, lines: usize) -> Vec<String> {
    // The agent may have put anything in its place, a pipe that nobody writes to among them.
    let Ok(Some((mut file, length))) = supervisor::report::open(path) else { return Vec::new() };
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut last: Vec<_> = text
        .lines()
        .rev()
        .map(|line| line.chars().filter(|c| !c.is_control()).take(LONGEST_QUOTE).collect::<String>())
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .take(lines)
        .collect();
    last.reverse();
    last
}
