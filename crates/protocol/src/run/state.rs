//! The state of a run, and how a change moves it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change::{AttemptConsequence, Change};
use crate::machine::Machine;
use crate::protocol_trait::Outcome;
use crate::{AttemptId, AttemptNo, StepId, Turn};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    /// Attempts continue, nothing starts.
    Paused,
    /// Attempts are being stopped. The run can be resumed.
    Stopping(RunStopCause),
    /// No attempt is alive. The run can be resumed.
    Stopped(RunStopCause),
    /// The outcome is known. Attempts continue to their own end, nothing starts.
    Draining(Outcome),
    /// The outcome is known. Attempts are being stopped.
    Finishing(Outcome),
    Finished(Outcome),
}

impl RunStatus {
    /// Returns whether queued steps may start.
    pub fn may_start_steps(self) -> bool {
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
pub enum RunStopCause {
    /// The engine was interrupted: Ctrl-C, SIGTERM.
    EngineInterrupted,
    /// A user stopped the run.
    Requested,
}

/// The current turn of a step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActiveTurn {
    pub turn: Turn,
    /// The live attempt, or the last one; 0 before the first.
    pub attempt_no: AttemptNo,
    /// Failed attempts of this turn.
    pub failures: u32,
    /// Interrupted attempts of this turn, which do not count as failures.
    pub interruptions: u32,
    pub status: TurnStatus,
}

impl ActiveTurn {
    /// Returns the id of the live attempt, or of the last one.
    pub fn attempt_id(&self, step: &StepId) -> AttemptId {
        AttemptId { step: step.clone(), turn: self.turn, attempt_no: self.attempt_no }
    }
}

/// The status of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It waits for a slot.
    Queued,
    /// It waits for its back-off to elapse. Then it is queued again.
    BackingOff,
    /// It waits for the answer of a person, or until its conditions hold.
    Waiting,
    /// It has a slot: its attempt is starting or running.
    Running,
    /// Its attempt is being stopped.
    Stopping,
}

impl TurnStatus {
    /// Returns whether an attempt may be alive.
    pub fn has_live_attempt(self) -> bool {
        match self {
            Self::Running | Self::Stopping => true,
            Self::Queued | Self::BackingOff | Self::Waiting => false,
        }
    }
}

/// The state of a run: its turns, and the state of its protocol.
#[derive(Debug, Clone)]
pub struct Run {
    pub status: RunStatus,
    /// The definition, the protocol's state, and the document.
    pub machine: Box<dyn Machine>,
    /// The steps that are in a turn.
    pub active_turns: BTreeMap<StepId, ActiveTurn>,
    /// The last turn of each step that had one.
    pub turns: BTreeMap<StepId, Turn>,
}

/// Compares everything but the documents.
impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status
            && self.active_turns == other.active_turns
            && self.turns == other.turns
            && self.machine.has_state_of(&*other.machine)
    }
}

impl Run {
    /// Returns the state before the first entry.
    pub fn empty(machine: Box<dyn Machine>) -> Self {
        Self { status: RunStatus::Running, machine, active_turns: BTreeMap::new(), turns: BTreeMap::new() }
    }

    /// Returns the attempts that may be alive.
    pub fn live_attempts(&self) -> impl Iterator<Item = (AttemptId, &ActiveTurn)> {
        let live = self.active_turns.iter().filter(|(_, active)| active.status.has_live_attempt());
        live.map(|(step, active)| (active.attempt_id(step), active))
    }

    /// Returns the steps whose turns wait for a person or for conditions.
    pub fn waiting_steps(&self) -> impl Iterator<Item = (&StepId, Turn)> {
        let waiting = self.active_turns.iter().filter(|(_, active)| active.status == TurnStatus::Waiting);
        waiting.map(|(step, active)| (step, active.turn))
    }

    /// Returns whether only an answer, or conditions that become true, can move the run.
    pub fn is_waiting(&self) -> bool {
        self.status == RunStatus::Running
            && !self.active_turns.is_empty()
            && self.active_turns.values().all(|active| active.status == TurnStatus::Waiting)
    }

    /// Applies a change. Never decides. Fails if the change is of another protocol, and leaves the run as it is. Panics if the
    /// change needs a turn that its step does not have; see [`Self::can_apply`].
    pub fn apply(&mut self, change: &Change) -> Result<(), serde_json::Error> {
        match change {
            Change::Status { status } => self.status = *status,
            Change::Protocol { transition } => self.machine.apply(transition)?,
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
            Change::Waiting { step, .. } => self.active(step).status = TurnStatus::Waiting,
            Change::BackoffElapsed { step } => self.active(step).status = TurnStatus::Queued,
            Change::Started { attempt, .. } => {
                let active = self.active(&attempt.step);
                active.attempt_no = attempt.attempt_no;
                active.status = TurnStatus::Running;
            }
            Change::StopRequested { attempt, .. } => self.active(&attempt.step).status = TurnStatus::Stopping,
            Change::Ended { attempt, consequence, .. } => {
                let active = self.active(&attempt.step);
                match consequence {
                    AttemptConsequence::WillRetry { failures, .. } => {
                        active.failures = *failures;
                        active.status = TurnStatus::BackingOff;
                    }
                    AttemptConsequence::Interrupted { interruptions } => {
                        active.interruptions = *interruptions;
                        active.status = TurnStatus::Queued;
                    }
                    AttemptConsequence::Stopped => active.status = TurnStatus::Queued,
                    AttemptConsequence::Reported
                    | AttemptConsequence::Exhausted
                    | AttemptConsequence::Released
                    | AttemptConsequence::FailedWhileDraining => {
                        self.active_turns.remove(&attempt.step);
                    }
                }
            }
            Change::Answered { step, .. } | Change::Dequeued { step } => {
                self.active_turns.remove(step);
            }
        }
        Ok(())
    }

    /// Returns whether `change` can be applied. Used for entries of damaged or foreign files, before they are folded.
    pub fn can_apply(&self, change: &Change) -> bool {
        let in_turn =
            |step: &StepId, turn: Turn| self.active_turns.get(step).is_some_and(|active| active.turn == turn);
        match change {
            Change::Status { .. } => true,
            Change::Protocol { transition } => self.machine.can_apply(transition),
            Change::Queued { step, .. } => self.machine.has_step(step),
            Change::Waiting { step, .. }
            | Change::Answered { step, .. }
            | Change::BackoffElapsed { step }
            | Change::Dequeued { step } => self.active_turns.contains_key(step),
            Change::Started { attempt, .. }
            | Change::StopRequested { attempt, .. }
            | Change::Ended { attempt, .. } => in_turn(&attempt.step, attempt.turn),
        }
    }

    fn active(&mut self, step: &StepId) -> &mut ActiveTurn {
        self.active_turns
            .get_mut(step)
            .unwrap_or_else(|| panic!("BUG: a change names `{step}`, which is not in a turn"))
    }
}
