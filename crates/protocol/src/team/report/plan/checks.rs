//! Why the groups, tasks and criteria of a plan are refused.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::definition::GroupId;
use super::super::command;
use super::branches::{is_below, is_branch_name};
use super::{Criterion, PlanContext, PlanGroup, Task};
use crate::dependencies::first_cyclic;

pub(super) fn check_groups(groups: &[PlanGroup], context: &PlanContext, problems: &mut Vec<String>) {
    // Ids become names of files (worktrees, branches), and some file systems ignore letter case.
    let mut seen: BTreeMap<_, _> =
        context.existing_groups.iter().map(|id| (id.to_ascii_lowercase(), id.clone())).collect();
    let mut branches: BTreeSet<String> = BTreeSet::new();
    let known: BTreeSet<_> = groups.iter().map(|group| group.id.as_str()).collect();
    for group in groups {
        let id = &group.id;
        match seen.insert(id.as_str().to_ascii_lowercase(), id.to_string()) {
            Some(other) if other == id.as_str() => problems.push(format!("there is already a group `{id}`")),
            Some(other) => {
                problems.push(format!("the groups `{other}` and `{id}` differ only in letter case"));
            }
            None => {}
        }
        if !is_branch_name(&group.branch_name) {
            problems.push(format!(
                "`{}` cannot be the branch of group `{id}`: use `feature/group-{id}-<slug>`",
                group.branch_name
            ));
        }
        let branch = group.branch_name.to_ascii_lowercase();
        if let Some(other) =
            branches.iter().find(|other| is_below(other, &branch) || is_below(&branch, other))
        {
            problems.push(format!("git cannot have the branches `{other}` and `{branch}` at the same time"));
        }
        if !branches.insert(branch) {
            problems.push(format!("two groups have the branch `{}`", group.branch_name));
        }
        for needed in &group.depends_on {
            if !known.contains(needed.as_str()) && !context.existing_groups.contains(needed.as_str()) {
                problems.push(format!("group `{id}` depends on `{needed}`, which does not exist"));
            }
            if let Some(split) = &context.split
                && split.dependents.contains(needed)
            {
                problems.push(format!(
                    "group `{id}` would depend on `{needed}`, which waits for group `{}`, which this plan replaces",
                    split.group
                ));
            }
        }
        for file in &group.files_affected {
            if let Some(why) = crate::check::artifact_path_problem(file) {
                problems.push(format!("the file `{file}` of group `{id}` {why}"));
            }
        }
    }
    if let Some(id) = cyclic_group(groups) {
        problems.push(format!("group `{id}` depends on itself, directly or through other groups"));
    }
}

/// Returns a group that depends on itself.
pub(in crate::team) fn cyclic_group(groups: &[PlanGroup]) -> Option<&GroupId> {
    let needs = groups.iter().map(|group| (group.id.as_str(), group.depends_on.iter().map(GroupId::as_str)));
    let cyclic = first_cyclic(&needs.map(|(id, needs)| (id, needs.collect())).collect())?.to_owned();
    groups.iter().map(|group| &group.id).find(|id| id.as_str() == cyclic)
}

pub(super) fn check_tasks(
    tasks: &[Task],
    groups: &[PlanGroup],
    context: &PlanContext,
    problems: &mut Vec<String>,
) {
    if tasks.is_empty() {
        problems.push("the plan has no tasks in `all_tasks`".to_owned());
    }
    let mut known = BTreeSet::new();
    for task in tasks {
        let is_new = known.insert(task.id.as_str());
        if !is_new || (context.split.is_none() && context.existing_tasks.contains(&task.id)) {
            problems.push(format!("there are two tasks `{}`", task.id));
        }
    }
    let mut owner: BTreeMap<&str, &GroupId> = BTreeMap::new();
    for group in groups {
        if group.tasks.is_empty() {
            problems.push(format!("group `{}` has no tasks", group.id));
        }
        for task in &group.tasks {
            if !known.contains(task.as_str()) {
                problems.push(format!("group `{}` has the task `{task}`, which does not exist", group.id));
            }
            if let Some(other) = owner.insert(task, &group.id) {
                problems.push(format!("task `{task}` is in the groups `{other}` and `{}`", group.id));
            }
        }
    }
    for task in tasks.iter().filter(|task| !owner.contains_key(task.id.as_str())) {
        problems.push(format!("task `{}` is in no group", task.id));
    }
}

pub(super) fn check_criteria(
    criteria: &[Criterion],
    tasks: &[Task],
    context: &PlanContext,
    problems: &mut Vec<String>,
) {
    // A later plan may repeat the criteria of the first one.
    let exists =
        |task: &String| tasks.iter().any(|known| known.id == *task) || context.existing_tasks.contains(task);
    let mut seen = BTreeSet::new();
    for criterion in criteria {
        let id = &criterion.id;
        if !seen.insert(id) {
            problems.push(format!("there are two criteria `{id}`"));
        }
        if criterion.tasks.is_empty() {
            problems.push(format!("criterion `{id}` names no task"));
        }
        for task in criterion.tasks.iter().filter(|task| !exists(task)) {
            problems.push(format!("criterion `{id}` names the task `{task}`, which does not exist"));
        }
        let Some(command) = &criterion.command else { continue };
        if let Some(operator) = command::shell_operator(command) {
            problems.push(format!(
                "the command of criterion `{id}` has `{operator}`, but no shell reads it: name a script, or write `sh -c '…'`"
            ));
        } else if command::argv(command).is_none() {
            problems.push(format!(
                "the command of criterion `{id}` cannot be read as a program and its arguments"
            ));
        }
    }
}
