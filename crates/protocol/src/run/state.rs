//! The state of a run, and how a change moves it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::change::{Change, ChangeOf, Exit};
use crate::rules::{Outcome, Protocol};
use crate::{AttemptId, TryNo, Turn};

/// One try of a step's turn, with the step typed. [`AttemptId`] is the same for those who know no protocol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attempt<S> {
    pub step: S,
    pub turn: Turn,
    #[serde(rename = "try")]
    pub try_no: TryNo,
}

impl<S: fmt::Display> fmt::Display for Attempt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{}", self.step, self.turn, self.try_no)
    }
}

/// Where a run stands as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Open,
    /// Attempts play on, nothing starts.
    Paused,
    /// Attempts are being ended; the run can be resumed.
    Halting(Halt),
    /// Nobody is alive; the run can be resumed.
    Halted(Halt),
    /// The outcome is known; attempts play on to their own end, nothing starts.
    Draining(Outcome),
    /// The outcome is known, attempts are being ended.
    Closing(Outcome),
    Finished(Outcome),
}

impl Phase {
    /// Whether attempts are started.
    pub fn starts(self) -> bool {
        match self {
            Self::Open => true,
            Self::Paused
            | Self::Halting(_)
            | Self::Halted(_)
            | Self::Draining(_)
            | Self::Closing(_)
            | Self::Finished(_) => false,
        }
    }
}

/// Why a run halts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    /// The engine was asked to go: Ctrl-C, SIGTERM.
    Interrupted,
    /// Somebody stopped the run.
    Stopped,
}

/// A step in its turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chair {
    pub turn: Turn,
    /// The try that plays, or the last one that did; 0 before the first.
    #[serde(rename = "try")]
    pub try_no: TryNo,
    /// Tries of this turn that failed.
    pub failures: u32,
    /// Tries of this turn that were interrupted; they do not count as failures.
    pub interruptions: u32,
    pub posture: Posture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Posture {
    /// Waits for a place.
    Called,
    /// Waits for its back-off to elapse, then for a place.
    Resting,
    /// Has a place: its attempt is starting or at work.
    Playing,
    /// Its attempt has been asked to end.
    Ending,
}

impl Posture {
    /// Whether an attempt may be alive.
    pub fn holds_place(self) -> bool {
        match self {
            Self::Playing | Self::Ending => true,
            Self::Called | Self::Resting => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Run<P: Protocol> {
    pub phase: Phase,
    pub play: P::State,
    /// Steps in a turn.
    #[serde(with = "pairs")]
    pub chairs: BTreeMap<P::Step, Chair>,
    /// The last turn of each step that had one.
    #[serde(with = "pairs")]
    pub turns: BTreeMap<P::Step, Turn>,
}

impl<P: Protocol> Run<P> {
    /// A run before its first entry.
    pub fn blank(definition: &P::Definition) -> Self {
        Self {
            phase: Phase::Open,
            play: P::begin(definition),
            chairs: BTreeMap::new(),
            turns: BTreeMap::new(),
        }
    }

    /// Attempts that may be alive.
    pub fn live_attempts(&self) -> impl Iterator<Item = (Attempt<P::Step>, &Chair)> {
        self.chairs.iter().filter(|(_, chair)| chair.posture.holds_place()).map(|(step, chair)| {
            (Attempt { step: step.clone(), turn: chair.turn, try_no: chair.try_no }, chair)
        })
    }

    /// The wire name of an attempt.
    pub fn id(attempt: &Attempt<P::Step>) -> AttemptId {
        AttemptId { step: P::step_id(&attempt.step), turn: attempt.turn, try_no: attempt.try_no }
    }

    /// Moves the run by one change. Never decides.
    pub fn apply(&mut self, change: &ChangeOf<P>) {
        match change {
            Change::Phase { phase } => self.phase = *phase,
            Change::Play { play } => P::apply(&mut self.play, play),
            Change::Called { step, turn } => {
                self.turns.insert(step.clone(), *turn);
                self.chairs.insert(
                    step.clone(),
                    Chair {
                        turn: *turn,
                        try_no: TryNo(0),
                        failures: 0,
                        interruptions: 0,
                        posture: Posture::Called,
                    },
                );
            }
            Change::Rested { step } => self.chair(step).posture = Posture::Called,
            Change::Began { attempt, .. } => {
                let chair = self.chair(&attempt.step);
                chair.try_no = attempt.try_no;
                chair.posture = Posture::Playing;
            }
            Change::AskedToEnd { attempt, .. } => self.chair(&attempt.step).posture = Posture::Ending,
            Change::Over { attempt, exit } => {
                let chair = self.chair(&attempt.step);
                match exit {
                    Exit::Repeats { failures, .. } => {
                        chair.failures = *failures;
                        chair.posture = Posture::Resting;
                    }
                    Exit::Interrupted { interruptions } => {
                        chair.interruptions = *interruptions;
                        chair.posture = Posture::Called;
                    }
                    Exit::Halted => chair.posture = Posture::Called,
                    Exit::Reported | Exit::GaveUp | Exit::Dismissed | Exit::Drained => {
                        self.chairs.remove(&attempt.step);
                    }
                }
            }
            Change::Uncalled { step } => {
                self.chairs.remove(step);
            }
        }
    }

    /// Whether a change can come next: asked of what was read from a damaged or foreign file before it is applied.
    pub fn admits(&self, definition: &P::Definition, change: &ChangeOf<P>) -> bool {
        let in_turn =
            |step: &P::Step, turn: Turn| self.chairs.get(step).is_some_and(|chair| chair.turn == turn);
        match change {
            Change::Phase { .. } => true,
            Change::Play { play } => P::fits(definition, &self.play, play),
            Change::Called { step, .. } => P::knows(definition, step),
            Change::Rested { step } | Change::Uncalled { step } => self.chairs.contains_key(step),
            Change::Began { attempt, .. }
            | Change::AskedToEnd { attempt, .. }
            | Change::Over { attempt, .. } => in_turn(&attempt.step, attempt.turn),
        }
    }

    fn chair(&mut self, step: &P::Step) -> &mut Chair {
        self.chairs.get_mut(step).unwrap_or_else(|| panic!("BUG: a change names `{step}`, which has no turn"))
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
