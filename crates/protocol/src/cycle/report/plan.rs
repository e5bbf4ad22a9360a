//! The tasks of a plan: checked, given the status that they had, and reduced to ids, dependencies and conflicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::StepId;
use crate::cycle::document::{Plan, PlanTask, TaskStatus};
use crate::cycle::step::{PlannedTask, Step};
use crate::dependencies::first_cyclic;
use crate::file_patterns::may_match_same_file;

/// Returns the tasks of a new plan. A task that `plan` has keeps its status and agent; the planner cannot set them.
/// Fails if an id is unusable or duplicate, or a dependency is unknown or circular.
pub(in crate::cycle) fn tasks_with_known_status(
    tasks: &[PlanTask],
    plan: Option<&Plan>,
) -> Result<Vec<PlanTask>, String> {
    let mut ids = BTreeSet::new();
    for task in tasks {
        if Step::task_id(&task.id).is_none() {
            return Err(format!("`{}` cannot be the id of a task", task.id));
        }
        if !ids.insert(task.id.as_str()) {
            return Err(format!("the plan has two tasks `{}`", task.id));
        }
    }
    for task in tasks {
        if let Some(unknown) = task.depends_on.iter().find(|id| !ids.contains(id.as_str())) {
            return Err(format!("`{}` depends on `{unknown}`, which is not in the plan", task.id));
        }
    }
    check_circles(tasks)?;
    let known: BTreeMap<_, _> =
        plan.iter().flat_map(|plan| &plan.tasks).map(|task| (task.id.as_str(), task)).collect();
    let merged = tasks.iter().map(|task| {
        let known = known.get(task.id.as_str());
        PlanTask {
            status: known.map_or(TaskStatus::Pending, |known| known.status),
            assigned_to: known.and_then(|known| known.assigned_to.clone()),
            ..task.clone()
        }
    });
    Ok(merged.collect())
}

fn check_circles(tasks: &[PlanTask]) -> Result<(), String> {
    let needs =
        tasks.iter().map(|task| (task.id.as_str(), task.depends_on.iter().map(String::as_str).collect()));
    match first_cyclic(&needs.collect()) {
        Some(id) => Err(format!("the tasks depend on each other in a circle: `{id}`")),
        None => Ok(()),
    }
}

/// Returns the open tasks with their dependencies and conflicts.
pub(in crate::cycle) fn planned_tasks(tasks: &[PlanTask]) -> Vec<PlannedTask> {
    let open: Vec<_> = tasks.iter().filter(|task| task.status != TaskStatus::Completed).collect();
    let ids = |tasks: &[String]| -> Vec<StepId> {
        let is_open = |id: &&String| open.iter().any(|task| task.id == **id);
        tasks.iter().filter(is_open).filter_map(|id| Step::task_id(id)).collect()
    };
    let planned = open.iter().filter_map(|task| {
        let others =
            open.iter().filter(|other| other.id != task.id && may_share_files(&task.files, &other.files));
        Some(PlannedTask {
            id: Step::task_id(&task.id)?,
            depends_on: ids(&task.depends_on),
            conflicts_with: others.filter_map(|other| Step::task_id(&other.id)).collect(),
        })
    });
    planned.collect()
}

/// Returns whether two lists of files and globs may name the same file. A task without files may change any.
fn may_share_files(one: &[String], other: &[String]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|a| other.iter().any(|b| may_match_same_file(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, depends_on: &[&str], files: &[&str]) -> PlanTask {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        PlanTask {
            id: id.to_owned(),
            depends_on: texts(depends_on),
            files: texts(files),
            ..PlanTask::default()
        }
    }

    #[test]
    fn a_plan_that_cannot_be_carried_out_is_refused() {
        let refused = |tasks: &[PlanTask]| tasks_with_known_status(tasks, None).unwrap_err();
        assert_eq!(refused(&[task("a b", &[], &[])]), "`a b` cannot be the id of a task");
        assert_eq!(refused(&[task("a.merge", &[], &[])]), "`a.merge` cannot be the id of a task");
        assert_eq!(refused(&[task("a", &[], &[]), task("a", &[], &[])]), "the plan has two tasks `a`");
        assert_eq!(refused(&[task("a", &["b"], &[])]), "`a` depends on `b`, which is not in the plan");
        let circle = [task("a", &["b"], &[]), task("b", &["a"], &[])];
        assert_eq!(refused(&circle), "the tasks depend on each other in a circle: `a`");
    }

    #[test]
    fn the_planner_cannot_set_the_status_of_a_task() {
        let done = PlanTask { status: TaskStatus::Completed, ..task("a", &[], &[]) };
        let plan = Plan { tasks: vec![done.clone()], ..Plan::default() };
        let claimed = PlanTask { status: TaskStatus::Completed, ..task("b", &[], &[]) };
        let merged = tasks_with_known_status(&[task("a", &[], &[]), claimed], Some(&plan)).unwrap();
        assert_eq!(
            merged.iter().map(|task| task.status).collect::<Vec<_>>(),
            [TaskStatus::Completed, TaskStatus::Pending]
        );
    }

    #[test]
    fn tasks_that_may_change_the_same_file_conflict() {
        let share = |one: &str, other: &str| may_share_files(&[one.to_owned()], &[other.to_owned()]);
        assert!(share("src/", "./src/a.rs") && !share("src/a.rs", "src/b.rs"));
        assert!(may_share_files(&[], &["a".to_owned()]), "no files means any file");
    }
}
