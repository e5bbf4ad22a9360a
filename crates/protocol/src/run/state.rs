//! The state of a run, and how a change moves it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::change::{Change, ChangeOf, Exit};
use crate::rules::{Outcome, Protocol};
use crate::{AttemptId, AttemptNo, Turn};

/// One attempt of a step's turn, with the step typed. [`AttemptId`] is the same for those who know no protocol.
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

/// Where a run stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// Attempts play on, nothing starts.
    Paused,
    /// Attempts are being ended; the run can be resumed.
    Stopping(StopCause),
    /// Nobody is alive; the run can be resumed.
    Stopped(StopCause),
    /// The outcome is known; attempts play on to their own end, nothing starts.
    Draining(Outcome),
    /// The outcome is known, attempts are being ended.
    Finishing(Outcome),
    Finished(Outcome),
}

impl RunStatus {
    /// Whether attempts are started.
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

/// Why a run halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// The engine was asked to go: Ctrl-C, SIGTERM.
    Interrupted,
    /// Somebody stopped the run.
    Requested,
}

/// A step in its turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActiveTurn {
    pub turn: Turn,
    /// The try that plays, or the last one that did; 0 before the first.
    #[serde(rename = "attempt")]
    pub attempt_no: AttemptNo,
    /// Tries of this turn that failed.
    pub failures: u32,
    /// Tries of this turn that were interrupted; they do not count as failures.
    pub interruptions: u32,
    pub status: TurnStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Waits for a place.
    Queued,
    /// Waits for its back-off to elapse, then for a place.
    BackingOff,
    /// Has a place: its attempt is starting or at work.
    Running,
    /// Its attempt has been asked to end.
    Stopping,
}

impl TurnStatus {
    /// Whether an attempt may be alive.
    pub fn holds_slot(self) -> bool {
        match self {
            Self::Running | Self::Stopping => true,
            Self::Queued | Self::BackingOff => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Run<P: Protocol> {
    pub status: RunStatus,
    pub state: P::State,
    /// Steps in a turn.
    #[serde(with = "pairs")]
    pub active_turns: BTreeMap<P::Step, ActiveTurn>,
    /// The last turn of each step that had one.
    #[serde(with = "pairs")]
    pub turns: BTreeMap<P::Step, Turn>,
}

impl<P: Protocol> Run<P> {
    /// A run before its first entry.
    pub fn blank(definition: &P::Definition) -> Self {
        Self {
            status: RunStatus::Running,
            state: P::begin(definition),
            active_turns: BTreeMap::new(),
            turns: BTreeMap::new(),
        }
    }

    /// Attempts that may be alive.
    pub fn live_attempts(&self) -> impl Iterator<Item = (Attempt<P::Step>, &ActiveTurn)> {
        self.active_turns.iter().filter(|(_, active)| active.status.holds_slot()).map(|(step, active)| {
            (Attempt { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no }, active)
        })
    }

    /// The wire name of an attempt.
    pub fn id(attempt: &Attempt<P::Step>) -> AttemptId {
        AttemptId { step: P::step_id(&attempt.step), turn: attempt.turn, attempt_no: attempt.attempt_no }
    }

    /// Moves the run by one change. Never decides.
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

    /// Whether a change can come next: asked of what was read from a damaged or foreign file before it is applied.
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
            .unwrap_or_else(|| panic!("BUG: a change names `{step}`, which has no turn"))
    }
}

/// Maps as lists of pairs: steps of other protocols need not be JSON strings.
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
