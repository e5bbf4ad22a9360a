//! Whether an entry concerns a step.

use protocol::entry::{Entry, Input};
use protocol::run::{Change, Fact, Request};
use protocol::{ProtocolKind, StepId};

/// Whether the input of the entry or one of its changes is about the step.
pub(crate) fn concerns_step(kind: &dyn ProtocolKind, entry: &Entry, step: &StepId) -> bool {
    input_concerns(&entry.input, step)
        || entry.changes.iter().any(|change| change_concerns(kind, change, step))
}

fn input_concerns(input: &Input, step: &StepId) -> bool {
    match input {
        Input::Fact { fact: Fact::Ended { attempt, .. } | Fact::BackoffElapsed { attempt }, .. } => {
            attempt.step == *step
        }
        Input::Fact { fact: Fact::Answered { step: about, .. }, .. } => about == step,
        Input::Request { request, .. } | Input::Refused { request, .. } => match request {
            Request::Retry { step: Some(about) } | Request::Skip { step: about } => about == step,
            Request::Retry { step: None }
            | Request::Pause
            | Request::Resume
            | Request::Stop
            | Request::Interrupt
            | Request::Protocol(_) => false,
        },
        Input::Edited { from, .. } => from.as_ref().is_some_and(|from| from.step == *step),
        Input::Opened { .. } | Input::Deferred | Input::Recovered { .. } => false,
    }
}

fn change_concerns(kind: &dyn ProtocolKind, change: &Change, step: &StepId) -> bool {
    match change {
        Change::Protocol { transition } => kind.concerns(transition, step),
        other => other.step() == Some(step),
    }
}
