//! Rebuilds the document of a cycle whose store and master file (`ID.json`) are lost, from the files in `ID.progress/`.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definition::DEFAULT_MAX_ITERATIONS;
use super::document::{Changes, Feedback, FeedbackKind, FileChange};
use super::layout;
use super::step::Role;

/// What could be rebuilt, and what could not.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    pub document: Value,
    /// What is lost, in a sentence each.
    pub lost: Vec<String>,
}

/// Rebuilds the document of a cycle from its files, by their paths below `.progress/`.
pub fn rebuild(cycle: &str, files: &BTreeMap<String, String>) -> Rebuilt {
    let times = iteration_times(files);
    let current = times.keys().next_back().copied().unwrap_or(1).max(1);
    let created = times.values().next().map(|(start, _)| start.clone()).unwrap_or_default();
    let mut lost = Vec::new();
    let mut errors = Vec::new();
    let mut document = Map::new();
    type Reader = fn(&str) -> Result<Value, String>;
    let sections: [(&str, &str, Reader); 5] = [
        ("requirements", layout::REQUIREMENTS, |text| Ok(json!(layout::parse_requirements(text)))),
        ("exploration", layout::EXPLORATION, |text| Ok(json!(layout::parse_exploration(text)))),
        ("plan", layout::PLAN, |text| layout::parse_plan(text).map(|plan| json!(plan))),
        ("changes", layout::CHANGES, |text| read_changes(text).map(|changes| json!(changes))),
        ("test_results", layout::TEST_RESULTS, |text| {
            layout::parse_test_results(text).map(|results| json!(results))
        }),
    ];
    for (name, path, read) in sections {
        let error = match files.get(path).map(|text| read(text)) {
            Some(Ok(value)) => {
                document.insert(name.to_owned(), value);
                continue;
            }
            None => format!("`{name}`: there is no file `{path}`"),
            Some(Err(error)) => format!("`{name}`: `{path}` cannot be read: {error}"),
        };
        let phase = path.split('/').next();
        errors.push(json!({ "phase": phase, "error": format!("rebuild: {error}"), "timestamp": created }));
        lost.push(error);
    }
    let feedback = files.get(layout::FEEDBACK).map(|text| layout::parse_feedback(text)).unwrap_or_default();
    let is_extension =
        |entry: &&Feedback| entry.source == "user" && entry.kind == FeedbackKind::RequirementUpdate;
    let extensions: BTreeMap<_, _> = feedback
        .iter()
        .filter(is_extension)
        .filter_map(|entry| Some((entry.iteration?, &entry.content)))
        .collect();
    let done: Vec<_> = Role::ALL
        .into_iter()
        .take_while(|role| has_reported(files, *role, current))
        .map(Role::as_str)
        .collect();
    let timeline = files.get(layout::TIMELINE).map_or("", String::as_str);
    let iterations = (1..=current).map(|number| {
        let (start, end) = times.get(&number).cloned().unwrap_or_default();
        let reported = Role::ALL.into_iter().filter(|role| has_reported(files, *role, number));
        let results: Map<_, _> =
            reported.map(|role| (role.to_string(), json!({ "status": "completed" }))).collect();
        let closed = layout::parse_iteration(timeline, number);
        let is_closed = number < current || closed.is_some();
        let (issues, resolved) = closed.unwrap_or_default();
        let mut iteration = json!({
            "number": number, "started_at": start, "agent_results": results, "issues_found": issues,
            "resolved": resolved,
        });
        if let Some(text) = extensions.get(&number) {
            iteration["extension"] = json!(text);
        }
        if is_closed {
            iteration["completed_at"] = end.into();
        }
        iteration
    });
    let iterations: Vec<_> = iterations.collect();
    let summary = files.get(layout::SUMMARY).map(String::as_str);
    let title = summary.and_then(|text| text.lines().next()?.strip_prefix("# "));
    let task = layout::parse_task(timeline);
    if task.is_none() {
        lost.push(
            "the task: no iteration has ended, so that only the store and the master file have it".to_owned(),
        );
    }
    let title = title.or(task.as_deref()).unwrap_or(cycle);
    let task = task.clone().unwrap_or_else(|| title.to_owned());
    let history: Vec<_> = std::iter::once(&task).chain(extensions.values().copied()).collect();
    let added = extensions.iter().map(|(number, text)| format!("\n\n--- ITERATION {number} ---\n{text}"));
    let description = task.clone() + &added.collect::<String>();
    let agents: Map<_, _> = Role::ALL
        .into_iter()
        .map(|role| {
            let is_done = done.contains(&role.as_str());
            let completed = (1..=current).filter(|number| has_reported(files, role, *number)).count();
            let status = if is_done { "completed" } else { "idle" };
            (role.to_string(), json!({ "status": status, "iterations_completed": completed }))
        })
        .collect();
    // In `aggregation` all four have reported, and the iteration is judged.
    let phase = ["ra", "ep", "cd", "vas", "aggregation"][done.len()];
    let mut rebuilt = json!({
        "cycle_id": cycle, "title": title, "description": description, "task_history": history, "status": "running",
        "created_at": created, "updated_at": created, "max_iterations": DEFAULT_MAX_ITERATIONS.max(current),
        "current_iteration": current, "agents": agents, "current_phase": phase, "completed_phases": done,
        "phase_errors": errors, "iterations": iterations, "coordination": { "feedback_log": feedback },
    });
    // A final report about this iteration shows that the cycle was completed. It also has the iteration limit, so `limit` is
    // set only then.
    let summary_value = |field: &str| layout::summary_value(summary?, field);
    let limit = summary_value("Iterations")
        .and_then(|value| value.strip_prefix(&format!("{current} of "))?.parse::<u32>().ok());
    let limit = limit.filter(|_| done.len() == Role::ALL.len());
    let nothing_is_open = limit.is_some() && summary_value("Open issues") == Some("0");
    if let Some(limit) = limit {
        rebuilt["status"] = "completed".into();
        rebuilt["current_phase"] = "complete".into();
        rebuilt["completed_at"] = summary_value("Ended").into();
        rebuilt["max_iterations"] = limit.into();
    }
    let tasks = document.get_mut("plan").and_then(|plan| plan["tasks"].as_array_mut());
    for task in tasks.into_iter().flatten().filter(|_| nothing_is_open) {
        task["status"] = "completed".into();
    }
    let mut missing = vec![
        "how many files each agent changed, its last message, and when it worked",
        "to whom tasks are assigned",
        "when exactly iterations began and ended",
        "decisions and blockers",
    ];
    missing.extend(limit.is_none().then_some("the iteration limit"));
    missing.extend((!nothing_is_open).then_some("the statuses of tasks"));
    lost.extend(missing.iter().map(|what| format!("{what}: no file has it")));
    super::document::merge_partial(&mut rebuilt, &Value::Object(document));
    Rebuilt { document: rebuilt, lost }
}

/// Reads `cd/changes.log`: entries and markers.
fn read_changes(text: &str) -> Result<Changes, String> {
    let mut changes = Changes::default();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        let iteration = value["iteration"].as_u64().unwrap_or(1).to_string();
        let time = value["timestamp"].as_str().unwrap_or_default().to_owned();
        if value.get("marker").is_some() {
            changes.iteration_markers.insert(iteration, time);
            continue;
        }
        let entry: FileChange =
            serde_json::from_value(value).map_err(|error| format!("line {number}: {error}"))?;
        changes.changes.push(entry);
    }
    changes.update_total_files();
    Ok(changes)
}

/// Returns the first and the last time of each iteration that any `changes.log` names.
fn iteration_times(files: &BTreeMap<String, String>) -> BTreeMap<u32, (String, String)> {
    let mut times: BTreeMap<u32, (String, String)> = BTreeMap::new();
    for (_, text) in files.iter().filter(|(path, _)| path.ends_with("changes.log")) {
        for line in text.lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
            let Some(iteration) = value["iteration"].as_u64().and_then(|number| u32::try_from(number).ok())
            else {
                continue;
            };
            let time = value["timestamp"].as_str().unwrap_or_default().to_owned();
            let (first, last) = times.entry(iteration).or_insert_with(|| (time.clone(), time.clone()));
            if time < *first {
                first.clone_from(&time);
            }
            if time > *last {
                last.clone_from(&time);
            }
        }
    }
    times.retain(|number, _| *number < 10_000);
    times
}

/// Returns whether the `changes.log` of a role has a line of the iteration; for `cd`, the marker that closes its code.
fn has_reported(files: &BTreeMap<String, String>, role: Role, iteration: u32) -> bool {
    let Some(log) = files.get(&format!("{role}/changes.log")) else { return false };
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.any(|line| {
        line["iteration"] == iteration && (role != Role::Developer || line.get("marker").is_some())
    })
}
