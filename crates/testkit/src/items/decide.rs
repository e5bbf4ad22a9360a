//! The transition table of `items`.

use std::collections::{BTreeMap, BTreeSet};

use protocol::protocol_trait::StepStatus;
use protocol::{Event, Move, Next, Outcome, RequestRefusal, StepId};
use serde::{Deserialize, Serialize};

use super::step::{Step, Verdict};

/// The items and how far each is. The state has only their ids, with which the ids of their steps begin. Their names are in
/// the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct State {
    /// Empty until the plan is reported.
    pub items: BTreeMap<StepId, Stage>,
    pub failed: BTreeSet<Step>,
}

/// What an item needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Make,
    Approve,
    Record,
    Recorded,
}

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Planned(Vec<StepId>),
    Made(StepId),
    Approved(StepId),
    Rejected(StepId),
    Recorded(StepId),
    Reopened(StepId),
    Failed(Step),
    Retried(Step),
}

impl State {
    /// Returns all steps in the order in which they are worked on.
    pub(super) fn steps(&self) -> Vec<Step> {
        let of_item = |item: &StepId| {
            [Step::Make(item.clone()), Step::Approve(item.clone()), Step::Record(item.clone())]
        };
        std::iter::once(Step::Plan).chain(self.items.keys().flat_map(of_item)).collect()
    }

    pub(super) fn status(&self, step: &Step) -> StepStatus {
        let is_done = match step {
            Step::Plan => !self.items.is_empty(),
            Step::Make(item) | Step::Approve(item) | Step::Record(item) => {
                self.items.get(item).is_some_and(|stage| *stage > step.stage())
            }
        };
        match (self.failed.contains(step), is_done) {
            (true, _) => StepStatus::Failed,
            (false, true) => StepStatus::Succeeded,
            (false, false) => StepStatus::Unfinished,
        }
    }

    /// Returns the steps that can start: one per item that is not recorded.
    fn startable(&self) -> Vec<Step> {
        if self.items.is_empty() {
            return vec![Step::Plan];
        }
        let next = |(item, stage): (&StepId, &Stage)| match stage {
            Stage::Make => Some(Step::Make(item.clone())),
            Stage::Approve => Some(Step::Approve(item.clone())),
            Stage::Record => Some(Step::Record(item.clone())),
            Stage::Recorded => None,
        };
        self.items.iter().filter_map(next).filter(|step| !self.failed.contains(step)).collect()
    }

    pub(super) fn can_apply(&self, change: &Change) -> bool {
        match change {
            Change::Planned(items) => self.items.is_empty() && !items.is_empty(),
            Change::Made(item)
            | Change::Approved(item)
            | Change::Rejected(item)
            | Change::Recorded(item)
            | Change::Reopened(item) => self.items.contains_key(item),
            Change::Failed(step) | Change::Retried(step) => {
                step.item().is_none_or(|item| self.items.contains_key(item))
            }
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        let (item, stage) = match change {
            Change::Planned(items) => {
                self.items = items.iter().map(|item| (item.clone(), Stage::Make)).collect();
                return;
            }
            Change::Failed(step) => {
                self.failed.insert(step.clone());
                return;
            }
            Change::Retried(step) => {
                self.failed.remove(step);
                return;
            }
            Change::Made(item) => (item, Stage::Approve),
            Change::Approved(item) => (item, Stage::Record),
            Change::Rejected(item) | Change::Reopened(item) => (item, Stage::Make),
            Change::Recorded(item) => (item, Stage::Recorded),
        };
        self.items.insert(item.clone(), stage);
    }
}

pub(super) fn decide(state: &State, event: Event<Step, Verdict>) -> Move<Change, Step> {
    let (changes, next) = match event {
        Event::Opened => (Vec::new(), Next::Queue(state.startable())),
        Event::Reported { verdict: Verdict::Planned(items), .. } => {
            let make = items.iter().cloned().map(Step::Make).collect();
            (vec![Change::Planned(items)], Next::Queue(make))
        }
        Event::Reported { step, verdict } => decide_after_report(state, step, &verdict),
        Event::Exhausted { step } => (vec![Change::Failed(step)], Next::Finish(Outcome::Failed)),
        Event::Retried { steps } => {
            let changes: Vec<_> = steps.into_iter().map(Change::Retried).collect();
            let mut after = state.clone();
            changes.iter().for_each(|change| after.apply(change));
            (changes, Next::QueueUnlessInTurn(after.startable()))
        }
        // The module `protocol::run` refuses to skip a step of `items`.
        Event::Skipped { .. } => (Vec::new(), Next::Queue(Vec::new())),
    };
    Move { changes, next }
}

fn decide_after_report(state: &State, step: Step, verdict: &Verdict) -> (Vec<Change>, Next<Step>) {
    match (step, verdict) {
        (Step::Make(item), _) => (vec![Change::Made(item.clone())], Next::Queue(vec![Step::Approve(item)])),
        (Step::Approve(item), Verdict::Rejected) => {
            (vec![Change::Rejected(item.clone())], Next::Queue(vec![Step::Make(item)]))
        }
        (Step::Approve(item), _) => {
            (vec![Change::Approved(item.clone())], Next::Queue(vec![Step::Record(item)]))
        }
        (Step::Record(item), _) => {
            let is_last =
                state.items.iter().all(|(other, stage)| *other == item || *stage == Stage::Recorded);
            let next = if is_last { Next::Finish(Outcome::Succeeded) } else { Next::Queue(Vec::new()) };
            (vec![Change::Recorded(item)], next)
        }
        (Step::Plan, _) => (Vec::new(), Next::Queue(Vec::new())),
    }
}

/// Decides about the request to make an item again.
pub(super) fn reopen(state: &State, item: &StepId) -> Result<Move<Change, Step>, RequestRefusal> {
    let refused = |code, message| Err(RequestRefusal { code, message });
    match state.items.get(item) {
        None => refused("no_such_item", format!("there is no item `{item}`")),
        Some(Stage::Make | Stage::Approve | Stage::Record) => {
            refused("not_recorded", format!("`{item}` is not recorded yet"))
        }
        Some(Stage::Recorded) if !state.failed.is_empty() => {
            refused("failed_steps", "retry the failed steps first".to_owned())
        }
        Some(Stage::Recorded) => Ok(Move {
            changes: vec![Change::Reopened(item.clone())],
            next: Next::Queue(vec![Step::Make(item.clone())]),
        }),
    }
}
