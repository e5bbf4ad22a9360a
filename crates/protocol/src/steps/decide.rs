//! The table of `steps`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::seat::Verdict;
use crate::SeatName;
use crate::rules::{Event, Move, Next, Outcome};

/// Which steps are behind us.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct State {
    pub done: BTreeSet<SeatName>,
    pub failed: BTreeSet<SeatName>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Done(SeatName),
    Failed(SeatName),
}

impl State {
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Done(step) => {
                self.done.insert(step.clone());
            }
            Change::Failed(step) => {
                self.failed.insert(step.clone());
            }
        }
    }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<SeatName, Verdict>,
) -> Move<Change, SeatName> {
    match event {
        Event::Opened => Move { changes: Vec::new(), next: Next::Call(startable(definition, state)) },
        Event::Reported { seat, verdict: Verdict::Done } => done(definition, state, seat),
        Event::GaveUp { seat } => {
            Move { changes: vec![Change::Failed(seat)], next: Next::Finish(Outcome::Undelivered) }
        }
    }
}

fn done(definition: &Definition, state: &State, step: SeatName) -> Move<Change, SeatName> {
    let is_done = |id: &SeatName| *id == step || state.done.contains(id);
    let next = if state.done.len() + 1 == definition.workflow().steps.len() {
        Next::Finish(Outcome::Delivered)
    } else {
        let ready = definition.dependents(&step).filter(|dependent| dependent.needs.iter().all(is_done));
        Next::Call(ready.map(|dependent| dependent.id.clone()).collect())
    };
    Move { changes: vec![Change::Done(step)], next }
}

/// Steps that are not done and need nothing that is not.
fn startable(definition: &Definition, state: &State) -> Vec<SeatName> {
    let steps = definition.workflow().steps.iter();
    steps
        .filter(|step| !state.done.contains(&step.id))
        .filter(|step| step.needs.iter().all(|need| state.done.contains(need)))
        .map(|step| step.id.clone())
        .collect()
}
