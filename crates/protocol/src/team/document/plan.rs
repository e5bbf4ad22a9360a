//! `pm_state.json`: the plan, with everything that follows from the groups.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::report::plan::{PlanGroup, common_files, must_not_run_in_parallel};
use super::super::state::Stage;
use super::{Document, GroupPart};
use crate::team::definition::GroupId;

/// The status of a group in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::team) enum PlanStatus {
    Pending,
    /// It may start, and waits for a slot.
    Assigned,
    InProgress,
    Complete,
}

impl PlanStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
        }
    }

    /// Returns the status of a task in this group. Tasks have no `assigned`.
    fn as_task_str(self) -> &'static str {
        match self {
            Self::Pending | Self::Assigned => "pending",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
        }
    }
}

impl Document {
    pub(in crate::team) fn plan_status(&self, id: &GroupId) -> PlanStatus {
        if let Some(new) = self.plan.replaced.get(id) {
            // The status follows from the groups that replace it.
            let all: Vec<_> = new.iter().map(|id| self.plan_status(id)).collect();
            let is_idle = all.iter().all(|status| *status <= PlanStatus::Assigned);
            return match all.iter().all(|status| *status == PlanStatus::Complete) {
                true => PlanStatus::Complete,
                false if is_idle => PlanStatus::Pending,
                false => PlanStatus::InProgress,
            };
        }
        match self.groups.get(id) {
            None => PlanStatus::Pending,
            Some(group) if group.stage == Stage::Complete => PlanStatus::Complete,
            Some(group) if group.has_begun() => PlanStatus::InProgress,
            Some(group) if !group.progress.is_closed() && self.wait_reasons(id).is_empty() => {
                PlanStatus::Assigned
            }
            Some(_) => PlanStatus::Pending,
        }
    }

    /// Returns why a group cannot start, a text for each group or phase that it waits for.
    pub(in crate::team) fn wait_reasons(&self, id: &GroupId) -> Vec<String> {
        let is_open = |id: &GroupId| self.groups.get(id).is_none_or(|group| !group.is_done());
        let mut why: Vec<String> = Vec::new();
        if let Some(planned) = self.planned(id) {
            let needed = planned.depends_on.iter().flat_map(|needed| self.replacements(needed));
            why.extend(
                needed
                    .filter(|needed| is_open(needed))
                    .map(|needed| format!("waits for {needed}: depends on it")),
            );
        }
        for (other, files) in self.plan.shared_files.get(id).into_iter().flatten() {
            for other in self.replacements(other).into_iter().filter(|other| is_open(other)) {
                why.push(match files.as_slice() {
                    [] => format!("waits for {other}: they do not work at the same time"),
                    files => format!("waits for {other}: both change {}", files.join(", ")),
                });
            }
        }
        let phase = self.plan.phases.iter().position(|phase| phase.contains(id));
        let open = self.plan.phases.iter().position(|phase| phase.iter().any(is_open));
        if let (Some(phase), Some(open)) = (phase, open)
            && phase > open
        {
            why.push(format!("waits for the end of phase {}", open + 1));
        }
        why
    }

    /// Returns the open groups of its phase that must not work at the same time as `new`, which replaces `old`, with the files
    /// that both change. Groups that wait for `old` are left out: they wait for `new`, too.
    pub(in crate::team) fn shared_files_of_new(
        &self,
        old: &GroupId,
        new: &PlanGroup,
    ) -> BTreeMap<GroupId, Vec<String>> {
        let phase = self.plan.phases.iter().find(|phase| phase.contains(old));
        let others = self.plan.groups.iter().filter(|other| {
            other.id != *old
                && phase.is_none_or(|phase| phase.contains(&other.id))
                && self.groups.get(&other.id).is_some_and(|group| !group.is_done())
                && must_not_run_in_parallel(other, new)
                && !self.comes_after(&other.id, old)
        });
        others
            .map(|other| (other.id.clone(), common_files(&new.files_affected, &other.files_affected)))
            .collect()
    }

    /// Returns the groups that wait for a group: they depend on it, directly or through others, or are in a later phase.
    pub(in crate::team) fn dependents(&self, id: &GroupId) -> BTreeSet<GroupId> {
        let phase_of = |id: &GroupId| self.plan.phases.iter().position(|phase| phase.contains(id));
        let groups = self.plan.groups.iter().map(|group| &group.id);
        groups
            .filter(|other| phase_of(other) > phase_of(id) || self.comes_after(other, id))
            .cloned()
            .collect()
    }

    /// Returns whether a group waits for another one, directly or through others.
    fn comes_after(&self, id: &GroupId, other: &GroupId) -> bool {
        let direct = |id: &GroupId| -> Vec<GroupId> {
            let depends_on = self.planned(id).into_iter().flat_map(|group| &group.depends_on);
            let shared_files = self.plan.shared_files.get(id).into_iter().flat_map(BTreeMap::keys);
            let named: Vec<_> = depends_on.chain(shared_files).cloned().collect();
            named.iter().flat_map(|id| self.replacements(id)).collect()
        };
        let (mut open, mut seen) = (direct(id), BTreeSet::new());
        while let Some(next) = open.pop() {
            if next == *other {
                return true;
            }
            if seen.insert(next.clone()) {
                open.extend(direct(&next));
            }
        }
        false
    }

    /// Returns the groups that replace a group; the group itself if it is not replaced.
    fn replacements(&self, id: &GroupId) -> Vec<GroupId> {
        match self.plan.replaced.get(id) {
            None => vec![id.clone()],
            Some(new) => new.iter().flat_map(|id| self.replacements(id)).collect(),
        }
    }

    /// Returns the status of each planned group. If one changes, `iteration` of `pm_state.json` grows.
    pub(in crate::team) fn plan_statuses(&self) -> Vec<PlanStatus> {
        self.plan.groups.iter().map(|group| self.plan_status(&group.id)).collect()
    }

    pub(super) fn pm_state(&self) -> Value {
        let status = |id: &GroupId| self.plan_status(id);
        let owner = |task: &str| {
            let mut owners =
                self.plan.groups.iter().filter(|group| group.tasks.iter().any(|own| own == task));
            // The last one: a group that was split comes before those that replace it.
            owners.next_back()
        };
        let tasks: Vec<Value> = self
            .plan
            .tasks
            .iter()
            .map(|task| {
                let owner = owner(&task.id);
                json!({
                    "id": task.id, "description": task.description,
                    "group_id": owner.map_or("", |group| group.id.as_str()),
                    "status": owner.map_or("pending", |group| status(&group.id).as_task_str()),
                })
            })
            .collect();
        let groups: Vec<Value> =
            self.plan.groups.iter().map(|group| self.planned_group(group, status(&group.id))).collect();
        let phases: Vec<Value> =
            self.plan.phases.iter().enumerate().map(|(index, ids)| self.phase(index, ids)).collect();
        let ids_with = |statuses: &[PlanStatus]| -> Vec<&GroupId> {
            let ids = self.plan.groups.iter().map(|group| &group.id);
            // A replaced group is not listed; the groups that replace it are.
            let ids = ids.filter(|id| !self.plan.replaced.contains_key(*id));
            ids.filter(|id| statuses.contains(&status(id))).collect()
        };
        let mut state = json!({
            "session_id": self.run.session_id,
            "mode": self.plan.mode,
            "mode_reasoning": self.plan.mode_reasoning,
            "original_requirements": self.run.request,
            "all_tasks": tasks,
            "task_groups": groups,
            "execution_phases": phases,
            "completed_groups": ids_with(&[PlanStatus::Complete]),
            "in_progress_groups": ids_with(&[PlanStatus::InProgress]),
            "pending_groups": ids_with(&[PlanStatus::Pending, PlanStatus::Assigned]),
            "iteration": self.run.pm_iteration,
            "last_update": self.run.pm_last_update,
            "completion_percentage": self.percentage(),
            "success_criteria": self.plan.criteria,
        });
        if let Some(minutes) = self.minutes_left() {
            state["estimated_time_remaining_minutes"] = minutes.into();
        }
        state
    }

    fn planned_group(&self, group: &PlanGroup, status: PlanStatus) -> Value {
        let mut shown = serde_json::to_value(group).expect("BUG: a plan is plain data");
        shown["status"] = status.as_str().into();
        shown
    }

    fn phase(&self, index: usize, ids: &[GroupId]) -> Value {
        let statuses: Vec<_> = ids.iter().map(|id| self.plan_status(id)).collect();
        let is_over = |id: &GroupId| self.groups.get(id).is_some_and(GroupPart::is_done);
        let status = if !ids.is_empty() && ids.iter().all(is_over) {
            "complete"
        } else if statuses.iter().all(|status| *status <= PlanStatus::Assigned) {
            "pending"
        } else {
            "in_progress"
        };
        json!({
            "phase_number": index + 1, "group_ids": ids, "parallel_count": ids.len(), "status": status,
        })
    }

    /// Returns the groups with an unresolved blocker, without those that were skipped, split or failed.
    pub(in crate::team) fn blocked_groups(&self) -> Vec<String> {
        let open = self.groups.iter().filter(|(_, group)| !group.progress.is_closed());
        open.filter(|(_, group)| group.open_blockers().next().is_some())
            .map(|(id, _)| id.to_string())
            .collect()
    }

    /// Returns the groups for totals and percentages. A split group is left out: the groups that replace it count.
    pub(in crate::team) fn unsplit_groups(&self) -> impl Iterator<Item = &GroupPart> {
        self.groups.values().filter(|group| group.progress != super::GroupProgress::Split)
    }

    /// Returns the share of complete groups in percent, with one decimal.
    pub(in crate::team) fn percentage(&self) -> f64 {
        let total = self.unsplit_groups().count();
        let done = self.unsplit_groups().filter(|group| group.stage == Stage::Complete).count();
        if total == 0 { 0.0 } else { round_to_tenths(done as f64 * 100.0 / total as f64) }
    }

    /// Returns the estimated minutes until the open groups are merged; `None` until one group is merged.
    fn minutes_left(&self) -> Option<f64> {
        let mut durations: Vec<f64> = self.groups.values().filter_map(GroupPart::minutes).collect();
        durations.sort_by(f64::total_cmp);
        let middle = *durations.get(durations.len() / 2)?;
        let median = if durations.len().is_multiple_of(2) {
            f64::midpoint(durations[durations.len() / 2 - 1], middle)
        } else {
            middle
        };
        let open = self.unsplit_groups().filter(|group| !group.is_done()).count();
        let parallel = open.clamp(1, usize::from(self.run.max_parallel));
        Some(round_to_tenths(median * open as f64 / parallel as f64))
    }
}

impl GroupPart {
    /// Returns how many minutes a merged group took.
    pub(in crate::team) fn minutes(&self) -> Option<f64> {
        let (start, end) = (self.start_time?, self.end_time?);
        (self.stage == Stage::Complete).then(|| end.since(start).as_secs_f64() / 60.0)
    }
}

fn round_to_tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
