//! The transition table of `peer`: four phases in a row, and how the cycle ends if a phase fails or the run is stopped.
//!
//! Each row of the table "Transitions" in `docs/peer.md` is one write of the document. So a
//! report only completes its phase. The start of the next phase, and the completion of the cycle after the review, are
//! deferred transitions with entries of their own.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::document::Phase;
use crate::protocol_trait::{Deferred, Event, Move, Next, Outcome, StepStatus};

/// The state of a peer cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All earlier phases are completed; this one is not queued yet.
    Ready(Phase),
    /// The phase is in a turn: queued, running or backing off.
    Active(Phase),
    /// The phase is started, but not run: its output comes from the cycle that this one continues.
    Reusing(Phase),
    /// All four phases are completed; the cycle is not closed yet.
    Reviewed {
        success: bool,
    },
    /// The cycle is completed: the document says so, too.
    Closed {
        success: bool,
    },
    Failed(Phase),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A turn of the phase is queued.
    Activated(Phase),
    ReuseStarted(Phase),
    /// Any phase except the review.
    Completed(Phase),
    Reviewed {
        success: bool,
    },
    Closed,
    Failed(Phase),
    /// The cycle was imported in this state.
    Imported(State),
}

/// What a report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The phase is completed.
    Completed,
    /// The review is completed. `success` decides the outcome only: the cycle is closed either way.
    Reviewed { success: bool },
}

impl State {
    pub(super) fn apply(&mut self, change: Change) {
        *self = match (change, *self) {
            (Change::Activated(phase), _) => Self::Active(phase),
            (Change::ReuseStarted(phase), _) => Self::Reusing(phase),
            (Change::Completed(phase), _) => match phase.next() {
                Some(next) => Self::Ready(next),
                // Not reached: `Reviewed` completes the review.
                None => Self::Reviewed { success: false },
            },
            (Change::Reviewed { success }, _) => Self::Reviewed { success },
            (Change::Closed, Self::Reviewed { success }) => Self::Closed { success },
            // Not reached: only a reviewed cycle is closed.
            (Change::Closed, _) => Self::Closed { success: false },
            (Change::Failed(phase), _) => Self::Failed(phase),
            (Change::Imported(state), _) => state,
        };
    }

    /// Whether this change can come next.
    pub(super) fn can_apply(self, change: Change) -> bool {
        match change {
            Change::Activated(phase) | Change::ReuseStarted(phase) => self == Self::Ready(phase),
            Change::Completed(phase) => {
                phase.next().is_some() && (self == Self::Active(phase) || self == Self::Reusing(phase))
            }
            Change::Reviewed { .. } => self == Self::Active(Phase::Review),
            Change::Closed => matches!(self, Self::Reviewed { .. }),
            Change::Failed(phase) => self.open_phase() == Some(phase),
            Change::Imported(_) => true,
        }
    }

    /// The first phase that is not completed; `None` if no phase can be completed any more.
    pub fn open_phase(self) -> Option<Phase> {
        match self {
            Self::Ready(phase) | Self::Active(phase) | Self::Reusing(phase) => Some(phase),
            Self::Reviewed { .. } | Self::Closed { .. } | Self::Failed(_) => None,
        }
    }

    /// How many phases are completed.
    pub(super) fn completed(self) -> usize {
        match self {
            Self::Ready(phase) | Self::Active(phase) | Self::Reusing(phase) | Self::Failed(phase) => {
                phase as usize
            }
            Self::Reviewed { .. } | Self::Closed { .. } => Phase::ALL.len(),
        }
    }
}

fn outcome(success: bool) -> Outcome {
    if success { Outcome::Succeeded } else { Outcome::Incomplete }
}

/// Makes the changes and queues no step. If anything follows, it is a deferred transition.
fn apply_only(changes: Vec<Change>) -> Move<Change, Phase> {
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
        (Event::Reported { step, verdict }, State::Active(phase)) if step == phase => {
            let change = match verdict {
                Verdict::Completed => Change::Completed(phase),
                Verdict::Reviewed { success } => Change::Reviewed { success },
            };
            apply_only(vec![change])
        }
        (Event::Exhausted { step }, State::Active(phase)) if step == phase => failed(phase),
        // An attempt that ended after its cycle was stopped: `failed` is final.
        (Event::Reported { .. } | Event::Exhausted { .. }, _)
        // A failed phase is retried in a new cycle, and no phase is ever skipped.
        | (Event::Opened | Event::Retried { .. } | Event::Skipped { .. }, _) => apply_only(Vec::new()),
    }
}

pub(super) fn deferred(definition: &Definition, state: State) -> Option<Deferred<Change, Phase>> {
    let transition = match state {
        State::Ready(phase) if definition.reused_output(phase).is_some() => {
            apply_only(vec![Change::ReuseStarted(phase)])
        }
        State::Ready(phase) => {
            Move { changes: vec![Change::Activated(phase)], next: Next::Queue(vec![phase]) }
        }
        State::Reusing(phase) => apply_only(vec![Change::Completed(phase)]),
        State::Reviewed { success } => close(success),
        State::Active(_) | State::Closed { .. } | State::Failed(_) => return None,
    };
    // Normally no attempt is alive here. After a recovery, which puts the cycle back to an earlier state, one may be.
    Some(Deferred { must_be_idle: BTreeSet::from(Phase::ALL), transition })
}

/// Ends the cycle: the first phase that is not completed fails. If all are completed, the cycle is closed.
pub(super) fn stopped(state: State) -> Move<Change, Phase> {
    match state {
        State::Ready(phase) | State::Active(phase) | State::Reusing(phase) => failed(phase),
        State::Reviewed { success } => close(success),
        State::Closed { success } => Move { changes: Vec::new(), next: Next::Finish(outcome(success)) },
        State::Failed(_) => Move { changes: Vec::new(), next: Next::Finish(Outcome::Failed) },
    }
}

/// Starts an imported cycle in its state.
pub(super) fn import(state: State) -> Move<Change, Phase> {
    let changes = vec![Change::Imported(state)];
    let next = match state {
        State::Closed { success } => Next::Finish(outcome(success)),
        State::Failed(_) => Next::Finish(Outcome::Failed),
        State::Ready(_) | State::Active(_) | State::Reusing(_) | State::Reviewed { .. } => {
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
