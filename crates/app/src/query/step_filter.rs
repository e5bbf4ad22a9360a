//! Whether an entry concerns a step.

use protocol::entry::{Entry, Input};
use protocol::run::{Change, ChangeOf, Fact, Request};

use crate::present::Presentation;

/// Whether the input of the entry or one of its changes is about the step.
pub(crate) fn concerns_step<P: Presentation>(entry: &Entry<P>, step: &P::Step) -> bool {
    input_concerns(&entry.input, step)
        || entry.changes.iter().any(|change| change_concerns::<P>(change, step))
}

fn input_concerns<P: Presentation>(input: &Input<P>, step: &P::Step) -> bool {
    match input {
        Input::Fact { fact: Fact::Ended { attempt, .. } | Fact::BackoffElapsed { attempt }, .. } => {
            attempt.step == *step
        }
        Input::Request { request, .. } | Input::Refused { request, .. } => match request {
            Request::Retry { step: Some(about) } | Request::Skip { step: about } => about == step,
            Request::Retry { step: None }
            | Request::Pause
            | Request::Resume
            | Request::Stop
            | Request::Interrupt => false,
        },
        Input::Edited { from, .. } => from.as_ref().is_some_and(|from| from.step == P::step_id(step)),
        Input::Opened { .. } | Input::Deferred | Input::Recovered { .. } => false,
    }
}

fn change_concerns<P: Presentation>(change: &ChangeOf<P>, step: &P::Step) -> bool {
    match change {
        Change::Queued { step: about, .. }
        | Change::BackoffElapsed { step: about }
        | Change::Dequeued { step: about } => about == step,
        Change::Started { attempt, .. }
        | Change::StopRequested { attempt, .. }
        | Change::Ended { attempt, .. } => attempt.step == *step,
        Change::Protocol { transition } => P::concerns(transition, step),
        Change::Status { .. } => false,
    }
}
