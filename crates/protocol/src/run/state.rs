//! The state of a run, and how a change moves it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::change::{Change, ChangeOf, Exit};
use crate::rules::{Outcome, Protocol};
use crate::{AttemptId, AttemptNo, Turn};

/// An attempt of a typed step. [`AttemptId`] is the form without the protocol's type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt<S> {
    pub step: S,
    pub turn: Turn,
    #[serde(rename = "attempt")]
    pub attempt_no: AttemptNo,
}

impl<S: fmt::Display> fmt::Display for Attempt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{}", self.step, self.turn, self.attempt_no)
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// Attempts continue, nothing starts.
    Paused,
    /// Attempts are being stopped. The run can be resumed.
    Stopping(StopCause),
    /// No attempt is alive. The run can be resumed.
    Stopped(StopCause),
    /// The outcome is known. Attempts continue to their own end, nothing starts.
    Draining(Outcome),
    /// The outcome is known. Attempts are being stopped.
    Finishing(Outcome),
    Finished(Outcome),
}

impl RunStatus {
    /// Returns whether queued steps may start.
    pub fn starts(self) -> bool {
        match self {
            Self::Running => true,
            Self::Paused
            | Self::Stopping(_)
            | Self::Stopped(_)
            | Self::Draining(_)
            | Self::Finishing(_)
            | Self::Finished(_) => false,
        }
    }
}

/// Why a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The engine was interrupted: Ctrl-C, SIGTERM.
    Interrupted,
    /// A user stopped the run.
    Requested,
}

/// The current turn of a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActiveTurn {
    pub turn: Turn,
    /// The live attempt, or the last one; 0 before the first.
    #[serde(rename = "attempt")]
    pub attempt_no: AttemptNo,
    /// Failed attempts of this turn.
    pub failures: u32,
    /// Interrupted attempts of this turn, which do not count as failures.
    pub interruptions: u32,
    pub status: TurnStatus,
}

/// The status of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It waits for a slot.
    Queued,
    /// It waits for its back-off to elapse, and then for a slot.
    BackingOff,
    /// It has a slot: its attempt is starting or running.
    Running,
    /// Its attempt is being stopped.
    Stopping,
}

impl TurnStatus {
    /// Returns whether an attempt may be alive.
    pub fn holds_slot(self) -> bool {
        match self {
            Self::Running | Self::Stopping => true,
            Self::Queued | Self::BackingOff => false,
        }
    }
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Run<P: Protocol> {
    pub status: RunStatus,
    pub state: P::State,
    /// The steps that are in a turn.
    #[serde(with = "pairs")]
    pub active_turns: BTreeMap<P::Step, ActiveTurn>,
    /// The last turn of each step that had one.
    #[serde(with = "pairs")]
    pub turns: BTreeMap<P::Step, Turn>,
}

impl<P: Protocol> Run<P> {
    /// Returns the state before the first entry.
    pub fn blank(definition: &P::Definition) -> Self {
        Self {
            status: RunStatus::Running,
            state: P::begin(definition),
            active_turns: BTreeMap::new(),
            turns: BTreeMap::new(),
        }
    }

    /// Returns the attempts that may be alive.
    pub fn live_attempts(&self) -> impl Iterator<Item = (Attempt<P::Step>, &ActiveTurn)> {
        self.active_turns.iter().filter(|(_, active)| active.status.holds_slot()).map(|(step, active)| {
            (Attempt { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no }, active)
        })
    }

    /// Returns the id of an attempt.
    pub fn id(attempt: &Attempt<P::Step>) -> AttemptId {
        AttemptId { step: P::step_id(&attempt.step), turn: attempt.turn, attempt_no: attempt.attempt_no }
    }

    /// Applies a change. Never decides.
    pub fn apply(&mut self, change: &ChangeOf<P>) {
        match change {
            Change::Status { status } => self.status = *status,
            Change::Protocol { transition } => P::apply(&mut self.state, transition),
            Change::Queued { step, turn } => {
                self.turns.insert(step.clone(), *turn);
                self.active_turns.insert(
                    step.clone(),
                    ActiveTurn {
                        turn: *turn,
                        attempt_no: AttemptNo(0),
                        failures: 0,
                        interruptions: 0,
                        status: TurnStatus::Queued,
                    },
                );
            }
            Change::BackoffElapsed { step } => self.active(step).status = TurnStatus::Queued,
            Change::Started { attempt, .. } => {
                let active = self.active(&attempt.step);
                active.attempt_no = attempt.attempt_no;
                active.status = TurnStatus::Running;
            }
            Change::StopRequested { attempt, .. } => self.active(&attempt.step).status = TurnStatus::Stopping,
            Change::Ended { attempt, exit } => {
                let active = self.active(&attempt.step);
                match exit {
                    Exit::WillRetry { failures, .. } => {
                        active.failures = *failures;
                        active.status = TurnStatus::BackingOff;
                    }
                    Exit::Interrupted { interruptions } => {
                        active.interruptions = *interruptions;
                        active.status = TurnStatus::Queued;
                    }
                    Exit::Stopped => active.status = TurnStatus::Queued,
                    Exit::Reported | Exit::Exhausted | Exit::Released | Exit::Drained => {
                        self.active_turns.remove(&attempt.step);
                    }
                }
            }
            Change::Dequeued { step } => {
                self.active_turns.remove(step);
            }
        }
    }

    /// Returns whether `change` can be applied. Used for entries of damaged or foreign files, before they are folded.
    pub fn admits(&self, definition: &P::Definition, change: &ChangeOf<P>) -> bool {
        let in_turn = |step: &P::Step, turn: Turn| {
            self.active_turns.get(step).is_some_and(|active| active.turn == turn)
        };
        match change {
            Change::Status { .. } => true,
            Change::Protocol { transition } => P::admits(definition, &self.state, transition),
            Change::Queued { step, .. } => P::has_step(definition, step),
            Change::BackoffElapsed { step } | Change::Dequeued { step } => {
                self.active_turns.contains_key(step)
            }
            Change::Started { attempt, .. }
            | Change::StopRequested { attempt, .. }
            | Change::Ended { attempt, .. } => in_turn(&attempt.step, attempt.turn),
        }
    }

    fn active(&mut self, step: &P::Step) -> &mut ActiveTurn {
        self.active_turns
            .get_mut(step)
            .unwrap_or_else(|| panic!("BUG: a change names `{step}`, which is not in a turn"))
    }
}

/// Serializes maps as lists of pairs, because a step need not be a JSON string.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
