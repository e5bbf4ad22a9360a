//! The transition table of `steps`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::definition::{Definition, OnFailure};
use super::step::Verdict;
use crate::StepId;
use crate::rules::{Deferred, Event, Move, Next, Outcome, RequestRefusal, StepStatus};

/// Which steps are done, failed or to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct State {
    /// Completed or skipped steps, on which others may depend.
    pub done: BTreeSet<StepId>,
    /// Those of `done` that were skipped.
    pub skipped: BTreeSet<StepId>,
    pub failed: BTreeSet<StepId>,
    /// Failed gates whose loop-back is pending.
    pub looping: BTreeSet<StepId>,
    /// How many loop-backs have reset each step. Steps without any are left out.
    pub iterations: BTreeMap<StepId, u32>,
    /// The step at which the run is to start again, until no attempt is alive there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarting: Option<StepId>,
}

/// What only a `steps` run can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Do this step and everything after it again, whatever their status.
    StartAt(StepId),
}

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Done(StepId),
    Failed(StepId),
    /// The step completed, and its report says that the gate failed.
    GateFailed(StepId),
    /// The loop-back of these gates to these targets. All of `steps` are to be done again.
    Reset {
        gates: Vec<StepId>,
        targets: Vec<StepId>,
        steps: Vec<StepId>,
    },
    Retried(StepId),
    Skipped(StepId),
    /// A user wants the run to start again at this step.
    RestartRequested(StepId),
    /// These steps are as in a new run: the one named, everything after it, and what had failed elsewhere.
    Restarted {
        from: StepId,
        steps: Vec<StepId>,
    },
}

impl Change {
    /// Returns every step that the change names.
    pub(super) fn steps(&self) -> impl Iterator<Item = &StepId> {
        let (one, many): (Option<&StepId>, [&[StepId]; 3]) = match self {
            Self::Done(step)
            | Self::Failed(step)
            | Self::GateFailed(step)
            | Self::Retried(step)
            | Self::Skipped(step)
            | Self::RestartRequested(step) => (Some(step), [&[]; 3]),
            Self::Restarted { from, steps } => (Some(from), [steps, &[], &[]]),
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
            Change::RestartRequested(step) => self.restarting = Some(step.clone()),
            Change::Restarted { steps, .. } => {
                self.restarting = None;
                for step in steps {
                    for set in [&mut self.done, &mut self.skipped, &mut self.failed, &mut self.looping] {
                        set.remove(step);
                    }
                    self.iterations.remove(step);
                }
            }
        }
    }
}

/// Decides about the request to start again at a step.
pub(super) fn consider(
    definition: &Definition,
    state: &State,
    Request::StartAt(step): &Request,
) -> Result<Move<Change, StepId>, RequestRefusal> {
    let refused = |code, message| Err(RequestRefusal { code, message });
    if !definition.has_step(step) {
        return refused("no_such_step", format!("the workflow has no step `{step}`"));
    }
    let upstream = definition.step(step).needs.iter().find(|need| !state.done.contains(*need));
    match upstream {
        Some(need) => refused(
            "needs_unfinished",
            format!("`{step}` needs `{need}`, which has not succeeded; start at `{need}`"),
        ),
        None => {
            Ok(Move { changes: vec![Change::RestartRequested(step.clone())], next: Next::Queue(Vec::new()) })
        }
    }
}

/// Returns the pending restart. It waits until no attempt is alive in the steps that it resets.
fn restart(definition: &Definition, state: &State, from: &StepId) -> Deferred<Change, StepId> {
    let mut all: BTreeSet<_> = definition.downstream([from.clone()]).into_iter().collect();
    // A run with failed steps would end at once.
    all.extend(state.failed.iter().cloned());
    let steps: Vec<_> = definition.step_ids().filter(|step| all.contains(*step)).cloned().collect();
    let changes = vec![Change::Restarted { from: from.clone(), steps }];
    let next = Next::Requeue(startable(definition, &after(state, &changes)));
    Deferred { quiet: all, then: Move { changes, next } }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<StepId, Verdict>,
) -> Move<Change, StepId> {
    match event {
        Event::Opened => Move { changes: Vec::new(), next: Next::Queue(startable(definition, state)) },
        Event::Reported { step, verdict } => match verdict {
            Verdict::Done => step_done(definition, state, Change::Done(step.clone()), &step),
            Verdict::GateFailed => gate_failed(definition, state, step),
            Verdict::Rejected => failed(definition, state, step),
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
            } else if !state.failed.is_empty() && !can_continue(definition, &state) {
                Next::Finish(Outcome::Failed)
            } else {
                Next::Requeue(startable(definition, &state))
            };
            Move { changes: vec![change], next }
        }
    }
}

/// Completes a step and queues the steps whose last need it was.
fn step_done(definition: &Definition, state: &State, change: Change, step: &StepId) -> Move<Change, StepId> {
    let is_done = |id: &StepId| id == step || state.done.contains(id);
    let next = if state.done.len() + 1 == definition.workflow().steps.len() {
        Next::Finish(Outcome::Succeeded)
    } else {
        let ready = definition.dependents(step).filter(|dependent| dependent.needs.iter().all(is_done));
        // A step that was skipped while it waited stays skipped.
        let ready = ready.filter(|dependent| is_unfinished(state, &dependent.id));
        let ready: Vec<_> = ready.map(|dependent| dependent.id.clone()).collect();
        if ready.is_empty()
            && !state.failed.is_empty()
            && !can_continue(definition, &after(state, std::slice::from_ref(&change)))
        {
            Next::Finish(Outcome::Failed)
        } else {
            Next::Queue(ready)
        }
    };
    Move { changes: vec![change], next }
}

/// Requests a loop-back, or fails the gate if its iterations are used up. The limit counts executions of the gate.
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
        OnFailure::Continue if can_continue(definition, &after(state, &changes)) => Next::Queue(Vec::new()),
        OnFailure::Continue => Next::Finish(Outcome::Failed),
    };
    Move { changes, next }
}

/// Returns the pending restart or loop-back. A loop-back resets the targets and everything downstream of them, and waits until no attempt is
/// alive there.
pub(super) fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, StepId>> {
    if let Some(from) = &state.restarting {
        return Some(restart(definition, state, from));
    }
    if state.looping.is_empty() {
        return None;
    }
    let mut gates: Vec<_> = state.looping.iter().cloned().collect();
    gates.sort_by_key(|gate| definition.position(gate));
    let all_targets: BTreeSet<_> =
        gates.iter().filter_map(|gate| definition.step(gate).loop_back_to.clone()).collect();
    let steps = definition.downstream(all_targets.iter().cloned());
    let quiet: BTreeSet<_> = steps.iter().cloned().collect();
    // Of nested targets the most upstream one wins.
    let is_nested = |target: &StepId| {
        let others = all_targets.iter().filter(|other| *other != target);
        definition.downstream(others.cloned()).contains(target)
    };
    let targets: Vec<_> = definition
        .step_ids()
        .filter(|step| all_targets.contains(*step) && !is_nested(step))
        .cloned()
        .collect();
    let changes = vec![Change::Reset { gates, targets: targets.clone(), steps }];
    let reset = after(state, &changes);
    // A target that had been skipped may have needs that are not done. It waits for them.
    let next = if !reset.failed.is_empty() && !can_continue(definition, &reset) {
        Next::Finish(Outcome::Failed)
    } else {
        let ready = startable(definition, &reset).into_iter().filter(|step| targets.contains(step));
        Next::Requeue(ready.collect())
    };
    Some(Deferred { quiet, then: Move { changes, next } })
}

/// Returns what is next in an imported state.
pub(super) fn next(definition: &Definition, state: &State) -> Next<StepId> {
    if state.done.len() == definition.workflow().steps.len() {
        return Next::Finish(Outcome::Succeeded);
    }
    let continues = match definition.on_failure() {
        OnFailure::Stop | OnFailure::Drain => state.failed.is_empty(),
        OnFailure::Continue => state.failed.is_empty() || can_continue(definition, state),
    };
    if continues { Next::Requeue(startable(definition, state)) } else { Next::Finish(Outcome::Failed) }
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

/// Returns the state after some changes.
fn after(state: &State, changes: &[Change]) -> State {
    let mut state = state.clone();
    changes.iter().for_each(|change| state.apply(change));
    state
}

fn is_unfinished(state: &State, step: &StepId) -> bool {
    step_status(state, step) == StepStatus::Unfinished
}

/// Returns the unfinished steps whose needs are all done.
fn startable(definition: &Definition, state: &State) -> Vec<StepId> {
    let steps = definition.workflow().steps.iter().filter(|step| is_unfinished(state, &step.id));
    steps
        .filter(|step| step.needs.iter().all(|need| state.done.contains(need)))
        .map(|step| step.id.clone())
        .collect()
}

/// Returns whether steps remain that do not depend on a failed one.
fn can_continue(definition: &Definition, state: &State) -> bool {
    let mut blocked = state.failed.clone();
    let mut to_visit: Vec<_> = blocked.iter().cloned().collect();
    while let Some(step) = to_visit.pop() {
        // A step that is done does not pass the failure on to its dependents.
        for dependent in definition.dependents(&step).filter(|dependent| !state.done.contains(&dependent.id))
        {
            if blocked.insert(dependent.id.clone()) {
                to_visit.push(dependent.id.clone());
            }
        }
    }
    !state.looping.is_empty()
        || definition.step_ids().any(|step| is_unfinished(state, step) && !blocked.contains(step))
}
