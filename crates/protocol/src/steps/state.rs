//! The state of a `steps` run and its transitions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::phases::Phase;
use crate::StepId;

/// Which steps are done, failed or to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct State {
    /// Completed or skipped steps, on which others may depend.
    pub done: BTreeSet<StepId>,
    /// Those of `done` that were skipped.
    pub skipped: BTreeSet<StepId>,
    pub failed: BTreeSet<StepId>,
    /// Failed gates whose loop-back is pending.
    pub gates_looping_back: BTreeSet<StepId>,
    /// How many loop-backs have reset each step. Steps without any are left out.
    pub loop_backs: BTreeMap<StepId, u32>,
    /// The step at which the run is to start again, as soon as no attempt is alive there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarting: Option<StepId>,
    /// The phase of each step that has left its first one and is not finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<StepId, Phase>,
    /// How often the checks of each step have failed since the step last became ready. Each time counts as a failed attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed_check_turns: BTreeMap<StepId, u32>,
    /// How many items each step with a data loop has, once they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub item_counts: BTreeMap<StepId, u32>,
    /// Items that had failed and are worked on again, in the order in which they were retried. They come after the items in
    /// progress. Steps that are no items have no effect here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retried_items: Vec<StepId>,
}

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Done(StepId),
    /// The step begins its next phase.
    Entered {
        step: StepId,
        phase: Phase,
    },
    Failed(StepId),
    /// A check of the step failed, and its agent works again.
    ChecksFailed(StepId),
    /// The step completed, and its report says that the gate failed.
    GateFailed(StepId),
    /// The loop-back of these gates to these targets. All of `steps` are to be done again.
    Reset {
        gates: Vec<StepId>,
        targets: Vec<StepId>,
        steps: Vec<StepId>,
        /// Items to be removed, because their list is read again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<StepId>,
        /// Steps with data loops of which only some items are to be done again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reopened: Vec<StepId>,
    },
    /// The items of the step are known, and worked on.
    Items {
        step: StepId,
        count: u32,
    },
    Retried(StepId),
    Skipped(StepId),
    /// A user wants the run to start again at this step.
    RestartRequested(StepId),
    /// These steps are as in a new run: `from`, everything after it, and the steps that had failed elsewhere.
    Restarted {
        from: StepId,
        steps: Vec<StepId>,
        /// Items to be removed, because their list is read again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<StepId>,
    },
}

impl Change {
    /// Returns every step that the change names.
    pub(super) fn steps(&self) -> impl Iterator<Item = &StepId> {
        let (single, lists): (Option<&StepId>, [&[StepId]; 5]) = match self {
            Self::Done(step)
            | Self::Failed(step)
            | Self::GateFailed(step)
            | Self::Retried(step)
            | Self::Skipped(step)
            | Self::ChecksFailed(step)
            | Self::Items { step, .. }
            | Self::Entered { step, .. }
            | Self::RestartRequested(step) => (Some(step), [&[]; 5]),
            Self::Restarted { from, steps, items } => (Some(from), [steps, items, &[], &[], &[]]),
            Self::Reset { gates, targets, steps, items, reopened } => {
                (None, [gates, targets, steps, items, reopened])
            }
        };
        single.into_iter().chain(lists.into_iter().flatten())
    }
}

impl State {
    /// Returns how many loop-backs have reset a step.
    pub fn loop_backs(&self, step: &StepId) -> u32 {
        self.loop_backs.get(step).copied().unwrap_or(0)
    }

    /// Returns the phase of a step that is not finished.
    pub fn phase(&self, definition: &Definition, step: &StepId) -> Phase {
        self.phases.get(step).copied().unwrap_or_else(|| definition.first_phase(step))
    }

    /// Returns the steps that a person has approved and that are not done yet.
    pub fn approved(&self) -> impl Iterator<Item = &StepId> {
        self.phases.iter().filter(|(_, phase)| **phase == Phase::Approved).map(|(step, _)| step)
    }

    /// Returns how often the checks of a step have failed since the step last became ready.
    pub fn failed_check_turns(&self, step: &StepId) -> u32 {
        self.failed_check_turns.get(step).copied().unwrap_or(0)
    }

    /// Removes the phase and the failed checks of a step.
    fn clear_phase(&mut self, step: &StepId) {
        self.phases.remove(step);
        self.failed_check_turns.remove(step);
    }

    /// Makes a failed step unfinished again, and puts it at the end of `retried_items` if the run has items.
    fn clear_failure(&mut self, step: &StepId) {
        if self.failed.remove(step) && !self.item_counts.is_empty() {
            self.retried_items.retain(|other| other != step);
            self.retried_items.push(step.clone());
        }
    }

    /// Resets a step to its state in a new run, except for the number of its loop-backs.
    fn reset(&mut self, step: &StepId) {
        self.clear_failure(step);
        for set in [&mut self.done, &mut self.skipped, &mut self.gates_looping_back] {
            set.remove(step);
        }
        self.item_counts.remove(step);
        self.clear_phase(step);
    }

    /// Removes items whose list is read again.
    fn forget_items(&mut self, items: &[StepId]) {
        for item in items {
            self.reset(item);
            self.loop_backs.remove(item);
        }
        self.retried_items.retain(|step| !items.contains(step));
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Done(step) => {
                self.clear_phase(step);
                self.done.insert(step.clone());
            }
            Change::Entered { step, phase } => {
                self.phases.insert(step.clone(), *phase);
            }
            Change::ChecksFailed(step) => {
                self.phases.insert(step.clone(), Phase::Work);
                *self.failed_check_turns.entry(step.clone()).or_insert(0) += 1;
            }
            Change::Failed(step) => {
                self.clear_phase(step);
                self.failed.insert(step.clone());
            }
            Change::GateFailed(step) => {
                self.clear_phase(step);
                self.gates_looping_back.insert(step.clone());
            }
            Change::Items { step, count } => {
                self.phases.insert(step.clone(), Phase::WorkOnItems);
                self.item_counts.insert(step.clone(), *count);
            }
            Change::Reset { steps, items, reopened, .. } => {
                for step in reopened {
                    self.done.remove(step);
                    self.skipped.remove(step);
                    self.phases.insert(step.clone(), Phase::WorkOnItems);
                }
                self.forget_items(items);
                for step in steps {
                    self.reset(step);
                    *self.loop_backs.entry(step.clone()).or_insert(0) += 1;
                }
            }
            Change::Retried(step) => self.clear_failure(step),
            Change::Skipped(step) => {
                self.clear_phase(step);
                self.clear_failure(step);
                self.gates_looping_back.remove(step);
                self.done.insert(step.clone());
                self.skipped.insert(step.clone());
            }
            Change::RestartRequested(step) => self.restarting = Some(step.clone()),
            Change::Restarted { steps, items, .. } => {
                self.restarting = None;
                self.forget_items(items);
                for step in steps {
                    self.reset(step);
                    self.loop_backs.remove(step);
                }
            }
        }
    }
}
