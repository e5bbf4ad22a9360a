//! The transition table of `steps`.
//!
//! A data loop (the key `loop` of a step) repeats the step for each item of a list. Each item is a step of its own, such
//! as `code.1`. The functions named `…_with_loops` are about data loops. A loop-back is something else: it
//! repeats steps after a failed gate.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::{Definition, OnFailure};
use super::phases::Phase;
use super::phases::loops::{self, ResetSet};
use super::state::{Change, State};
use super::step::Verdict;
use crate::StepId;
use crate::protocol_trait::{Deferred, Event, Move, Next, Outcome, RequestRefusal, StepStatus};

/// The requests that only a `steps` run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Do this step and everything after it again, whatever their status.
    StartAt(StepId),
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
            if let Some((step_without_items, items_owner)) = lost_items(definition, state, step) {
                let why = format!(
                    "the items of `{step_without_items}` are not known in an imported run; start at `{items_owner}`"
                );
                return refused("items_unknown", why);
            }
            Ok(Move { changes: vec![Change::RestartRequested(step.clone())], next: Next::Queue(Vec::new()) })
        }
    }
}

/// Returns a step that a restart at `from` would repeat without its items, and the step that reads these items. This
/// happens after an import, which does not know the items of a step that is done.
fn lost_items<'d>(definition: &'d Definition, state: &State, from: &StepId) -> Option<(StepId, &'d StepId)> {
    if !definition.has_data_loops() {
        return None;
    }
    let repeated = definition.downstream([from.clone()]);
    repeated.iter().find_map(|id| {
        let items_owner = &definition.items_owner(definition.step(id))?.id;
        let is_lost = state.done.contains(items_owner)
            && !state.skipped.contains(items_owner)
            && !state.item_counts.contains_key(items_owner)
            && !repeated.contains(items_owner);
        is_lost.then(|| (id.clone(), items_owner))
    })
}

/// Returns the pending restart. It waits until no attempt is alive in the steps that it resets.
fn restart(definition: &Definition, state: &State, from: &StepId) -> Deferred<Change, StepId> {
    let ResetSet { mut steps, items, .. } = if definition.has_data_loops() {
        loops::reset_set(definition, state, &BTreeSet::from([from.clone()]))
    } else {
        ResetSet { steps: definition.downstream([from.clone()]), ..ResetSet::default() }
    };
    // Failed steps outside of the reset set are reset, too: a run with failed steps would finish at once.
    let outside = |step: &&StepId| !steps.contains(step) && !items.contains(step);
    let failed: Vec<_> = state.failed.iter().filter(outside).cloned().collect();
    steps.extend(failed);
    steps.sort_by_key(|step| definition.index_in_file(step));
    let must_be_idle = steps.iter().chain(&items).cloned().collect();
    let changes = vec![Change::Restarted { from: from.clone(), steps, items }];
    let restarted = state_after(state, &changes);
    if definition.has_data_loops() {
        return Deferred { must_be_idle, transition: continue_with_loops(definition, changes, restarted) };
    }
    let next = Next::QueueUnlessInTurn(startable(definition, &restarted));
    Deferred { must_be_idle, transition: Move { changes, next } }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<StepId, Verdict>,
) -> Move<Change, StepId> {
    let mut decided = go_on_to_restart(state, decide_event(definition, state, event));
    match decided.next {
        // A run that ends makes no deferred transition, so approved steps are completed here.
        Next::Finish(_) | Next::Drain(_) => {
            decided.changes.extend(state.approved().cloned().map(Change::Done));
        }
        Next::Queue(_) | Next::QueueUnlessInTurn(_) => {}
    }
    decided
}

/// Keeps the run from ending before the restart that a person has asked for.
fn go_on_to_restart(state: &State, mut decided: Move<Change, StepId>) -> Move<Change, StepId> {
    match decided.next {
        Next::Finish(_) | Next::Drain(_) if state.restarting.is_some() => {
            decided.next = Next::Queue(Vec::new());
        }
        Next::Finish(_) | Next::Drain(_) | Next::Queue(_) | Next::QueueUnlessInTurn(_) => {}
    }
    decided
}

fn decide_event(
    definition: &Definition,
    state: &State,
    event: Event<StepId, Verdict>,
) -> Move<Change, StepId> {
    match event {
        Event::Opened => Move { changes: Vec::new(), next: Next::Queue(startable(definition, state)) },
        Event::Reported { step, verdict } => match verdict {
            Verdict::Done => phase_done(definition, state, step),
            Verdict::GateFailed => gate_failed(definition, state, step),
            Verdict::Rejected => failed(definition, state, step),
            Verdict::ChecksFailed => checks_failed(definition, state, step),
            Verdict::Skip => apply_and_continue(definition, state, Change::Skipped(step)),
            Verdict::Items(count) => apply_and_continue(definition, state, Change::Items { step, count }),
        },
        Event::Exhausted { step } => failed(definition, state, step),
        Event::Retried { steps } => {
            let changes: Vec<_> = steps.into_iter().map(Change::Retried).collect();
            let state = state_after(state, &changes);
            let next = Next::QueueUnlessInTurn(startable(definition, &state));
            Move { changes, next }
        }
        Event::Skipped { step } => {
            if definition.has_data_loops() {
                return skipped_with_loops(definition, state, step);
            }
            let change = Change::Skipped(step);
            let state = state_after(state, std::slice::from_ref(&change));
            let next = if all_done(definition, &state) {
                Next::Finish(Outcome::Succeeded)
            } else if !state.failed.is_empty() && !can_continue(definition, &state) {
                Next::Finish(Outcome::Failed)
            } else {
                Next::QueueUnlessInTurn(startable(definition, &state))
            };
            Move { changes: vec![change], next }
        }
    }
}

/// Skips a step or an item. Items of a skipped step that have failed or whose loop-back is pending are skipped, too.
fn skipped_with_loops(definition: &Definition, state: &State, step: StepId) -> Move<Change, StepId> {
    let ended = state.failed.iter().chain(&state.gates_looping_back);
    let items = ended.filter(|item| definition.item_of(item).is_some_and(|(of, _)| *of == step));
    let mut changes: Vec<_> = items.cloned().map(Change::Skipped).collect();
    changes.push(Change::Skipped(step));
    let state = state_after(state, &changes);
    continue_with_loops(definition, changes, state)
}

/// Begins the next phase of a step, or completes it.
fn phase_done(definition: &Definition, state: &State, step: StepId) -> Move<Change, StepId> {
    let Some(phase) = definition.phase_after(&step, state.phase(definition, &step)) else {
        return apply_and_continue(definition, state, Change::Done(step));
    };
    let queued = match phase {
        // A transition of its own follows, so that the document shows that the answer has arrived.
        Phase::Approved => Vec::new(),
        Phase::When
        | Phase::Conditions
        | Phase::ReadItems
        | Phase::WorkOnItems
        | Phase::Work
        | Phase::Checks
        | Phase::Approval => {
            vec![step.clone()]
        }
    };
    Move { changes: vec![Change::Entered { step, phase }], next: Next::Queue(queued) }
}

/// Completes or skips a step or an item, or begins the items of a step, and queues what can start then.
fn apply_and_continue(definition: &Definition, state: &State, change: Change) -> Move<Change, StepId> {
    match &change {
        Change::Done(step) if !definition.has_data_loops() => {
            let step = step.clone();
            step_done(definition, state, change, &step)
        }
        Change::Done(_)
        | Change::Items { .. }
        | Change::Entered { .. }
        | Change::Failed(_)
        | Change::ChecksFailed(_)
        | Change::GateFailed(_)
        | Change::Reset { .. }
        | Change::Retried(_)
        | Change::Skipped(_)
        | Change::RestartRequested(_)
        | Change::Restarted { .. } => {
            let changes = vec![change];
            let state = state_after(state, &changes);
            continue_with_loops(definition, changes, state)
        }
    }
}

/// Completes the steps whose items are all done, and queues what can start in this state.
fn continue_with_loops(
    definition: &Definition,
    mut changes: Vec<Change>,
    mut state: State,
) -> Move<Change, StepId> {
    loop {
        let completed = loops::completed(definition, &state);
        if completed.is_empty() {
            break;
        }
        completed.iter().for_each(|change| state.apply(change));
        changes.extend(completed);
    }
    let next = if all_done(definition, &state) {
        Next::Finish(Outcome::Succeeded)
    } else if !state.failed.is_empty() && !can_continue(definition, &state) {
        Next::Finish(Outcome::Failed)
    } else {
        Next::QueueUnlessInTurn(startable(definition, &state))
    };
    Move { changes, next }
}

fn all_done(definition: &Definition, state: &State) -> bool {
    if definition.has_data_loops() {
        return definition.step_ids().all(|step| state.done.contains(step));
    }
    state.done.len() == definition.workflow().steps.len()
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
            && !can_continue(definition, &state_after(state, std::slice::from_ref(&change)))
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
    if state.loop_backs(&gate) + 1 >= definition.max_iterations().get() {
        return failed(definition, state, gate);
    }
    Move { changes: vec![Change::GateFailed(gate)], next: Next::Queue(Vec::new()) }
}

/// Starts the agent again after failed checks, or fails the step if its attempts are used up.
fn checks_failed(definition: &Definition, state: &State, step: StepId) -> Move<Change, StepId> {
    if state.failed_check_turns(&step) + 1 >= definition.max_attempts(&step).get() {
        return failed(definition, state, step);
    }
    Move { changes: vec![Change::ChecksFailed(step.clone())], next: Next::Queue(vec![step]) }
}

fn failed(definition: &Definition, state: &State, step: StepId) -> Move<Change, StepId> {
    let changes = vec![Change::Failed(step)];
    let next = match definition.on_failure() {
        OnFailure::Stop => Next::Finish(Outcome::Failed),
        OnFailure::Drain => Next::Drain(Outcome::Failed),
        OnFailure::Continue if can_continue(definition, &state_after(state, &changes)) => {
            // The items after a failed one can start.
            let ready =
                definition.has_data_loops().then(|| startable(definition, &state_after(state, &changes)));
            Next::QueueUnlessInTurn(ready.unwrap_or_default())
        }
        OnFailure::Continue => Next::Finish(Outcome::Failed),
    };
    Move { changes, next }
}

/// Returns the end of an approved step, else the pending restart or loop-back.
pub(super) fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, StepId>> {
    if let Some(step) = state.approved().next() {
        let transition = apply_and_continue(definition, state, Change::Done(step.clone()));
        let transition = go_on_to_restart(state, transition);
        return Some(Deferred { must_be_idle: BTreeSet::new(), transition });
    }
    match &state.restarting {
        Some(from) => Some(restart(definition, state, from)),
        None => loop_back(definition, state),
    }
}

/// Returns the pending loop-back. It resets the targets and everything downstream of them, and waits until no attempt is
/// alive there.
fn loop_back(definition: &Definition, state: &State) -> Option<Deferred<Change, StepId>> {
    if state.gates_looping_back.is_empty() {
        return None;
    }
    let mut gates: Vec<_> = state.gates_looping_back.iter().cloned().collect();
    gates.sort_by_key(|gate| definition.index_in_file(gate));
    if definition.has_data_loops() {
        return Some(loop_back_with_loops(definition, state, gates));
    }
    let all_targets: BTreeSet<_> =
        gates.iter().filter_map(|gate| definition.step(gate).loop_back_to.clone()).collect();
    let steps = definition.downstream(all_targets.iter().cloned());
    let must_be_idle: BTreeSet<_> = steps.iter().cloned().collect();
    // Of two targets on one path only the most upstream one is used.
    let is_nested = |target: &StepId| {
        let others = all_targets.iter().filter(|other| *other != target);
        definition.downstream(others.cloned()).contains(target)
    };
    let targets: Vec<_> = definition
        .step_ids()
        .filter(|step| all_targets.contains(*step) && !is_nested(step))
        .cloned()
        .collect();
    let (items, reopened) = (Vec::new(), Vec::new());
    let changes = vec![Change::Reset { gates, targets: targets.clone(), steps, items, reopened }];
    let reset = state_after(state, &changes);
    // A target that had been skipped may have needs that are not done. It waits for them.
    let next = if !reset.failed.is_empty() && !can_continue(definition, &reset) {
        Next::Finish(Outcome::Failed)
    } else {
        let ready = startable(definition, &reset).into_iter().filter(|step| targets.contains(step));
        Next::QueueUnlessInTurn(ready.collect())
    };
    Some(Deferred { must_be_idle, transition: Move { changes, next } })
}

/// Returns the loop-back of these gates in a workflow with data loops. Inside an item it resets that item only.
fn loop_back_with_loops(
    definition: &Definition,
    state: &State,
    gates: Vec<StepId>,
) -> Deferred<Change, StepId> {
    let all: BTreeSet<_> = gates.iter().filter_map(|gate| loops::target(definition, gate)).collect();
    let ResetSet { steps, items, reopened } = loops::reset_set(definition, state, &all);
    let must_be_idle = steps.iter().chain(&items).cloned().collect();
    let is_nested = |target: &StepId| {
        let others: BTreeSet<_> = all.iter().filter(|other| *other != target).cloned().collect();
        let set = loops::reset_set(definition, state, &others);
        set.steps.contains(target) || set.items.contains(target)
    };
    let targets = all.iter().filter(|target| !is_nested(target)).cloned().collect();
    let changes = vec![Change::Reset { gates, targets, steps, items, reopened }];
    let reset = state_after(state, &changes);
    Deferred { must_be_idle, transition: continue_with_loops(definition, changes, reset) }
}

/// Returns what an imported run does next.
pub(super) fn next_after_import(definition: &Definition, state: &State) -> Next<StepId> {
    if all_done(definition, state) {
        return Next::Finish(Outcome::Succeeded);
    }
    let continues = match definition.on_failure() {
        OnFailure::Stop | OnFailure::Drain => state.failed.is_empty(),
        OnFailure::Continue => state.failed.is_empty() || can_continue(definition, state),
    };
    if continues {
        Next::QueueUnlessInTurn(startable(definition, state))
    } else {
        Next::Finish(Outcome::Failed)
    }
}

pub(super) fn step_status(state: &State, step: &StepId) -> StepStatus {
    if state.skipped.contains(step) {
        StepStatus::Skipped
    } else if state.done.contains(step)
        || state.gates_looping_back.contains(step)
        || state.phases.get(step) == Some(&Phase::Approved)
    {
        StepStatus::Succeeded
    } else if state.failed.contains(step) {
        StepStatus::Failed
    } else {
        StepStatus::Unfinished
    }
}

/// Returns the state after some changes.
fn state_after(state: &State, changes: &[Change]) -> State {
    let mut state = state.clone();
    changes.iter().for_each(|change| state.apply(change));
    state
}

pub(super) fn is_unfinished(state: &State, step: &StepId) -> bool {
    step_status(state, step) == StepStatus::Unfinished
}

/// Returns the unfinished steps whose needs are all done.
fn startable(definition: &Definition, state: &State) -> Vec<StepId> {
    if definition.has_data_loops() {
        return loops::startable(definition, state);
    }
    let steps = definition.workflow().steps.iter().filter(|step| is_unfinished(state, &step.id));
    steps
        .filter(|step| step.needs.iter().all(|need| state.done.contains(need)))
        .map(|step| step.id.clone())
        .collect()
}

/// Returns whether a loop-back is pending or steps remain that do not depend on a failed one.
fn can_continue(definition: &Definition, state: &State) -> bool {
    if definition.has_data_loops() {
        return loops::can_continue(definition, state);
    }
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
    !state.gates_looping_back.is_empty()
        || definition.step_ids().any(|step| is_unfinished(state, step) && !blocked.contains(step))
}
