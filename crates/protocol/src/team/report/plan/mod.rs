//! The plan of the project manager: how it is read, and why it is refused.
//!
//! The JSON fields have the names of those in `pm_state.json`, so that the same code reads a report and an edited state file.

mod branches;
mod checks;
mod phases;
mod schedule;
mod schema;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::definition::{GroupId, Mode, ModeChoice};
use branches::free_name;
pub(in crate::team) use branches::{BRANCH_PREFIX, branch_name, is_ref_name};
pub(in crate::team) use checks::cyclic_group;
use checks::{check_criteria, check_groups, check_tasks};
pub(in crate::team) use phases::derived_phases;
use phases::{PhaseInput, ordered_phases};
pub(in crate::team) use schedule::{common_files, must_not_run_in_parallel};
pub(in crate::team) use schema::schema;

/// A plan that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub mode: Mode,
    pub mode_reasoning: String,
    pub tasks: Vec<Task>,
    pub groups: Vec<PlanGroup>,
    pub phases: Vec<Vec<GroupId>>,
    pub criteria: Vec<Criterion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    #[serde(default)]
    pub description: String,
}

/// A group as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanGroup {
    pub id: GroupId,
    pub name: String,
    pub tasks: Vec<String>,
    #[serde(default)]
    pub files_affected: Vec<String>,
    #[serde(default)]
    pub branch_name: String,
    #[serde(default = "default_can_parallel")]
    pub can_parallel: bool,
    #[serde(default)]
    pub depends_on: Vec<GroupId>,
    #[serde(default)]
    pub complexity: Complexity,
    #[serde(default = "default_effort_minutes")]
    pub estimated_effort_minutes: u32,
}

fn default_can_parallel() -> bool {
    true
}

fn default_effort_minutes() -> u32 {
    15
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    Low,
    #[default]
    Medium,
    High,
}

/// A success criterion: what must be true at the end of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    pub id: String,
    pub text: String,
    pub tasks: Vec<String>,
    /// A command that exits with 0 if the criterion is met. No shell reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a plan is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::team) struct PlanContext {
    pub mode: ModeChoice,
    /// How many groups may work at the same time.
    pub max_parallel: u8,
    /// The ids of the groups and tasks that the run already has. A new plan may not use them again.
    pub existing_groups: BTreeSet<String>,
    pub existing_tasks: BTreeSet<String>,
    /// The branches that exist.
    pub existing_branches: Vec<String>,
    /// `None` unless this plan replaces a group by smaller ones.
    pub split: Option<SplitGroup>,
}

/// The group that a plan replaces by smaller ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::team) struct SplitGroup {
    pub group: GroupId,
    pub tasks: Vec<Task>,
    /// The groups that wait for it: they depend on it, or are in a later phase.
    pub dependents: BTreeSet<GroupId>,
}

/// Reads a plan from the fields of a JSON object. Fails with every reason why it is refused.
pub(in crate::team) fn read(fields: &Map<String, Value>, context: &PlanContext) -> Result<Plan, Vec<String>> {
    let mut problems = Vec::new();
    let tasks: Vec<Task> = match &context.split {
        Some(split) => split.tasks.clone(),
        None => list(fields, "all_tasks", &mut problems),
    };
    let mut groups: Vec<PlanGroup> = list(fields, "task_groups", &mut problems);
    let criteria: Vec<Criterion> = list(fields, "success_criteria", &mut problems);
    let phases: Vec<PhaseInput> = list(fields, "execution_phases", &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    if groups.is_empty() {
        return Err(vec!["the plan has no groups".to_owned()]);
    }
    let mode = mode(fields, context, &groups, &mut problems);
    if context.existing_branches.iter().any(|branch| branch == BRANCH_PREFIX) {
        problems.push(format!(
            "there is a branch `{BRANCH_PREFIX}`, so that no group can have a branch below it"
        ));
    }
    for group in &mut groups {
        if group.branch_name.is_empty() {
            group.branch_name = branch_name(&group.id, &group.name);
        }
        group.branch_name = free_name(&group.branch_name, &context.existing_branches);
    }
    check_groups(&groups, context, &mut problems);
    check_tasks(&tasks, &groups, context, &mut problems);
    check_criteria(&criteria, &tasks, context, &mut problems);
    let phases = ordered_phases(phases, &groups, context, &mut problems);
    let mode_reasoning = fields.get("mode_reasoning").and_then(Value::as_str).unwrap_or_default().to_owned();
    if problems.is_empty() {
        Ok(Plan { mode, mode_reasoning, tasks, groups, phases, criteria })
    } else {
        Err(problems)
    }
}

fn list<T: for<'de> Deserialize<'de>>(
    fields: &Map<String, Value>,
    name: &str,
    problems: &mut Vec<String>,
) -> Vec<T> {
    let items = match fields.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            problems.push(format!("`{name}` is not a list"));
            return Vec::new();
        }
    };
    let mut read = Vec::new();
    for (index, item) in items.iter().enumerate() {
        match T::deserialize(item) {
            Ok(item) => read.push(item),
            Err(error) => problems.push(format!("`{name}[{index}]`: {error}")),
        }
    }
    read
}

fn mode(
    fields: &Map<String, Value>,
    context: &PlanContext,
    groups: &[PlanGroup],
    problems: &mut Vec<String>,
) -> Mode {
    // Only the first plan chooses the mode. Later plans, which add groups or split one, count as `parallel`.
    let is_first_plan = context.existing_groups.is_empty() && context.split.is_none();
    let stated = fields.get("mode").and_then(|mode| Mode::deserialize(mode).ok());
    let only = match groups {
        [only] => Some(only.id.as_str()),
        _ => None,
    };
    let mode = stated.unwrap_or(if only == Some("main") { Mode::Simple } else { Mode::Parallel });
    if !is_first_plan {
        return Mode::Parallel;
    }
    if let Some(unknown) = fields.get("mode").filter(|mode| stated.is_none() && !mode.is_null()) {
        problems.push(format!("`mode` is {unknown}: use \"simple\" or \"parallel\""));
    }
    match (context.mode, mode) {
        (ModeChoice::Simple, Mode::Parallel) => {
            problems.push("the user chose the mode `simple`: plan one group with the id `main`".to_owned());
        }
        (ModeChoice::Parallel, Mode::Simple) => {
            problems.push("the user chose the mode `parallel`: plan several groups".to_owned());
        }
        (_, Mode::Simple) if only != Some("main") => {
            problems.push("a plan in the mode `simple` has one group with the id `main`".to_owned());
        }
        (ModeChoice::Auto | ModeChoice::Simple | ModeChoice::Parallel, Mode::Simple | Mode::Parallel) => {}
    }
    mode
}
