//! The table of `peer`: four phases in a line, and what becomes of the cycle when one fails or somebody stops it.
//!
//! Each transition of the seed's matrix is a write of its own. So a report only completes its phase; asking the next step,
//! and closing the cycle after the review, is due afterwards, in entries of their own.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::document::Phase;
use crate::rules::{Deferred, Event, Move, Next, Outcome, StepStatus};

/// How far a cycle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All before this phase is completed; nobody has been asked for it.
    Before(Phase),
    /// Its step is in its turn.
    Asked(Phase),
    /// It is entered as begun and will not be played: its output comes from the cycle that this one continues.
    Entered(Phase),
    /// All four are completed; the cycle is still to be closed.
    Reviewed {
        success: bool,
    },
    Closed {
        success: bool,
    },
    Failed(Phase),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Asked(Phase),
    Entered(Phase),
    /// Any phase but the review.
    Completed(Phase),
    Reviewed {
        success: bool,
    },
    Closed,
    Failed(Phase),
    /// The cycle was begun elsewhere and stands here.
    Stands(State),
}

/// What a step's report can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The phase is completed.
    Completed,
    /// The review is completed, and this is what it amounts to. It never changes the path.
    Reviewed { success: bool },
}

impl State {
    pub(super) fn apply(&mut self, change: Change) {
        *self = match (change, *self) {
            (Change::Asked(phase), _) => Self::Asked(phase),
            (Change::Entered(phase), _) => Self::Entered(phase),
            (Change::Completed(phase), _) => match phase.next() {
                Some(next) => Self::Before(next),
                None => Self::Reviewed { success: false },
            },
            (Change::Reviewed { success }, _) => Self::Reviewed { success },
            (Change::Closed, Self::Reviewed { success }) => Self::Closed { success },
            (Change::Closed, _) => Self::Closed { success: false },
            (Change::Failed(phase), _) => Self::Failed(phase),
            (Change::Stands(state), _) => state,
        };
    }

    /// Whether a change can come next.
    pub(super) fn admits(self, change: Change) -> bool {
        match change {
            Change::Asked(phase) | Change::Entered(phase) => self == Self::Before(phase),
            Change::Completed(phase) => {
                phase.next().is_some() && (self == Self::Asked(phase) || self == Self::Entered(phase))
            }
            Change::Reviewed { .. } => self == Self::Asked(Phase::Review),
            Change::Closed => matches!(self, Self::Reviewed { .. }),
            Change::Failed(phase) => self.open() == Some(phase),
            Change::Stands(_) => true,
        }
    }

    /// The first phase that is not completed, while there is one to complete.
    pub fn open(self) -> Option<Phase> {
        match self {
            Self::Before(phase) | Self::Asked(phase) | Self::Entered(phase) => Some(phase),
            Self::Reviewed { .. } | Self::Closed { .. } | Self::Failed(_) => None,
        }
    }

    /// How many phases are completed.
    pub(super) fn completed(self) -> usize {
        match self {
            Self::Before(phase) | Self::Asked(phase) | Self::Entered(phase) | Self::Failed(phase) => {
                phase as usize
            }
            Self::Reviewed { .. } | Self::Closed { .. } => Phase::ALL.len(),
        }
    }
}

fn outcome(success: bool) -> Outcome {
    if success { Outcome::Succeeded } else { Outcome::Incomplete }
}

fn wait(changes: Vec<Change>) -> Move<Change, Phase> {
    Move { changes, next: Next::Queue(Vec::new()) }
}

fn failed(phase: Phase) -> Move<Change, Phase> {
    Move { changes: vec![Change::Failed(phase)], next: Next::Finish(Outcome::Failed) }
}

fn close(success: bool) -> Move<Change, Phase> {
    Move { changes: vec![Change::Closed], next: Next::Finish(outcome(success)) }
}

pub(super) fn decide(state: State, event: Event<Phase, Verdict>) -> Move<Change, Phase> {
    match (event, state) {
        (Event::Reported { step, verdict }, State::Asked(phase)) if step == phase => wait(vec![match verdict {
            Verdict::Completed => Change::Completed(phase),
            Verdict::Reviewed { success } => Change::Reviewed { success },
        }]),
        (Event::Exhausted { step }, State::Asked(phase)) if step == phase => failed(phase),
        // The cycle was stopped, and whoever was at work reports after all: there is no way out of `failed`.
        (Event::Reported { .. } | Event::Exhausted { .. }, _)
        // A phase that failed is tried again in a new cycle, and none is ever skipped.
        | (Event::Opened | Event::Retried { .. } | Event::Skipped { .. }, _) => wait(Vec::new()),
    }
}

pub(super) fn deferred(definition: &Definition, state: State) -> Option<Deferred<Change, Phase>> {
    let then = match state {
        State::Before(phase) if definition.reused(phase).is_some() => wait(vec![Change::Entered(phase)]),
        State::Before(phase) => Move { changes: vec![Change::Asked(phase)], next: Next::Queue(vec![phase]) },
        State::Entered(phase) => wait(vec![Change::Completed(phase)]),
        State::Reviewed { success } => close(success),
        State::Asked(_) | State::Closed { .. } | State::Failed(_) => return None,
    };
    // Nobody is at work then, unless the cycle was put back to an earlier place.
    Some(Deferred { quiet: BTreeSet::from(Phase::ALL), then })
}

/// A stop ends the cycle: the phase in progress fails, or the first that is not completed. When all are completed there is
/// nothing left to fail.
pub(super) fn stopped(state: State) -> Move<Change, Phase> {
    match state {
        State::Before(phase) | State::Asked(phase) | State::Entered(phase) => failed(phase),
        State::Reviewed { success } => close(success),
        State::Closed { success } => Move { changes: Vec::new(), next: Next::Finish(outcome(success)) },
        State::Failed(_) => Move { changes: Vec::new(), next: Next::Finish(Outcome::Failed) },
    }
}

/// What is next in a cycle that was begun elsewhere.
pub(super) fn stands(state: State) -> Move<Change, Phase> {
    let changes = vec![Change::Stands(state)];
    let next = match state {
        State::Closed { success } => Next::Finish(outcome(success)),
        State::Failed(_) => Next::Finish(Outcome::Failed),
        State::Before(_) | State::Asked(_) | State::Entered(_) | State::Reviewed { .. } => {
            Next::Queue(Vec::new())
        }
    };
    Move { changes, next }
}

pub(super) fn step_status(state: State, phase: Phase) -> StepStatus {
    if state == State::Failed(phase) {
        StepStatus::Failed
    } else if (phase as usize) < state.completed() {
        StepStatus::Succeeded
    } else {
        StepStatus::Unfinished
    }
}
