//! The phases of a plan, as stated or derived from the dependencies of its groups.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::super::super::definition::GroupId;
use super::{PlanContext, PlanGroup};

/// A phase as a plan states it.
#[derive(Deserialize)]
pub(super) struct PhaseInput {
    #[serde(default)]
    phase_number: u16,
    group_ids: Vec<GroupId>,
}

/// Returns the phases in the order of their numbers. Derives them from the dependencies if the plan states none.
pub(super) fn ordered_phases(
    mut stated: Vec<PhaseInput>,
    groups: &[PlanGroup],
    context: &PlanContext,
    problems: &mut Vec<String>,
) -> Vec<Vec<GroupId>> {
    if stated.is_empty() {
        return if problems.is_empty() { derived_phases(groups, context.max_parallel) } else { Vec::new() };
    }
    stated.sort_by_key(|phase| phase.phase_number);
    let phases: Vec<Vec<GroupId>> = stated.into_iter().map(|phase| phase.group_ids).collect();
    let mut phase_of: BTreeMap<&GroupId, usize> = BTreeMap::new();
    for (number, ids) in phases.iter().enumerate() {
        if ids.len() > usize::from(context.max_parallel) {
            problems.push(format!(
                "phase {} has {} groups; at most {} work at once",
                number + 1,
                ids.len(),
                context.max_parallel
            ));
        }
        for id in ids {
            if groups.iter().all(|group| group.id != *id) {
                problems.push(format!("phase {} has the group `{id}`, which does not exist", number + 1));
            }
            if phase_of.insert(id, number).is_some() {
                problems.push(format!("group `{id}` is in two phases"));
            }
        }
    }
    for group in groups {
        let Some(own) = phase_of.get(&group.id) else {
            problems.push(format!("group `{}` is in no phase", group.id));
            continue;
        };
        for needed in &group.depends_on {
            if phase_of.get(needed).is_some_and(|phase| phase > own) {
                problems
                    .push(format!("group `{}` depends on `{needed}`, which is in a later phase", group.id));
            }
        }
    }
    phases
}

/// Returns phases in which every group comes as early as its dependencies and `max_parallel` allow. Panics if the
/// groups have a cycle.
pub(in crate::team) fn derived_phases(groups: &[PlanGroup], max_parallel: u8) -> Vec<Vec<GroupId>> {
    let mut phases: Vec<Vec<GroupId>> = Vec::new();
    let mut placed: BTreeSet<&GroupId> = BTreeSet::new();
    let in_plan: BTreeSet<&GroupId> = groups.iter().map(|group| &group.id).collect();
    while placed.len() < groups.len() {
        // Dependencies on groups of earlier plans do not order these phases.
        let ready: Vec<_> = groups
            .iter()
            .filter(|group| !placed.contains(&group.id))
            .filter(|group| {
                group.depends_on.iter().all(|need| placed.contains(need) || !in_plan.contains(need))
            })
            .map(|group| &group.id)
            .take(usize::from(max_parallel))
            .collect();
        assert!(!ready.is_empty(), "BUG: a plan with a cycle was refused");
        placed.extend(&ready);
        phases.push(ready.into_iter().cloned().collect());
    }
    phases
}
