//! Rebuilds the document of a cycle whose store and master file (`ID.json`) are lost, from the files in `ID.progress/`.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::definition::{DEFAULT_MAX_ITERATIONS, title_of};
use super::document::{Changes, Feedback, FeedbackKind, FileChange};
use super::layout::{self, TimelineSection};
use super::step::Role;

/// What could be rebuilt, and what could not.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    pub document: Value,
    /// What is lost, in a sentence each.
    pub lost: Vec<String>,
}

/// Rebuilds the document of a cycle. `files` are those in `ID.progress/`, by relative path.
pub fn rebuild(cycle: &str, files: &BTreeMap<String, String>) -> Rebuilt {
    let text = |path: &str| files.get(path).map_or("", String::as_str);
    let feedback = layout::parse_feedback(text(layout::FEEDBACK));
    let timeline = layout::parse_timeline(text(layout::TIMELINE));
    let summary = text(layout::SUMMARY);
    let summary_value = |field: &str| layout::summary_value(summary, field);
    let reported = reported_roles(files);
    let extensions = extensions(&feedback, &timeline);
    let numbers = reported.keys().chain(timeline.keys()).chain(extensions.keys());
    let current = numbers.copied().filter(|number| *number <= MAX_ITERATION).max().unwrap_or(1).max(1);
    let iterations: Vec<_> = (1..=current)
        .map(|number| {
            let extension = extensions.get(&number).map(String::as_str);
            iteration(number, reported.get(&number), timeline.get(&number), extension, number < current)
        })
        .collect();
    let created =
        summary_value("Started").or_else(|| iterations[0]["started_at"].as_str()).unwrap_or_default();
    let (mut sections, unreadable) = read_sections(files, &reported);
    let mut lost = unreadable.iter().map(|(_, error)| error.clone()).collect::<Vec<_>>();
    let errors: Vec<_> = unreadable
        .into_iter()
        .map(|(phase, error)| {
            json!({ "phase": phase, "error": format!("rebuild: {error}"), "timestamp": created })
        })
        .collect();
    let done: Vec<_> = Role::ALL
        .into_iter()
        .take_while(|role| reported.get(&current).is_some_and(|roles| roles.contains_key(role)))
        .collect();
    let task = timeline.get(&1).and_then(|first| first.from_user.clone());
    if task.is_none() {
        lost.push(
            "the task: no iteration has ended, so that only the store and the master file have it".to_owned(),
        );
    }
    let title = summary.lines().next().and_then(|line| line.strip_prefix("# ")).map(str::to_owned);
    let title = title.or_else(|| task.as_deref().map(title_of)).unwrap_or_else(|| cycle.to_owned());
    let task = task.unwrap_or_else(|| title.clone());
    let history: Vec<_> = std::iter::once(&task).chain(extensions.values()).collect();
    let added = extensions.iter().map(|(number, text)| format!("\n\n--- ITERATION {number} ---\n{text}"));
    let description = task.clone() + &added.collect::<String>();
    let agents: Map<_, _> = Role::ALL
        .into_iter()
        .map(|role| {
            let completed = reported.values().filter(|roles| roles.contains_key(&role)).count();
            let status = if done.contains(&role) { "completed" } else { "idle" };
            let mut agent = json!({ "status": status, "iterations_completed": completed });
            if let Some((time, message)) =
                timeline.get(&current).and_then(|section| section.reports.get(&role))
            {
                (agent["completed_at"], agent["last_message"]) = (json!(time), json!(message));
            }
            (role.to_string(), agent)
        })
        .collect();
    // In `aggregation` all four have reported, and the iteration is judged.
    let phase = Role::ALL.get(done.len()).map_or("aggregation", |role| role.as_str());
    let mut rebuilt = json!({
        "cycle_id": cycle, "title": title, "description": description, "task_history": history, "status": "running",
        "created_at": created, "updated_at": created, "max_iterations": DEFAULT_MAX_ITERATIONS.max(current),
        "current_iteration": current, "agents": agents, "current_phase": phase, "completed_phases": done,
        "phase_errors": errors, "iterations": iterations, "coordination": { "feedback_log": feedback },
    });
    // The final report is about the current iteration only if the cycle was completed with it.
    let limit = summary_value("Iterations")
        .and_then(|value| value.strip_prefix(&format!("{current} of "))?.parse::<u32>().ok())
        .filter(|_| done.len() == Role::ALL.len());
    let nothing_is_open = limit.is_some() && summary_value("Open issues") == Some("0");
    if let Some(limit) = limit {
        rebuilt["status"] = "completed".into();
        rebuilt["current_phase"] = "complete".into();
        rebuilt["completed_at"] = summary_value("Ended").into();
        rebuilt["max_iterations"] = limit.into();
    }
    let tasks = sections.get_mut("plan").and_then(|plan| plan["tasks"].as_array_mut());
    for task in tasks.into_iter().flatten().filter(|_| nothing_is_open) {
        task["status"] = "completed".into();
    }
    let mut missing = vec![
        "how many files each agent changed",
        "to whom tasks are assigned",
        "decisions and blockers, and whether a phase that has reported waits for one",
    ];
    if !timeline.contains_key(&current) {
        missing.push("the last message of each agent, and exactly when the last iteration began");
    }
    missing.extend(limit.is_none().then_some("the iteration limit"));
    missing.extend((!nothing_is_open).then_some("the statuses of tasks"));
    lost.extend(missing.iter().map(|what| format!("{what}: no file has it")));
    super::document::merge_partial(&mut rebuilt, &Value::Object(sections));
    Rebuilt { document: rebuilt, lost }
}

/// Reads the sections of the document that have a file of their own. Also returns the phase of each section that cannot be read,
/// and why. A section whose phase has never reported has no file yet.
fn read_sections(
    files: &BTreeMap<String, String>,
    reported: &BTreeMap<u32, ReportTimes>,
) -> (Map<String, Value>, Vec<(Role, String)>) {
    type Reader = fn(&str) -> Result<Value, String>;
    let sections: [(&str, Role, &str, Reader); 5] = [
        ("requirements", Role::Analyst, layout::REQUIREMENTS, |text| {
            Ok(json!(layout::parse_requirements(text)))
        }),
        ("exploration", Role::Planner, layout::EXPLORATION, |text| {
            Ok(json!(layout::parse_exploration(text)))
        }),
        ("plan", Role::Planner, layout::PLAN, |text| layout::parse_plan(text).map(|plan| json!(plan))),
        ("changes", Role::Developer, layout::CHANGES, |text| {
            read_changes(text).map(|changes| json!(changes))
        }),
        ("test_results", Role::Validator, layout::TEST_RESULTS, |text| {
            layout::parse_test_results(text).map(|results| json!(results))
        }),
    ];
    let (mut read, mut unreadable) = (Map::new(), Vec::new());
    for (name, role, path, parse) in sections {
        let has_reported = reported.values().any(|roles| roles.contains_key(&role));
        match files.get(path).map(|text| parse(text)) {
            Some(Ok(value)) => {
                read.insert(name.to_owned(), value);
            }
            None if has_reported => unreadable.push((role, format!("`{name}`: there is no file `{path}`"))),
            None => {}
            Some(Err(error)) => {
                unreadable.push((role, format!("`{name}`: `{path}` cannot be read: {error}")));
            }
        }
    }
    (read, unreadable)
}

/// Returns the extension of each iteration that has one. The timeline has those of iterations that have ended. Feedback has that
/// of the last one, too; older feedback may have been moved to a later iteration.
fn extensions(feedback: &[Feedback], timeline: &BTreeMap<u32, TimelineSection>) -> BTreeMap<u32, String> {
    let is_extension =
        |entry: &&Feedback| entry.source == "user" && entry.kind == FeedbackKind::RequirementUpdate;
    let from_feedback = feedback
        .iter()
        .filter(is_extension)
        .filter_map(|entry| Some((entry.iteration?, entry.content.clone())));
    let later = timeline.iter().filter(|(number, _)| **number > 1);
    let from_timeline = later.filter_map(|(number, section)| Some((*number, section.from_user.clone()?)));
    from_feedback.chain(from_timeline).collect()
}

fn iteration(
    number: u32,
    reported: Option<&ReportTimes>,
    section: Option<&TimelineSection>,
    extension: Option<&str>,
    is_followed: bool,
) -> Value {
    let times = || reported.into_iter().flat_map(BTreeMap::values);
    let first = times().map(|(first, _)| first).min();
    let last = times().map(|(_, last)| last).max();
    let results: Map<_, _> = reported
        .into_iter()
        .flat_map(BTreeMap::keys)
        .map(|role| (role.to_string(), json!({ "status": "completed" })))
        .collect();
    let mut iteration = json!({
        "number": number,
        "started_at": section.map(|section| &section.started).or(first).map_or("", String::as_str),
        "agent_results": results,
        "issues_found": section.map_or(&[][..], |section| &section.open_issues),
        "resolved": section.is_some_and(|section| section.is_resolved),
    });
    if let Some(text) = extension {
        iteration["extension"] = json!(text);
    }
    if section.is_some() || is_followed {
        iteration["completed_at"] =
            section.map(|section| &section.ended).or(last).map_or("", String::as_str).into();
    }
    iteration
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

/// Iterations with higher numbers are taken for typing errors.
const MAX_ITERATION: u32 = 10_000;

/// The roles that have reported in an iteration, each with the first and the last time of its lines.
type ReportTimes = BTreeMap<Role, (String, String)>;

/// Returns the roles that have reported, by iteration: those whose `changes.log` has a line of it. For `cd` that must be the
/// marker that its coding has ended, because each changed file is a line, too.
fn reported_roles(files: &BTreeMap<String, String>) -> BTreeMap<u32, ReportTimes> {
    let mut reported: BTreeMap<u32, ReportTimes> = BTreeMap::new();
    for role in Role::ALL {
        let Some(log) = files.get(&format!("{role}/changes.log")) else { continue };
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut times: BTreeMap<u32, (String, String)> = BTreeMap::new();
        let mut with_marker = BTreeSet::new();
        for line in lines {
            let number = line["iteration"].as_u64().and_then(|number| u32::try_from(number).ok());
            let Some(number) = number else { continue };
            let time = line["timestamp"].as_str().unwrap_or_default().to_owned();
            let (first, last) = times.entry(number).or_insert_with(|| (time.clone(), time.clone()));
            if time < *first {
                first.clone_from(&time);
            }
            if time > *last {
                *last = time;
            }
            if line.get("marker").is_some() {
                with_marker.insert(number);
            }
        }
        times.retain(|number, _| role != Role::Developer || with_marker.contains(number));
        for (number, times) in times {
            reported.entry(number).or_default().insert(role, times);
        }
    }
    reported
}
