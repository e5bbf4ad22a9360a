//! Whether an entry concerns a step.

use protocol::entry::{Entry, Input};
use protocol::run::{Change, ChangeOf, Fact, Request};

use crate::face::Face;

/// Whether what came in or what was decided is about the step.
pub(crate) fn step<P: Face>(entry: &Entry<P>, step: &P::Step) -> bool {
    came_in(&entry.input, step) || entry.changes.iter().any(|change| changed::<P>(change, step))
}

fn came_in<P: Face>(input: &Input<P>, step: &P::Step) -> bool {
    match input {
        Input::Fact { fact: Fact::Over { attempt, .. } | Fact::Rested { attempt }, .. } => {
            attempt.step == *step
        }
        Input::Request { request, .. } | Input::Refused { request, .. } => match request {
            Request::Retry { step: Some(asked) } | Request::Skip { step: asked } => asked == step,
            Request::Retry { step: None }
            | Request::Pause
            | Request::Resume
            | Request::Stop
            | Request::Interrupt => false,
        },
        Input::Edited { from, .. } => from.as_ref().is_some_and(|from| from.step == P::step_id(step)),
        Input::Opened { .. } | Input::Due | Input::Recovered { .. } => false,
    }
}

fn changed<P: Face>(change: &ChangeOf<P>, step: &P::Step) -> bool {
    match change {
        Change::Called { step: about, .. }
        | Change::Rested { step: about }
        | Change::Uncalled { step: about } => about == step,
        Change::Began { attempt, .. } | Change::AskedToEnd { attempt, .. } | Change::Over { attempt, .. } => {
            attempt.step == *step
        }
        Change::Play { play } => P::concerns(play, step),
        Change::Phase { .. } => false,
    }
}
