//! Who wrote an entry, what it is about, and why it came to what it did.

use protocol::entry::{Author, Entry, Input};
use protocol::run::{Change, Ending, Fact, Request, RunStatus, StopCause};
use protocol::{Outcome, Protocol};

use crate::output;
use crate::present::Presentation;

/// Who it was.
pub(crate) fn who(author: &Author) -> String {
    match author {
        Author::Engine { host, pid, .. } => format!("engine {pid} on {host}"),
        Author::Person { name, host } => format!("{name} on {host}"),
        Author::Client { bucket, sequence } => format!("another client, by entry {sequence} of {bucket}"),
    }
}

/// What came in.
pub(crate) fn what<P: Presentation>(input: &Input<P>) -> String {
    match input {
        Input::Opened { .. } => "opened".to_owned(),
        Input::Request { request, reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", control(request))
        }
        Input::Refused { request, attempt } => {
            format!("{} was refused: it came from inside {attempt}", control(request))
        }
        Input::Edited { edit, from: Some(attempt) } => format!("{attempt} wrote {}", P::edited(edit)),
        Input::Edited { edit, from: None } => format!("an external client wrote {}", P::edited(edit)),
        Input::Deferred => "deferred transition".to_owned(),
        Input::Recovered { source } => source.to_string(),
        Input::Fact { fact, .. } => match fact {
            Fact::Ended { attempt, .. } => format!("{attempt} ended"),
            Fact::BackoffElapsed { attempt } => format!("back-off elapsed, retrying `{}`", attempt.step),
        },
    }
}

fn control<S: std::fmt::Display>(request: &Request<S>) -> String {
    match request {
        Request::Pause => "pause".to_owned(),
        Request::Resume => "resume".to_owned(),
        Request::Stop => "stop".to_owned(),
        Request::Interrupt => "interrupt".to_owned(),
        Request::Retry { step: None } => "retry".to_owned(),
        Request::Retry { step: Some(step) } => format!("retry {step}"),
        Request::Skip { step } => format!("skip {step}"),
    }
}

/// What an attempt was found to say, if the entry is about its end.
pub(crate) fn verdict<P: Presentation>(entry: &Entry<P>) -> Option<String> {
    let Input::Fact { fact: Fact::Ended { ending, .. }, evidence } = &entry.input else { return None };
    let said = evidence.as_deref().and_then(|evidence| evidence.report.as_ref());
    let said = said
        .and_then(|report| report.logs.last())
        .map(|log| format!(": {}", output::harmless(log)))
        .unwrap_or_default();
    Some(match ending {
        Ending::Reported(verdict) => format!("{}{said}", P::said(verdict)),
        // The line above gives the error.
        Ending::Failed | Ending::Interrupted | Ending::Stopped => return None,
    })
}

/// What became of the run as a whole.
pub(crate) fn statuses<P: Protocol>(entry: &Entry<P>) -> Vec<&'static str> {
    let statuses = entry.changes.iter().filter_map(|change| match change {
        Change::Status { status } => Some(*status),
        Change::Protocol { .. }
        | Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Ended { .. }
        | Change::Dequeued { .. } => None,
    });
    let told = statuses.filter_map(|status| match status {
        RunStatus::Running => Some("the run is running"),
        RunStatus::Stopped(StopCause::Interrupted) => {
            Some("the run is stopped by an interrupt: no attempt is running")
        }
        RunStatus::Stopped(StopCause::Requested) => Some("the run is stopped: no attempt is running"),
        RunStatus::Finished(Outcome::Succeeded) => Some("the run succeeded"),
        RunStatus::Finished(Outcome::Incomplete) => Some("the run ended incomplete"),
        RunStatus::Finished(Outcome::Failed) => Some("the run failed"),
        // The journal's other lines tell these.
        RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => None,
    });
    told.collect()
}
