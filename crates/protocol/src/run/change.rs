//! Decisions: changes of the run, and actions for the outside world.

use serde::{Deserialize, Serialize};

use super::state::{Attempt, Run, RunStatus};
use crate::rules::Protocol;
use crate::{AttemptNo, Turn};

/// One transition of a run. The journal consists of these, so released variants must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change<S, C> {
    Status {
        status: RunStatus,
    },
    /// A transition of the protocol's state.
    Protocol {
        transition: C,
    },
    /// A turn begins; the step waits for a slot.
    Queued {
        step: S,
        turn: Turn,
    },
    /// The back-off has elapsed; the step waits for a slot.
    BackoffElapsed {
        step: S,
    },
    /// An attempt starts. `counted_attempt` is its number among those that count towards the limit.
    Started {
        attempt: Attempt<S>,
        counted_attempt: u32,
    },
    StopRequested {
        attempt: Attempt<S>,
        reason: StopReason,
    },
    Ended {
        attempt: Attempt<S>,
        exit: Exit,
    },
    /// A step without a live attempt loses its turn.
    Dequeued {
        step: S,
    },
}

/// The changes of a run of protocol `P`.
pub type ChangeOf<P> = Change<<P as Protocol>::Step, <P as Protocol>::Change>;

/// What the end of an attempt means for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// A valid report. The turn ends.
    Reported,
    /// It was failure number `failures` of the turn. The next attempt starts after a back-off.
    WillRetry { failures: u32, next: AttemptNo },
    /// It was interrupted. The next attempt starts at once.
    Interrupted { interruptions: u32 },
    /// It was the last attempt, and failed. The turn ends.
    Exhausted,
    /// It was stopped because the run stops. The turn continues with another attempt.
    Stopped,
    /// It was stopped because the run finishes. The turn ends without a result.
    Released,
    /// It failed, and the outcome of the run is known, so it is not retried. The turn ends without a result.
    Drained,
}

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The run stops.
    RunStops,
    /// The outcome of the run no longer depends on it.
    RunEnds,
}

/// An action in the outside world. Its id makes a repetition recognisable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action<S> {
    Start { attempt: Attempt<S> },
    End { attempt: Attempt<S> },
}

impl<S: std::fmt::Display> Action<S> {
    /// Returns the idempotency key.
    pub fn id(&self) -> String {
        match self {
            Self::Start { attempt } => format!("start {attempt}"),
            Self::End { attempt } => format!("end {attempt}"),
        }
    }
}

/// The result of a decision. Its changes go into the entry, its actions into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<P: Protocol> {
    pub changes: Vec<ChangeOf<P>>,
    pub actions: Vec<Action<P::Step>>,
}

impl<P: Protocol> Decision<P> {
    pub fn nothing() -> Self {
        Self { changes: Vec::new(), actions: Vec::new() }
    }

    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.actions.is_empty()
    }

    /// Appends a later decision.
    pub fn append(&mut self, mut later: Self) {
        self.changes.append(&mut later.changes);
        self.actions.append(&mut later.actions);
    }

    /// Applies a change to the run and adds it to the decision.
    pub(super) fn apply(&mut self, run: &mut Run<P>, change: ChangeOf<P>) {
        run.apply(&change);
        self.changes.push(change);
    }
}
