//! Decisions: changes of the run, and actions for the outside world.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::{Run, RunStatus};
use crate::protocol_trait::StepKind;
use crate::{AttemptId, AttemptNo, StepId, Turn};

/// One transition of a run. The journal consists of these, so released variants must stay readable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change<C = Value> {
    Status {
        status: RunStatus,
    },
    /// A transition of the protocol's state.
    Protocol {
        transition: C,
    },
    /// A turn begins; the step is to be started.
    Queued {
        step: StepId,
        turn: Turn,
    },
    /// The turn waits for the answer of a person, or until its conditions hold.
    Waiting {
        step: StepId,
        /// The names of the conditions; none if a person is asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<String>,
    },
    /// A person has answered, or the conditions hold. The turn ends.
    Answered {
        step: StepId,
        /// The names of the conditions; none if a person was asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<String>,
    },
    /// The back-off has elapsed; the step waits for a slot.
    BackoffElapsed {
        step: StepId,
    },
    /// An attempt starts. `counted_attempt` is its number among those that count towards the limit.
    Started {
        attempt: AttemptId,
        counted_attempt: u32,
        /// What does the work: an agent, a command or the engine.
        #[serde(default, skip_serializing_if = "StepKind::is_agent")]
        kind: StepKind,
    },
    StopRequested {
        attempt: AttemptId,
        reason: AttemptStopReason,
    },
    Ended {
        attempt: AttemptId,
        consequence: AttemptConsequence,
        /// What did the work: an agent, a command or the engine.
        #[serde(default, skip_serializing_if = "StepKind::is_agent")]
        kind: StepKind,
    },
    /// A step without a live attempt loses its turn.
    Dequeued {
        step: StepId,
    },
}

impl<C> Change<C> {
    /// Returns the step that it is about.
    pub fn step(&self) -> Option<&StepId> {
        match self {
            Self::Status { .. } | Self::Protocol { .. } => None,
            Self::Queued { step, .. }
            | Self::Waiting { step, .. }
            | Self::Answered { step, .. }
            | Self::BackoffElapsed { step }
            | Self::Dequeued { step } => Some(step),
            Self::Started { attempt, .. }
            | Self::StopRequested { attempt, .. }
            | Self::Ended { attempt, .. } => Some(&attempt.step),
        }
    }

    /// Converts the protocol's transition.
    pub(crate) fn try_map<D, E>(&self, read: impl FnOnce(&C) -> Result<D, E>) -> Result<Change<D>, E> {
        Ok(match self {
            Self::Protocol { transition } => Change::Protocol { transition: read(transition)? },
            Self::Status { status } => Change::Status { status: *status },
            Self::Queued { step, turn } => Change::Queued { step: step.clone(), turn: *turn },
            Self::Waiting { step, conditions } => {
                Change::Waiting { step: step.clone(), conditions: conditions.clone() }
            }
            Self::Answered { step, conditions } => {
                Change::Answered { step: step.clone(), conditions: conditions.clone() }
            }
            Self::BackoffElapsed { step } => Change::BackoffElapsed { step: step.clone() },
            Self::Started { attempt, counted_attempt, kind } => {
                Change::Started { attempt: attempt.clone(), counted_attempt: *counted_attempt, kind: *kind }
            }
            Self::StopRequested { attempt, reason } => {
                Change::StopRequested { attempt: attempt.clone(), reason: *reason }
            }
            Self::Ended { attempt, consequence, kind } => {
                Change::Ended { attempt: attempt.clone(), consequence: *consequence, kind: *kind }
            }
            Self::Dequeued { step } => Change::Dequeued { step: step.clone() },
        })
    }
}

/// What the end of an attempt means for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptConsequence {
    /// A valid report. The turn ends.
    Reported,
    /// It was failure number `failures` of the turn. The next attempt starts after a back-off.
    WillRetry { failures: u32, next: AttemptNo },
    /// It was interrupted. The next attempt starts at once.
    Interrupted { interruptions: u32 },
    /// It failed or was interrupted once too often. The turn ends.
    Exhausted,
    /// It was stopped because the run stops. The turn continues with another attempt.
    Stopped,
    /// It was stopped because the run finishes, or interrupted when the outcome was known. The turn ends without a
    /// result.
    Released,
    /// It failed, and the outcome of the run is known, so it is not retried. The turn ends without a result.
    FailedWhileDraining,
}

/// Why an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptStopReason {
    /// The run stops.
    RunStops,
    /// The outcome of the run no longer depends on it.
    RunFinishes,
}

/// An action in the outside world. Its id makes a repetition recognisable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "action")]
pub enum Action {
    Start { attempt: AttemptId },
    Stop { attempt: AttemptId },
}

impl Action {
    /// Returns the idempotency key.
    pub fn id(&self) -> String {
        match self {
            Self::Start { attempt } => format!("start {attempt}"),
            Self::Stop { attempt } => format!("stop {attempt}"),
        }
    }
}

/// The result of a decision. Its changes go into the entry, its actions into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub changes: Vec<Change>,
    pub actions: Vec<Action>,
}

impl Decision {
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
    pub(super) fn apply(&mut self, run: &mut Run, change: Change) {
        run.apply(&change).expect("BUG: a change of ours cannot be applied");
        self.changes.push(change);
    }
}
