//! Whether an entry concerns a seat.

use protocol::SeatName;
use protocol::entry::{Entry, Input};
use protocol::run::{Change, Fact, Request};
use protocol::steps::{Change as Play, Steps};

/// Whether what came in or what was decided is about the seat.
pub(crate) fn seat(entry: &Entry<Steps>, seat: &SeatName) -> bool {
    came_in(&entry.input, seat) || entry.changes.iter().any(|change| changed(change, seat))
}

fn came_in(input: &Input<Steps>, seat: &SeatName) -> bool {
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
        Input::Opened { .. } | Input::Edited { .. } | Input::Due | Input::Recovered { .. } => false,
    }
}

fn changed(change: &Change<SeatName, Play>, seat: &SeatName) -> bool {
    match change {
        Change::Called { seat: about, .. }
        | Change::Rested { seat: about }
        | Change::Uncalled { seat: about } => about == seat,
        Change::Began { attempt, .. } | Change::AskedToEnd { attempt, .. } | Change::Over { attempt, .. } => {
            attempt.seat == *seat
        }
        Change::Play { play } => match play {
            Play::Done(about)
            | Play::Failed(about)
            | Play::GateFailed(about)
            | Play::Retried(about)
            | Play::Skipped(about) => about == seat,
            Play::Reset { gates, steps, .. } => gates.contains(seat) || steps.contains(seat),
        },
        Change::Phase { .. } => false,
    }
}
