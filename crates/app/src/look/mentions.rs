//! Whether an entry concerns a seat.

use protocol::entry::{Entry, Input};
use protocol::run::{Change, ChangeOf, Fact, Request};

use crate::face::Face;

/// Whether what came in or what was decided is about the seat.
pub(crate) fn seat<P: Face>(entry: &Entry<P>, seat: &P::Seat) -> bool {
    came_in(&entry.input, seat) || entry.changes.iter().any(|change| changed::<P>(change, seat))
}

fn came_in<P: Face>(input: &Input<P>, seat: &P::Seat) -> bool {
    match input {
        Input::Fact { fact: Fact::Over { attempt, .. } | Fact::Rested { attempt }, .. } => {
            attempt.seat == *seat
        }
        Input::Request { request, .. } | Input::Refused { request, .. } => match request {
            Request::Retry { seat: Some(asked) } | Request::Skip { seat: asked } => asked == seat,
            Request::Retry { seat: None }
            | Request::Pause
            | Request::Resume
            | Request::Stop
            | Request::Interrupt => false,
        },
        Input::Edited { from, .. } => from.as_ref().is_some_and(|from| from.seat == P::seat_name(seat)),
        Input::Opened { .. } | Input::Due | Input::Recovered { .. } => false,
    }
}

fn changed<P: Face>(change: &ChangeOf<P>, seat: &P::Seat) -> bool {
    match change {
        Change::Called { seat: about, .. }
        | Change::Rested { seat: about }
        | Change::Uncalled { seat: about } => about == seat,
        Change::Began { attempt, .. } | Change::AskedToEnd { attempt, .. } | Change::Over { attempt, .. } => {
            attempt.seat == *seat
        }
        Change::Play { play } => P::concerns(play, seat),
        Change::Phase { .. } => false,
    }
}
