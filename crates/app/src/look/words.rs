//! Who wrote an entry, what it is about, and why it came to what it did.

use protocol::entry::{Author, Entry, Input};
use protocol::run::{Change, Ending, Fact, Halt, Phase, Request};
use protocol::{Outcome, Protocol};

use crate::face::Face;
use crate::render;

/// Who it was.
pub(crate) fn who(author: &Author) -> String {
    match author {
        Author::Engine { host, pid, .. } => format!("engine {pid} on {host}"),
        Author::Person { name, host } => format!("{name} on {host}"),
        Author::Client { bucket, sequence } => format!("another client, by entry {sequence} of {bucket}"),
    }
}

/// What came in.
pub(crate) fn what<P: Face>(input: &Input<P>) -> String {
    match input {
        Input::Opened { .. } => "opened".to_owned(),
        Input::Request { request, reason } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", wish(request))
        }
        Input::Refused { request, attempt } => {
            format!("{} was refused: it came from inside {attempt}", wish(request))
        }
        Input::Edited { edit, from: Some(attempt) } => format!("{attempt} wrote {}", P::edited(edit)),
        Input::Edited { edit, from: None } => format!("somebody outside wrote {}", P::edited(edit)),
        Input::Due => "what was due is done".to_owned(),
        Input::Recovered { remains } => remains.to_string(),
        Input::Fact { fact, .. } => match fact {
            Fact::Over { attempt, .. } => format!("{attempt} is over"),
            Fact::Rested { attempt } => format!("{attempt} has rested"),
        },
    }
}

fn wish<S: std::fmt::Display>(request: &Request<S>) -> String {
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
pub(crate) fn verdict<P: Face>(entry: &Entry<P>) -> Option<String> {
    let Input::Fact { fact: Fact::Over { ending, .. }, evidence } = &entry.input else { return None };
    let said = evidence.as_deref().and_then(|evidence| evidence.report.as_ref());
    let said = said
        .and_then(|report| report.logs.last())
        .map(|log| format!(": {}", render::harmless(log)))
        .unwrap_or_default();
    Some(match ending {
        Ending::Reported(verdict) => format!("{}{said}", P::said(verdict)),
        // The line above gives the error.
        Ending::Failed | Ending::Interrupted | Ending::Stopped => return None,
    })
}

/// What became of the run as a whole.
pub(crate) fn phases<P: Protocol>(entry: &Entry<P>) -> Vec<&'static str> {
    let phases = entry.changes.iter().filter_map(|change| match change {
        Change::Phase { phase } => Some(*phase),
        Change::Play { .. }
        | Change::Called { .. }
        | Change::Rested { .. }
        | Change::Began { .. }
        | Change::AskedToEnd { .. }
        | Change::Over { .. }
        | Change::Uncalled { .. } => None,
    });
    let told = phases.filter_map(|phase| match phase {
        Phase::Open => Some("the run is open"),
        Phase::Halted(Halt::Interrupted) => Some("the run is interrupted: nobody is at work"),
        Phase::Halted(Halt::Stopped) => Some("the run is stopped: nobody is at work"),
        Phase::Finished(Outcome::Delivered) => Some("the run is delivered"),
        Phase::Finished(Outcome::Undelivered) => Some("the run has ended undelivered"),
        // The journal's other lines tell these.
        Phase::Paused | Phase::Halting(_) | Phase::Draining(_) | Phase::Closing(_) => None,
    });
    told.collect()
}
