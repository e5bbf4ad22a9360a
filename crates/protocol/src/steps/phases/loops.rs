//! Data loops: which items of which steps can start, and what a loop-back inside an item resets.
//!
//! A step with a data loop has items, each a step of its own: `code.1`, `code.2`. Steps that are paired by `with` work on an
//! item one after the other, and on up to `parallel` items at once. The step whose list is read is the owner of the items
//! (`items_owner`). The members of the loop are the owner and the steps that are paired with it. Nothing here is used for
//! workflows without data loops.

use std::collections::BTreeSet;

use super::Phase;
use crate::StepId;
use crate::steps::decide::is_unfinished;
use crate::steps::definition::{Definition, OnFailure};
use crate::steps::state::{Change, State};
use crate::steps::workflow::StepSpec;

/// What a loop-back does to steps and items.
#[derive(Debug, Default)]
pub(in crate::steps) struct ResetSet {
    /// To be done again, in workflow order.
    pub(in crate::steps) steps: Vec<StepId>,
    /// Items to be removed, because their list is read again.
    pub(in crate::steps) items: Vec<StepId>,
    /// Steps of which only some items are done again.
    pub(in crate::steps) reopened: Vec<StepId>,
}

/// Returns the id of an item.
pub(in crate::steps) fn item_id(step: &StepId, number: u32) -> StepId {
    StepId::new(format!("{step}.{number}")).expect("BUG: the loader refuses ids that are too long")
}

/// Returns how many items a step with a data loop has; `None` while its list is unknown.
pub(in crate::steps) fn item_count(definition: &Definition, state: &State, step: &StepSpec) -> Option<u32> {
    let items_owner = definition.items_owner(step)?;
    let known = state.item_counts.get(&items_owner.id).copied();
    // A step that was skipped before its list was read has no items.
    known.or_else(|| state.done.contains(&items_owner.id).then_some(0))
}

/// Returns the ids of the items of a step.
pub(in crate::steps) fn items(
    definition: &Definition,
    state: &State,
    step: &StepSpec,
) -> impl Iterator<Item = StepId> {
    let last = item_count(definition, state, step).unwrap_or(0);
    (1..=last).map(|number| item_id(&step.id, number))
}

/// Returns what a step or an item needs.
pub(in crate::steps) fn needs(definition: &Definition, state: &State, id: &StepId) -> Vec<StepId> {
    let step = definition.step(id);
    let Some((_, number)) = definition.item_of(id) else {
        return match state.phase(definition, id) {
            Phase::WorkOnItems
                if definition
                    .items_owner(step)
                    .is_some_and(|items_owner| state.item_counts.contains_key(&items_owner.id)) =>
            {
                items(definition, state, step).collect()
            }
            Phase::When
            | Phase::Conditions
            | Phase::ReadItems
            | Phase::WorkOnItems
            | Phase::Work
            | Phase::Checks
            | Phase::Approval
            | Phase::Approved => step.needs.clone(),
        };
    };
    let in_item = |need: &StepId| are_paired(definition, step, definition.step(need));
    step.needs.iter().map(|need| if in_item(need) { item_id(need, number) } else { need.clone() }).collect()
}

/// Returns whether both steps belong to one data loop.
pub(in crate::steps) fn are_paired(definition: &Definition, one: &StepSpec, other: &StepSpec) -> bool {
    match (definition.items_owner(one), definition.items_owner(other)) {
        (Some(one), Some(other)) => one.id == other.id,
        (None, _) | (_, None) => false,
    }
}

/// Returns whether a need is met. A step that was skipped meets it for all its items.
fn is_met(definition: &Definition, state: &State, need: &StepId) -> bool {
    state.done.contains(need) || definition.item_of(need).is_some_and(|(step, _)| state.done.contains(step))
}

/// Returns the unfinished steps and items that can start.
pub(in crate::steps) fn startable(definition: &Definition, state: &State) -> Vec<StepId> {
    let mut ready = Vec::new();
    for step in &definition.workflow().steps {
        let has_own_items = state.item_counts.contains_key(&step.id);
        let can_start = |id: &StepId| {
            is_unfinished(state, id)
                && needs(definition, state, id).iter().all(|need| is_met(definition, state, need))
        };
        if has_own_items {
            let items = open_items(definition, state, step);
            let members: Vec<_> =
                definition.steps_sharing_items(step).filter(|step| !state.done.contains(&step.id)).collect();
            let ids = items.iter().flat_map(|number| members.iter().map(|step| item_id(&step.id, *number)));
            ready.extend(ids.filter(can_start));
        } else if state.phase(definition, &step.id) != Phase::WorkOnItems && can_start(&step.id) {
            ready.push(step.id.clone());
        }
    }
    ready
}

/// Returns the numbers of the items that are worked on: the first `parallel` ones that are open.
///
/// With [`OnFailure::Continue`], later items start in place of a failed one. A failed item that is retried comes last, so
/// that it does not take the place of an item in progress.
fn open_items(definition: &Definition, state: &State, items_owner: &StepSpec) -> Vec<u32> {
    let last = state.item_counts.get(&items_owner.id).copied().unwrap_or(0);
    let parallel = items_owner.data_loop.as_ref().map_or(1, |data_loop| data_loop.parallel.get());
    let mut open: Vec<_> =
        (1..=last).filter(|number| is_open(definition, state, items_owner, *number)).collect();
    match definition.on_failure() {
        OnFailure::Stop | OnFailure::Drain => {}
        OnFailure::Continue => open.sort_by_key(|number| {
            let ids = definition.steps_sharing_items(items_owner).map(|step| item_id(&step.id, *number));
            ids.filter_map(|id| state.retried_items.iter().position(|other| *other == id)).max()
        }),
    }
    open.truncate(parallel as usize);
    open
}

/// Returns whether an item has a step that is not done and does not depend on a failed one.
fn is_open(definition: &Definition, state: &State, items_owner: &StepSpec, number: u32) -> bool {
    let members = definition.steps_sharing_items(items_owner).filter(|step| !state.done.contains(&step.id));
    let (mut stuck, mut others): (Vec<_>, Vec<_>) = members
        .map(|step| item_id(&step.id, number))
        .filter(|id| !state.done.contains(id))
        .partition(|id| state.failed.contains(id));
    loop {
        let (newly_stuck, remaining): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|id| needs(definition, state, id).iter().any(|need| stuck.contains(need)));
        others = remaining;
        if newly_stuck.is_empty() {
            return !others.is_empty();
        }
        stuck.extend(newly_stuck);
    }
}

/// Returns the steps that are done because all their items are.
pub(in crate::steps) fn completed(definition: &Definition, state: &State) -> Vec<Change> {
    let steps = definition.workflow().steps.iter().filter(|step| step.data_loop.is_some());
    let steps = steps.filter(|step| is_unfinished(state, &step.id));
    let completed = steps.filter(|step| {
        item_count(definition, state, step).is_some()
            && state.phase(definition, &step.id) == Phase::WorkOnItems
            && items(definition, state, step).all(|item| state.done.contains(&item))
    });
    completed.map(|step| Change::Done(step.id.clone())).collect()
}

/// Returns whether steps or items remain that do not depend on a failed one.
pub(in crate::steps) fn can_continue(definition: &Definition, state: &State) -> bool {
    let steps = &definition.workflow().steps;
    let ids: Vec<_> = steps
        .iter()
        .flat_map(|step| {
            let own = items(definition, state, step);
            // Nothing waits for the items of a step that is done, or was skipped.
            let are_needed = step.data_loop.is_some() && !state.done.contains(&step.id);
            std::iter::once(step.id.clone()).chain(own.filter(move |_| are_needed))
        })
        .collect();
    let mut blocked = state.failed.clone();
    loop {
        let more: Vec<_> = ids
            .iter()
            .filter(|id| !blocked.contains(*id) && !state.done.contains(*id))
            .filter(|id| needs(definition, state, id).iter().any(|need| blocked.contains(need)))
            .cloned()
            .collect();
        if more.is_empty() {
            break;
        }
        blocked.extend(more);
    }
    let is_container = |id: &StepId| state.phase(definition, id) == Phase::WorkOnItems;
    !state.gates_looping_back.is_empty()
        || ids.iter().any(|id| is_unfinished(state, id) && !blocked.contains(id) && !is_container(id))
}

/// Returns the target of a gate. A gate of an item loops back to the same item, if the target is paired with it.
pub(in crate::steps) fn target(definition: &Definition, gate: &StepId) -> Option<StepId> {
    let step = definition.step(gate);
    let target = step.loop_back_to.clone()?;
    match definition.item_of(gate) {
        Some((_, number)) if are_paired(definition, step, definition.step(&target)) => {
            Some(item_id(&target, number))
        }
        Some(_) | None => Some(target),
    }
}

/// Returns what a loop-back to these targets resets.
pub(in crate::steps) fn reset_set(
    definition: &Definition,
    state: &State,
    targets: &BTreeSet<StepId>,
) -> ResetSet {
    let mut reached: BTreeSet<StepId> = BTreeSet::new();
    let mut reopened: BTreeSet<StepId> = BTreeSet::new();
    let mut to_visit: Vec<_> = targets.iter().cloned().collect();
    while let Some(id) = to_visit.pop() {
        if !reached.insert(id.clone()) {
            continue;
        }
        let step = definition.step(&id);
        let dependents = definition.dependents(&step.id);
        match definition.item_of(&id) {
            Some((_, number)) => {
                reopened.insert(step.id.clone());
                to_visit.extend(dependents.map(|dependent| {
                    if are_paired(definition, step, dependent) {
                        item_id(&dependent.id, number)
                    } else {
                        dependent.id.clone()
                    }
                }));
            }
            None => {
                to_visit.extend(dependents.map(|dependent| dependent.id.clone()));
                to_visit.extend(items(definition, state, step).filter(|_| step.data_loop.is_some()));
            }
        }
    }
    reopened.retain(|step| !reached.contains(step));
    let mut set = ResetSet::default();
    for step in &definition.workflow().steps {
        let is_reached = reached.contains(&step.id);
        set.steps.extend(is_reached.then(|| step.id.clone()));
        set.reopened.extend(reopened.contains(&step.id).then(|| step.id.clone()));
        if step.data_loop.is_some() {
            let own = items(definition, state, step).filter(|item| reached.contains(item));
            // The items are removed only if their list is read again.
            let is_read_again =
                definition.items_owner(step).is_some_and(|items_owner| reached.contains(&items_owner.id));
            if is_read_again { set.items.extend(own) } else { set.steps.extend(own) }
        }
    }
    set
}
