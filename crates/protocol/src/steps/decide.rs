//! The table of `steps`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::definition::{Definition, OnFailure};
use super::step::Verdict;
use crate::StepId;
use crate::rules::{Deferred, Event, Move, Next, Outcome, StepStatus};

/// Which steps are behind us.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct State {
    /// Completed or skipped: what needs them may begin.
    pub done: BTreeSet<StepId>,
    /// Those of them that were skipped.
    pub skipped: BTreeSet<StepId>,
    pub failed: BTreeSet<StepId>,
    /// Steps whose gate failed; the way back is still to be taken.
    pub looping: BTreeSet<StepId>,
    /// How often each step was sent back; steps that never were are left out.
    pub iterations: BTreeMap<StepId, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Done(StepId),
    Failed(StepId),
    /// The step is done, and its gate failed.
    GateFailed(StepId),
    /// The way back is taken: these gates failed, the run begins again at these targets, all these steps are open.
    Reset {
        gates: Vec<StepId>,
        targets: Vec<StepId>,
        steps: Vec<StepId>,
    },
    Retried(StepId),
    Skipped(StepId),
}

impl Change {
    /// Every step it names.
    pub(super) fn steps(&self) -> impl Iterator<Item = &StepId> {
        let (one, many): (Option<&StepId>, [&[StepId]; 3]) = match self {
            Self::Done(step)
            | Self::Failed(step)
            | Self::GateFailed(step)
            | Self::Retried(step)
            | Self::Skipped(step) => (Some(step), [&[]; 3]),
            Self::Reset { gates, targets, steps } => (None, [gates, targets, steps]),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl State {
    pub fn iteration(&self, step: &StepId) -> u32 {
        self.iterations.get(step).copied().unwrap_or(0)
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Done(step) => {
                self.done.insert(step.clone());
            }
            Change::Failed(step) => {
                self.failed.insert(step.clone());
            }
            Change::GateFailed(step) => {
                self.looping.insert(step.clone());
            }
            Change::Reset { steps, .. } => {
                for step in steps {
                    for set in [&mut self.done, &mut self.skipped, &mut self.failed, &mut self.looping] {
                        set.remove(step);
                    }
                    *self.iterations.entry(step.clone()).or_insert(0) += 1;
                }
            }
            Change::Retried(step) => {
                self.failed.remove(step);
            }
            Change::Skipped(step) => {
                self.failed.remove(step);
                self.done.insert(step.clone());
                self.skipped.insert(step.clone());
            }
        }
    }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<StepId, Verdict>,
) -> Move<Change, StepId> {
    match event {
        Event::Opened => Move { changes: Vec::new(), next: Next::Queue(startable(definition, state)) },
        Event::Reported { step, verdict } => match verdict {
            Verdict::Done => satisfied(definition, state, Change::Done(step.clone()), &step),
            Verdict::GateFailed => gate_failed(definition, state, step),
        },
        Event::Exhausted { step } => failed(definition, state, step),
        Event::Retried { steps } => {
            let changes: Vec<_> = steps.into_iter().map(Change::Retried).collect();
            let state = after(state, &changes);
            let next = Next::Requeue(startable(definition, &state));
            Move { changes, next }
        }
        Event::Skipped { step } => {
            let change = Change::Skipped(step);
            let state = after(state, std::slice::from_ref(&change));
            let next = if state.done.len() == definition.workflow().steps.len() {
                Next::Finish(Outcome::Succeeded)
            } else if !state.failed.is_empty() && !goes_on(definition, &state) {
                Next::Finish(Outcome::Failed)
            } else {
                Next::Requeue(startable(definition, &state))
            };
            Move { changes: vec![change], next }
        }
    }
}

/// A step is done: whoever needed only it may begin.
fn satisfied(definition: &Definition, state: &State, change: Change, step: &StepId) -> Move<Change, StepId> {
    let is_done = |id: &StepId| id == step || state.done.contains(id);
    let next = if state.done.len() + 1 == definition.workflow().steps.len() {
        Next::Finish(Outcome::Succeeded)
    } else {
        let ready = definition.dependents(step).filter(|dependent| dependent.needs.iter().all(is_done));
        // One that was skipped while it waited stays behind us.
        let ready = ready.filter(|dependent| is_open(state, &dependent.id));
        let ready: Vec<_> = ready.map(|dependent| dependent.id.clone()).collect();
        if ready.is_empty()
            && !state.failed.is_empty()
            && !goes_on(definition, &after(state, std::slice::from_ref(&change)))
        {
            Next::Finish(Outcome::Failed)
        } else {
            Next::Queue(ready)
        }
    };
    Move { changes: vec![change], next }
}

/// The limit counts executions: the failure that would make the gate's own count reach it is the last.
fn gate_failed(definition: &Definition, state: &State, gate: StepId) -> Move<Change, StepId> {
    if state.iteration(&gate) + 1 >= definition.max_iterations().get() {
        return failed(definition, state, gate);
    }
    Move { changes: vec![Change::GateFailed(gate)], next: Next::Queue(Vec::new()) }
}

fn failed(definition: &Definition, state: &State, step: StepId) -> Move<Change, StepId> {
    let changes = vec![Change::Failed(step)];
    let next = match definition.on_failure() {
        OnFailure::Stop => Next::Finish(Outcome::Failed),
        OnFailure::Drain => Next::Drain(Outcome::Failed),
        OnFailure::Continue if goes_on(definition, &after(state, &changes)) => Next::Queue(Vec::new()),
        OnFailure::Continue => Next::Finish(Outcome::Failed),
    };
    Move { changes, next }
}

/// The way back: it concerns the targets and everything downstream of them, and waits until nothing there is at work.
pub(super) fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, StepId>> {
    if state.looping.is_empty() {
        return None;
    }
    let mut gates: Vec<_> = state.looping.iter().cloned().collect();
    gates.sort_by_key(|gate| definition.position(gate));
    let wanted: BTreeSet<_> =
        gates.iter().filter_map(|gate| definition.step(gate).loop_back_to.clone()).collect();
    let steps = definition.downstream(wanted.iter().cloned());
    let quiet: BTreeSet<_> = steps.iter().cloned().collect();
    // Of nested targets the most upstream one wins.
    let is_nested = |target: &StepId| {
        let others = wanted.iter().filter(|other| *other != target);
        definition.downstream(others.cloned()).contains(target)
    };
    let targets: Vec<_> =
        definition.step_ids().filter(|step| wanted.contains(*step) && !is_nested(step)).cloned().collect();
    let changes = vec![Change::Reset { gates, targets: targets.clone(), steps }];
    let open = after(state, &changes);
    // A target whose own needs are not done, because it had been skipped, waits for them.
    let next = if !open.failed.is_empty() && !goes_on(definition, &open) {
        Next::Finish(Outcome::Failed)
    } else {
        let ready = startable(definition, &open).into_iter().filter(|step| targets.contains(step));
        Next::Requeue(ready.collect())
    };
    Some(Deferred { quiet, then: Move { changes, next } })
}

/// What is next in a state that was not reached by deciding.
pub(super) fn next(definition: &Definition, state: &State) -> Next<StepId> {
    if state.done.len() == definition.workflow().steps.len() {
        return Next::Finish(Outcome::Succeeded);
    }
    let goes_on = match definition.on_failure() {
        OnFailure::Stop | OnFailure::Drain => state.failed.is_empty(),
        OnFailure::Continue => state.failed.is_empty() || goes_on(definition, state),
    };
    if goes_on { Next::Requeue(startable(definition, state)) } else { Next::Finish(Outcome::Failed) }
}

pub(super) fn step_status(state: &State, step: &StepId) -> StepStatus {
    if state.skipped.contains(step) {
        StepStatus::Skipped
    } else if state.done.contains(step) || state.looping.contains(step) {
        StepStatus::Succeeded
    } else if state.failed.contains(step) {
        StepStatus::Failed
    } else {
        StepStatus::Unfinished
    }
}

fn after(state: &State, changes: &[Change]) -> State {
    let mut state = state.clone();
    changes.iter().for_each(|change| state.apply(change));
    state
}

fn is_open(state: &State, step: &StepId) -> bool {
    step_status(state, step) == StepStatus::Unfinished
}

/// Open steps that need nothing that is not done.
fn startable(definition: &Definition, state: &State) -> Vec<StepId> {
    let steps = definition.workflow().steps.iter().filter(|step| is_open(state, &step.id));
    steps
        .filter(|step| step.needs.iter().all(|need| state.done.contains(need)))
        .map(|step| step.id.clone())
        .collect()
}

/// Whether anything can still happen beside the failed steps and what waits for them.
fn goes_on(definition: &Definition, state: &State) -> bool {
    let mut dead = state.failed.clone();
    let mut reached: Vec<_> = dead.iter().cloned().collect();
    while let Some(step) = reached.pop() {
        // What is done is behind us: whoever needs it waits for nobody above it.
        for waits in definition.dependents(&step).filter(|dependent| !state.done.contains(&dependent.id)) {
            if dead.insert(waits.id.clone()) {
                reached.push(waits.id.clone());
            }
        }
    }
    !state.looping.is_empty()
        || definition.step_ids().any(|step| is_open(state, step) && !dead.contains(step))
}
