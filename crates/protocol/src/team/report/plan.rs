//! The plan of the project manager: how it is read, and why it is refused.
//!
//! The JSON fields have the names of those in `pm_state.json`, so that the same code reads a report and an edited state file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::definition::{GroupId, Mode, ModeChoice};
use super::super::step::{PlannedCriterion, PlannedWork, ScheduledGroup};
use super::command;
use crate::dependencies::first_cyclic;
use crate::file_patterns::may_match_same_file;

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

#[derive(Deserialize)]
struct PhaseInput {
    #[serde(default)]
    phase_number: u16,
    group_ids: Vec<GroupId>,
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
    check_criteria(&criteria, &tasks, &mut problems);
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

/// The first component of the branch names of groups: `feature/…`.
pub(in crate::team) const BRANCH_PREFIX: &str = "feature";

/// Returns the name, with a number appended if it collides with a branch that exists. The run must not continue a branch that
/// it did not create.
fn free_name(name: &str, branches: &[String]) -> String {
    let is_below =
        |name: &str, parent: &str| name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'));
    let is_free = |name: &String| {
        branches.iter().all(|branch| {
            // No number helps against a branch `feature`, which `read` reports.
            branch != name && !is_below(branch, name) && (branch == BRANCH_PREFIX || !is_below(name, branch))
        })
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Returns `feature/group-A-jwt-auth`.
pub(in crate::team) fn branch_name(id: &GroupId, name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let slug: String = words.join("-").chars().take(40).collect();
    match slug.trim_end_matches('-') {
        "" => format!("{BRANCH_PREFIX}/group-{id}"),
        slug => format!("{BRANCH_PREFIX}/group-{id}-{slug}"),
    }
}

/// Returns whether the name can be the branch of a group.
pub(in crate::team) fn is_branch_name(name: &str) -> bool {
    name.strip_prefix(BRANCH_PREFIX).is_some_and(|rest| rest.starts_with('/')) && is_ref_name(name)
}

/// Returns whether git takes the name for a branch, and no shell reads it as anything else.
pub(in crate::team) fn is_ref_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
            && !part.starts_with(['-', '.'])
            && !part.ends_with('.')
            && !part.contains("..")
            && !std::path::Path::new(part).extension().is_some_and(|end| end.eq_ignore_ascii_case("lock"))
    };
    name.len() <= 150 && name.split('/').all(is_part)
}

fn check_groups(groups: &[PlanGroup], context: &PlanContext, problems: &mut Vec<String>) {
    // Worktrees and branches are files, and some file systems ignore letter case.
    let mut seen: BTreeMap<_, _> =
        context.existing_groups.iter().map(|id| (id.to_ascii_lowercase(), id.clone())).collect();
    let mut branches = BTreeSet::new();
    let known: BTreeSet<_> = groups.iter().map(|group| group.id.as_str()).collect();
    for group in groups {
        let id = &group.id;
        match seen.insert(id.as_str().to_ascii_lowercase(), id.to_string()) {
            Some(other) if other == id.as_str() => problems.push(format!("there are two groups `{id}`")),
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
        if !branches.insert(group.branch_name.to_ascii_lowercase()) {
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
                    "group `{id}` depends on `{needed}`, which waits for group `{}`, the one that is replaced",
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

fn check_tasks(tasks: &[Task], groups: &[PlanGroup], context: &PlanContext, problems: &mut Vec<String>) {
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

fn check_criteria(criteria: &[Criterion], tasks: &[Task], problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for criterion in criteria {
        let id = &criterion.id;
        if !seen.insert(id) {
            problems.push(format!("there are two criteria `{id}`"));
        }
        if criterion.tasks.is_empty() {
            problems.push(format!("criterion `{id}` names no task"));
        }
        for task in criterion.tasks.iter().filter(|task| tasks.iter().all(|known| known.id != **task)) {
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

/// Returns the phases in the order of their numbers. Derives them from the dependencies if the plan states none.
fn ordered_phases(
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

/// Returns the JSON Schema of a plan.
pub(in crate::team) fn schema() -> Value {
    let text = serde_json::json!({ "type": "string", "minLength": 1 });
    let texts = serde_json::json!({ "type": "array", "items": text });
    serde_json::json!({
        "type": "object",
        "required": ["verdict", "all_tasks", "task_groups", "success_criteria"],
        "properties": {
            "verdict": { "enum": ["PLANNING_COMPLETE"] },
            "mode": { "enum": ["simple", "parallel"] },
            "mode_reasoning": { "type": "string" },
            "all_tasks": { "type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["id", "description"],
                "properties": { "id": text, "description": text },
            } },
            "task_groups": { "type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["id", "name", "tasks", "files_affected"],
                "properties": {
                    "id": { "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$" },
                    "name": text, "tasks": texts, "files_affected": texts,
                    "branch_name": { "type": "string", "pattern": "^feature/" },
                    "can_parallel": { "type": "boolean" }, "depends_on": texts,
                    "complexity": { "enum": ["low", "medium", "high"] },
                    "estimated_effort_minutes": { "type": "integer", "minimum": 0 },
                },
            } },
            "execution_phases": { "type": "array", "items": {
                "type": "object", "required": ["phase_number", "group_ids"],
                "properties": { "phase_number": { "type": "integer", "minimum": 1 }, "group_ids": texts },
            } },
            "success_criteria": { "type": "array", "items": {
                "type": "object", "required": ["id", "text", "tasks"],
                "properties": { "id": text, "text": text, "tasks": texts, "command": {
                    "type": "string", "minLength": 1,
                    "description": "a program and its arguments, without a shell; for operators write a script or sh -c '…'",
                } },
            } },
        },
    })
}
