//! What a decision consists of: changes of the run, and actions for the outside world.

use serde::{Deserialize, Serialize};

use super::state::{Attempt, Run, RunStatus};
use crate::rules::Protocol;
use crate::{AttemptNo, Turn};

/// One transition of a run. Entries are made of these, so a variant once written is read for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change<S, C> {
    Status {
        status: RunStatus,
    },
    /// The protocol's own transition.
    Protocol {
        transition: C,
    },
    /// A turn begins; the step waits for a place.
    Queued {
        step: S,
        turn: Turn,
    },
    /// The back-off has elapsed; the step waits for a place.
    BackoffElapsed {
        step: S,
    },
    /// A try begins. `counted_attempt` is the number of this attempt among those that count.
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
    /// A step that had no attempt alive loses its turn.
    Dequeued {
        step: S,
    },
}

/// The changes of a protocol's run.
pub type ChangeOf<P> = Change<<P as Protocol>::Step, <P as Protocol>::Change>;

/// How an attempt leaves its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// A valid report; the turn is over.
    Reported,
    /// It failed and is tried again after a back-off: the `failures`-th one of this turn.
    WillRetry { failures: u32, next: AttemptNo },
    /// It was interrupted and is tried again at once.
    Interrupted { interruptions: u32 },
    /// It failed and was the last attempt; the turn is over.
    Exhausted,
    /// It was ended because the run halts; the turn goes on with another attempt.
    Stopped,
    /// It was ended because the run closes; the turn is over without a result.
    Released,
    /// It failed and would be tried again, but the outcome is known; the turn is over without a result.
    Drained,
}

/// Why an attempt is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The run halts.
    RunStops,
    /// The outcome of the run no longer depends on it.
    RunEnds,
}

/// What is to be done in the outside world, under an id that makes a second performance recognisable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action<S> {
    Start { attempt: Attempt<S> },
    End { attempt: Attempt<S> },
}

impl<S: std::fmt::Display> Action<S> {
    /// The idempotency key.
    pub fn id(&self) -> String {
        match self {
            Self::Start { attempt } => format!("start {attempt}"),
            Self::End { attempt } => format!("end {attempt}"),
        }
    }
}

/// The result of deciding: it goes into the entry, and the outbox.
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

    /// Adds what was decided afterwards.
    pub fn append(&mut self, mut later: Self) {
        self.changes.append(&mut later.changes);
        self.actions.append(&mut later.actions);
    }

    pub(super) fn make(&mut self, run: &mut Run<P>, change: ChangeOf<P>) {
        run.apply(&change);
        self.changes.push(change);
    }
}
