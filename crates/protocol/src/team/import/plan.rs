//! The plan in the imported files, as far as it can be used.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::super::definition::{GroupId, Limits, Mode};
use super::super::report::plan::{
    Complexity, Criterion, Plan, PlanGroup, Task, branch_name, cyclic_group, derived_phases, is_ref_name,
};
use super::normalize::{NormalizedFiles, texts, to_text};
use crate::check::shortened;

/// Reads the plan. Returns it with the groups that wait for a person, each with the reason.
pub(super) fn read(
    normalized: &NormalizedFiles,
    notes: &mut Vec<String>,
) -> (Plan, BTreeMap<GroupId, String>) {
    let mut questions = BTreeMap::new();
    let mut groups = groups(&normalized.pm, notes);
    add_dependencies(&normalized.pm, &mut groups, notes, &mut questions);
    let phases = phases(&normalized.pm, &groups, notes);
    let list = |name: &str| normalized.pm.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let tasks = list("all_tasks").iter().filter_map(|task| Task::deserialize(task).ok()).collect();
    let criteria = list("success_criteria");
    let known: Vec<_> = criteria.iter().filter_map(|found| Criterion::deserialize(found).ok()).collect();
    if known.len() < criteria.len() {
        notes.push(format!("{} of the success criteria cannot be read", criteria.len() - known.len()));
    }
    let mode = mode(&normalized.pm, &groups, notes);
    let mode_reasoning = normalized.pm.get("mode_reasoning").filter(|text| !text.is_null()).map(to_text);
    let mode_reasoning = mode_reasoning.unwrap_or_else(|| "not decided yet".to_owned());
    (Plan { mode, mode_reasoning, tasks, groups, phases, criteria: known }, questions)
}

fn mode(pm: &Map<String, Value>, groups: &[PlanGroup], notes: &mut Vec<String>) -> Mode {
    let stated = pm.get("mode").cloned().unwrap_or_default();
    match stated.as_str().map(str::to_lowercase).as_deref() {
        Some("simple") => return Mode::Simple,
        Some("parallel") => return Mode::Parallel,
        _ if groups.is_empty() => return Mode::Simple,
        _ => notes.push(format!("the mode {} is not known: it follows from the groups", shortened(&stated))),
    }
    if groups.len() == 1 { Mode::Simple } else { Mode::Parallel }
}

fn groups(pm: &Map<String, Value>, notes: &mut Vec<String>) -> Vec<PlanGroup> {
    let mut branches = BTreeSet::new();
    let found = pm.get("task_groups").and_then(Value::as_array).into_iter().flatten();
    let groups = found.filter_map(|found| {
        let id = GroupId::new(found["id"].as_str()?).ok()?;
        let name = to_text(&found["name"]);
        let stated = found["branch_name"].as_str().unwrap_or_default();
        let mut branch = stated.to_owned();
        if !is_ref_name(stated) || !branches.insert(stated.to_owned()) {
            branch = free_name(&branch_name(&id, &name), &branches);
            if !stated.is_empty() {
                notes.push(format!("group `{id}`: the branch `{stated}` cannot be used, it gets `{branch}`"));
            }
            branches.insert(branch.clone());
        }
        let complexity = found.get("complexity").map(|word| to_text(word).to_lowercase().into());
        let complexity = complexity.and_then(|word: Value| Complexity::deserialize(word).ok());
        let effort = found["estimated_effort_minutes"].as_f64().unwrap_or(15.0).clamp(0.0, 100_000.0);
        Some(PlanGroup {
            id,
            name,
            tasks: texts(found.get("tasks")),
            files_affected: texts(found.get("files_affected")),
            branch_name: branch,
            can_parallel: found["can_parallel"].as_bool().unwrap_or(true),
            depends_on: Vec::new(),
            complexity: complexity.unwrap_or_default(),
            estimated_effort_minutes: effort as u32,
        })
    });
    groups.collect()
}

/// Returns the name, with a number if another group has it: `A` with "b c" and `A-b` with "c" give the same.
fn free_name(name: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Adds the dependencies that name another group and close no cycle. A group with another dependency waits for a
/// person.
fn add_dependencies(
    pm: &Map<String, Value>,
    groups: &mut [PlanGroup],
    notes: &mut Vec<String>,
    questions: &mut BTreeMap<GroupId, String>,
) {
    let ids: BTreeSet<GroupId> = groups.iter().map(|group| group.id.clone()).collect();
    let found: Vec<_> = pm.get("task_groups").and_then(Value::as_array).cloned().unwrap_or_default();
    // Normalized groups have usable ids, so `groups` and `task_groups` have the same indexes.
    for (index, stated_ids) in found.iter().map(|group| texts(group.get("depends_on"))).enumerate() {
        for stated_id in stated_ids {
            let Some(group) = groups.get_mut(index) else { continue };
            let id = group.id.clone();
            let needed = GroupId::new(&stated_id).ok().filter(|needed| ids.contains(needed));
            let why = match needed {
                None => "does not exist",
                Some(needed) => {
                    group.depends_on.push(needed);
                    if cyclic_group(groups).is_none() {
                        continue;
                    }
                    groups[index].depends_on.pop();
                    "depends on it in turn"
                }
            };
            notes.push(format!(
                "group `{id}` depends on `{stated_id}`, which {why}: the group waits for a person"
            ));
            questions.insert(id, format!("its dependency `{stated_id}` {why}"));
        }
    }
}

/// Returns the phases, if they fit the groups and their dependencies; else phases that follow from the dependencies.
fn phases(pm: &Map<String, Value>, groups: &[PlanGroup], notes: &mut Vec<String>) -> Vec<Vec<GroupId>> {
    let mut found = pm.get("execution_phases").and_then(Value::as_array).cloned().unwrap_or_default();
    found.sort_by_key(|phase| phase["phase_number"].as_u64());
    let mut phase_of: BTreeMap<GroupId, usize> = BTreeMap::new();
    let mut phases: Vec<Vec<GroupId>> = Vec::new();
    for (number, phase) in found.iter().enumerate() {
        let mut ids = Vec::new();
        for stated_id in texts(phase.get("group_ids")) {
            match groups.iter().find(|group| group.id.as_str() == stated_id) {
                Some(group) if !phase_of.contains_key(&group.id) => {
                    phase_of.insert(group.id.clone(), number);
                    ids.push(group.id.clone());
                }
                Some(_) => notes.push(format!("group `{stated_id}` is in two phases: the first counts")),
                None => {
                    notes.push(format!(
                        "phase {} names the group `{stated_id}`, which does not exist",
                        number + 1
                    ));
                }
            }
        }
        phases.push(ids);
    }
    let fits = |group: &PlanGroup| {
        let own = phase_of.get(&group.id);
        own.is_some() && group.depends_on.iter().all(|needed| phase_of.get(needed) <= own)
    };
    if !groups.is_empty() && !groups.iter().all(fits) {
        if !found.is_empty() {
            notes.push("the phases do not fit the groups: they follow from the dependencies".to_owned());
        }
        return derived_phases(groups, Limits::default().groups.get());
    }
    phases
}
