//! Which groups of a plan wait for which others: for dependencies, and for groups that change the same files.

use std::collections::BTreeMap;

use super::super::super::definition::GroupId;
use super::super::super::step::{PlannedCriterion, PlannedWork, ScheduledGroup};
use super::{Plan, PlanGroup};
use crate::file_patterns::may_match_same_file;

impl Plan {
    /// Returns what decisions need of the plan: which groups wait for which, and the criteria with a command. `first_phase` is
    /// the number of its first phase.
    pub(in crate::team) fn planned_work(&self, first_phase: u16) -> PlannedWork {
        let phase = |id: &GroupId| {
            let found = self.phases.iter().position(|phase| phase.contains(id)).unwrap_or(0);
            first_phase + u16::try_from(found).unwrap_or(u16::MAX)
        };
        let order = self.order();
        let position = |id: &GroupId| order.iter().position(|other| *other == id).unwrap_or(usize::MAX);
        let groups = self.groups.iter().map(|group| {
            // Only groups that are earlier in the order, so that the result has no cycle.
            let overlapping = self
                .groups
                .iter()
                .filter(|other| {
                    position(&other.id) < position(&group.id) && phase(&other.id) <= phase(&group.id)
                })
                .filter(|other| must_not_run_in_parallel(other, group));
            let after = group.depends_on.iter().cloned().chain(overlapping.map(|other| other.id.clone()));
            ScheduledGroup { id: group.id.clone(), phase: phase(&group.id), after: after.collect() }
        });
        let group_of = |task: &String| self.groups.iter().find(|group| group.tasks.contains(task));
        let criteria =
            self.criteria.iter().filter(|criterion| criterion.command.is_some()).map(|criterion| {
                PlannedCriterion {
                    groups: criterion
                        .tasks
                        .iter()
                        .filter_map(group_of)
                        .map(|group| group.id.clone())
                        .collect(),
                }
            });
        PlannedWork { groups: groups.collect(), criteria: criteria.collect() }
    }

    /// Returns for each group the groups that it waits for without depending on them, each with the files that both change.
    pub(in crate::team) fn shared_files(&self) -> BTreeMap<GroupId, BTreeMap<GroupId, Vec<String>>> {
        let find = |id: &GroupId| self.groups.iter().find(|group| group.id == *id);
        let mut shared_files: BTreeMap<GroupId, BTreeMap<GroupId, Vec<String>>> = BTreeMap::new();
        for planned in self.planned_work(0).groups {
            let Some(own) = find(&planned.id) else { continue };
            for other in planned.after.iter().filter(|other| !own.depends_on.contains(other)) {
                let common =
                    find(other).map(|other| common_files(&own.files_affected, &other.files_affected));
                shared_files
                    .entry(planned.id.clone())
                    .or_default()
                    .insert(other.clone(), common.unwrap_or_default());
            }
        }
        shared_files
    }

    /// Returns the groups by phase, each after those that it depends on.
    fn order(&self) -> Vec<&GroupId> {
        let mut order: Vec<&GroupId> = Vec::new();
        for phase in &self.phases {
            let mut left: Vec<_> = self.groups.iter().filter(|group| phase.contains(&group.id)).collect();
            while !left.is_empty() {
                let waits = |group: &&PlanGroup| {
                    left.iter().any(|other| other.id != group.id && group.depends_on.contains(&other.id))
                };
                let next = left.iter().position(|group| !waits(group)).unwrap_or(0);
                order.push(&left.remove(next).id);
            }
        }
        order
    }
}

/// Returns whether the groups must not work at the same time.
pub(in crate::team) fn must_not_run_in_parallel(one: &PlanGroup, other: &PlanGroup) -> bool {
    !one.can_parallel
        || !other.can_parallel
        || !common_files(&one.files_affected, &other.files_affected).is_empty()
}

/// Returns the files and patterns of the first list that may name a file of the second.
pub(in crate::team) fn common_files(one: &[String], other: &[String]) -> Vec<String> {
    one.iter().filter(|file| other.iter().any(|found| may_match_same_file(file, found))).cloned().collect()
}
