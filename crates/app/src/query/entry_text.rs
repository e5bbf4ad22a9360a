//! Journal entries in words: the author, the input, and the result.

use protocol::checks::{self, CheckResult};
use protocol::entry::{Author, Entry, Input};
use protocol::run::{Change, Ending, Fact, Request, RunStatus, RunStopCause};
use protocol::{Outcome, ProtocolKind, StepKind};
use serde_json::Value;

use crate::output;
use crate::present::wording;

pub(crate) fn author(author: &Author) -> String {
    match author {
        Author::Engine { host, pid, .. } => format!("engine {pid} on {host}"),
        Author::Person { name, host } => format!("{name} on {host}"),
        Author::BucketClient { bucket, sequence } => {
            format!("another client, by entry {sequence} of {bucket}")
        }
    }
}

/// Returns the input of an entry in words, on one line, even if it contains a reason or an answer of several lines.
pub(crate) fn input(kind: &dyn ProtocolKind, entry: &Entry) -> String {
    output::single_line(&input_text(kind, entry))
}

fn input_text(kind: &dyn ProtocolKind, entry: &Entry) -> String {
    match &entry.input {
        Input::Opened { .. } => "run started".to_owned(),
        Input::Request { request, reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", request_text(kind, request))
        }
        Input::Refused { request, attempt } => {
            format!("refused {}: it came from inside {attempt}", request_text(kind, request))
        }
        Input::Edited { edit, from: Some(attempt) } => {
            format!("{attempt} wrote {}", edit_summary(kind, edit))
        }
        Input::Edited { edit, from: None } => format!("another program wrote {}", edit_summary(kind, edit)),
        Input::Deferred => "deferred transition".to_owned(),
        Input::Recovered { source } => source.to_string(),
        Input::Fact { fact, evidence } => match fact {
            Fact::Ended { attempt, .. } => {
                let step_kind = wording::ended(entry).map_or(StepKind::Agent, |(_, step_kind)| step_kind);
                format!("{} ended", wording::attempt(kind, attempt, step_kind))
            }
            Fact::BackoffElapsed { attempt } => format!("back-off elapsed, retrying `{}`", attempt.step),
            Fact::Answered { step, turn, .. } => {
                if let Some(conditions) = wording::fulfilled_conditions(entry) {
                    return format!("{} for {step}#{turn}", wording::conditions_hold(conditions));
                }
                let answer = evidence.as_deref().and_then(|evidence| evidence.answer.as_ref());
                let answer = answer.map(|answer| format!(": {answer}"));
                format!("{step}#{turn} was answered{}", answer.unwrap_or_default())
            }
        },
    }
}

fn edit_summary(kind: &dyn ProtocolKind, edit: &Value) -> String {
    kind.edit_summary(edit).unwrap_or_else(|| "the document".to_owned())
}

fn request_text(kind: &dyn ProtocolKind, request: &Request) -> String {
    match request {
        Request::Pause => "pause".to_owned(),
        Request::Resume => "resume".to_owned(),
        Request::Stop => "stop".to_owned(),
        Request::Interrupt => "interrupt".to_owned(),
        Request::Retry { step: None } => "retry".to_owned(),
        Request::Retry { step: Some(step) } => format!("retry {step}"),
        Request::Skip { step } => format!("skip {step}"),
        Request::Protocol(request) => {
            kind.request_text(request).unwrap_or_else(|| "unknown request".to_owned())
        }
    }
}

/// Returns the verdict of an attempt and the last log line of its report, if the entry ends the attempt.
pub(crate) fn verdict(kind: &dyn ProtocolKind, entry: &Entry) -> Option<String> {
    let Input::Fact { fact, evidence } = &entry.input else { return None };
    let verdict = match fact {
        Fact::Ended { ending: Ending::Reported(verdict), .. } | Fact::Answered { verdict, .. } => verdict,
        // The progress lines of the entry, which are printed as well, have the error.
        Fact::Ended { ending: Ending::Failed | Ending::Interrupted | Ending::Stopped, .. }
        | Fact::BackoffElapsed { .. } => return None,
    };
    let report = evidence.as_deref().and_then(|evidence| evidence.report.as_ref());
    if wording::fulfilled_conditions(entry).is_some() {
        return None;
    }
    // The checks of a step may be a turn of their own, whose report is the results.
    if wording::ended(entry).is_some_and(|(_, step_kind)| wording::runs_checks(kind, step_kind)) {
        let results = report.and_then(|report| checks::results(report).ok()).unwrap_or_default();
        if !results.is_empty() {
            let results: Vec<_> = results.iter().map(CheckResult::summary).collect();
            return Some(output::single_line(&results.join(", ")));
        }
    }
    let log = report
        .and_then(|report| report.logs.last())
        .map(|log| format!(": {}", output::single_line(log)))
        .unwrap_or_default();
    let text = kind.verdict_text(verdict).unwrap_or("reported");
    Some(format!("{text}{log}"))
}

/// Returns the new statuses of the run.
pub(crate) fn statuses(entry: &Entry) -> Vec<&'static str> {
    let statuses = entry.changes.iter().filter_map(|change| match change {
        Change::Status { status } => Some(*status),
        Change::Protocol { .. }
        | Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Ended { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
        | Change::Dequeued { .. } => None,
    });
    let texts = statuses.filter_map(|status| match status {
        RunStatus::Running => Some("the run is running"),
        RunStatus::Stopped(RunStopCause::EngineInterrupted) => {
            Some("the run is stopped by an interrupt: no attempt is running")
        }
        RunStatus::Stopped(RunStopCause::Requested) => Some("the run is stopped: no attempt is running"),
        RunStatus::Finished(Outcome::Succeeded) => Some("the run succeeded"),
        RunStatus::Finished(Outcome::Incomplete) => Some("the run ended incomplete"),
        RunStatus::Finished(Outcome::Failed) => Some("the run failed"),
        // The progress lines of the entry, which are printed as well, have these.
        RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use protocol::entry::ENTRY_VERSION;
    use protocol::protocol_kind;
    use protocol::run::AttemptConsequence;
    use protocol::steps::Steps;
    use protocol::{AttemptId, StepId, Timestamp};
    use serde_json::json;

    use super::*;

    fn entry(input: Input, changes: Vec<Change>) -> Entry {
        let by = Author::Person { name: "ada".to_owned(), host: "laptop".to_owned() };
        let at = Timestamp::from_micros(0);
        Entry { v: ENTRY_VERSION, at, by, input, changes, actions: Vec::new(), timers: Vec::new() }
    }

    #[test]
    fn a_reason_of_two_lines_is_shown_on_one() {
        let request = Request::Skip { step: StepId::new("code").unwrap() };
        let entry = entry(Input::Request { request, reason: Some("a\nb".to_owned()) }, Vec::new());
        assert_eq!(input(protocol_kind::<Steps>(), &entry), "skip code: a b");
    }

    #[test]
    fn checks_without_readable_results_are_shown_by_their_verdict() {
        let attempt: AttemptId = "code#2.1".parse().unwrap();
        let ending = Ending::Reported(json!("checks_failed"));
        let fact = Fact::Ended { attempt: attempt.clone(), ending };
        let ended =
            Change::Ended { attempt, consequence: AttemptConsequence::Reported, kind: StepKind::Command };
        let entry = entry(Input::Fact { fact, evidence: None }, vec![ended]);
        assert_eq!(verdict(protocol_kind::<Steps>(), &entry).as_deref(), Some("had a failed check"));
    }
}
