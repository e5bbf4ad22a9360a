//! The files of a cycle under `.workflow/.cycle/`: where they are, how they are written, and how they are read back.
//!
//! The master file is `ID.json`. Other files are in `ID.progress/`, in a directory for each phase: `ra` writes the
//! requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::document::{
    Document, Exploration, Feedback, FileChange, MasterFile, Plan, Requirements, TestResults,
};
use super::report::TestCounts;
use super::step::Role;
use crate::checks::CheckResult;
use crate::protocol_trait::View;

/// The pattern for git's `info/exclude`.
pub(super) const VIEWS: &str = "/.workflow/.cycle/";
/// Where the files of all cycles are, relative to the repository.
pub const DIRECTORY: &str = ".workflow/.cycle";

pub(super) const REQUIREMENTS: &str = "ra/requirements.md";
pub(super) const RA_LOG: &str = "ra/changes.log";
pub(super) const EXPLORATION: &str = "ep/exploration.md";
pub(super) const ARCHITECTURE: &str = "ep/architecture.md";
pub(super) const PLAN: &str = "ep/plan.json";
pub(super) const IMPLEMENTATION: &str = "cd/implementation.md";
pub(super) const ISSUES: &str = "cd/issues.md";
pub(super) const CHANGES: &str = "cd/changes.log";
pub(super) const DEBUG_LOG: &str = "cd/debug-log.ndjson";
pub(super) const TEST_RESULTS: &str = "vas/test-results.json";
pub(super) const VALIDATION: &str = "vas/validation.md";
pub(super) const COVERAGE: &str = "vas/coverage.md";
pub(super) const VAS_SUMMARY: &str = "vas/summary.md";
pub(super) const TIMELINE: &str = "coordination/timeline.md";
pub(super) const DECISIONS: &str = "coordination/decisions.log";
pub(super) const FEEDBACK: &str = "coordination/feedback.md";
pub(super) const SUMMARY: &str = "coordination/summary.md";

/// Returns the path of a file of `ID.progress/`, relative to the repository.
pub(super) fn progress_path(cycle: &str, file: &str) -> String {
    format!("{DIRECTORY}/{cycle}.progress/{file}")
}

/// Returns where the old version of a file is kept: `ra/history/requirements-v1.0.0.md`.
pub(super) fn history_path(file: &str, version: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "txt"));
    format!("{folder}/history/{stem}-v{version}.{extension}")
}

/// Returns all files that show the document: the master file, and those under `.progress/`.
pub(super) fn views(document: &Document) -> Vec<View> {
    let (repo, cycle) = (&document.engine.repo_dir, &document.master_file.cycle_id);
    let view = |path: String, body: String| View { path: format!("{repo}/{path}"), body };
    let master = view(format!("{DIRECTORY}/{cycle}.json"), master(&document.master_file));
    let files = document.files.iter().map(|(path, body)| view(progress_path(cycle, path), body.clone()));
    let logs = document
        .logs
        .iter()
        .map(|(path, log)| view(progress_path(cycle, path), log.values().map(String::as_str).collect()));
    let feedback = &document.master_file.coordination.feedback_log;
    let feedback =
        (!feedback.is_empty()).then(|| view(progress_path(cycle, FEEDBACK), feedback_notes(feedback)));
    std::iter::once(master).chain(files).chain(logs).chain(feedback).collect()
}

/// Returns the body of the master file.
pub(super) fn master(state: &MasterFile) -> String {
    serde_json::to_string_pretty(state).expect("BUG: a document is plain data") + "\n"
}

fn feedback_notes(log: &[Feedback]) -> String {
    let entry = |Feedback { timestamp, source, target, content, kind, iteration, .. }: &Feedback| {
        let iteration = iteration.map(|number| format!(", iteration {number}")).unwrap_or_default();
        format!("[{timestamp}] {source} → {target} ({}{iteration}): {content}", kind.as_str())
    };
    let mut text = "# Feedback\n\n".to_owned();
    push_list(&mut text, &log.iter().map(entry).collect::<Vec<_>>());
    text
}

/// Reads a `feedback.md` back.
pub(super) fn parse_feedback(text: &str) -> Vec<Feedback> {
    let parse = |item: String| {
        let (timestamp, rest) = item.strip_prefix('[')?.split_once("] ")?;
        let (source, rest) = rest.split_once(" → ")?;
        let (target, rest) = rest.split_once(" (")?;
        let (kind, content) = rest.split_once("): ")?;
        let (kind, iteration) = kind.split_once(", iteration ").unwrap_or((kind, ""));
        Some(Feedback {
            timestamp: timestamp.to_owned(),
            source: source.to_owned(),
            target: target.to_owned(),
            content: content.to_owned(),
            kind: serde_json::from_value(kind.into()).ok()?,
            iteration: iteration.parse().ok(),
            ..Feedback::default()
        })
    };
    parse_list(text).into_iter().filter_map(parse).collect()
}

/// What a `timeline.md` says about an iteration.
#[derive(Debug, Default)]
pub(super) struct TimelineSection {
    pub(super) started: String,
    pub(super) ended: String,
    /// The task in the first iteration, the extension in later ones.
    pub(super) from_user: Option<String>,
    /// When each role has reported, and its message.
    pub(super) reports: BTreeMap<Role, (String, String)>,
    pub(super) open_issues: Vec<String>,
    pub(super) is_resolved: bool,
}

/// Reads a `timeline.md` back. An iteration is appended to it when it ends.
pub(super) fn parse_timeline(text: &str) -> BTreeMap<u32, TimelineSection> {
    let sections = text.split("\n## Iteration ").filter_map(|section| section.split_once('\n'));
    sections
        .filter_map(|(heading, body)| Some((heading.parse().ok()?, parse_timeline_section(body))))
        .collect()
}

fn parse_timeline_section(body: &str) -> TimelineSection {
    let mut section = TimelineSection::default();
    for item in parse_list(body) {
        if let Some(issue) = item.strip_prefix("open: ") {
            section.open_issues.push(issue.to_owned());
            continue;
        }
        let Some((time, rest)) = item.strip_prefix('[').and_then(|rest| rest.split_once("] ")) else {
            continue;
        };
        match rest.split_once(": ") {
            Some(("engine", "iteration started")) => time.clone_into(&mut section.started),
            Some(("engine", end)) => {
                time.clone_into(&mut section.ended);
                section.is_resolved = end == "iteration completed";
            }
            Some(("user", text)) => section.from_user = Some(text.to_owned()),
            Some((name, report)) => {
                let role = Role::ALL.into_iter().find(|role| role.as_str() == name);
                let message = report.split_once(", ").map_or("", |(_, message)| message);
                section.reports.extend(role.map(|role| (role, (time.to_owned(), message.to_owned()))));
            }
            None => {}
        }
    }
    section
}

/// Returns the value of a field of the final report: `TIME` for the field `Ended` in the line `- Ended: TIME`.
pub(super) fn summary_value<'a>(summary: &'a str, field: &str) -> Option<&'a str> {
    summary.lines().find_map(|line| line.strip_prefix("- ")?.strip_prefix(field)?.strip_prefix(": "))
}

/// The title of a Markdown file, and what it says about its version.
pub(super) struct Heading<'a> {
    pub(super) title: &'a str,
    pub(super) version: &'a str,
    pub(super) previous: Option<&'a str>,
    pub(super) iteration: u32,
    pub(super) updated: &'a str,
    pub(super) summary: &'a str,
}

/// Returns a Markdown file: its heading, then the body.
pub(super) fn page(heading: &Heading<'_>, body: &str) -> String {
    let Heading { title, version, previous, iteration, updated, summary } = heading;
    format!(
        "# {title} - v{version}\n\n| Field | Value |\n|---|---|\n| Version | {version} |\n| Previous Version | {} |\n\
         | This Version | {} |\n| Iteration | {iteration} |\n| Updated | {updated} |\n\n{}\n",
        previous.unwrap_or("none"),
        cell(summary),
        body.trim_end()
    )
}

/// Returns a text that fits into the cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

const EDGE_CASES: &str = "\n<!-- edge cases -->\n\n## Edge Cases\n\n";
const VERSIONS: &str = "\n<!-- version history -->\n\n## Version History\n\n";

/// Returns the body of `requirements.md`. `log` is the text of `ra/changes.log`, which has a line per version.
pub(super) fn requirements(requirements: &Requirements, log: &str) -> String {
    let mut text = requirements.specification.trim_end().to_owned();
    text.push('\n');
    if !requirements.edge_cases.is_empty() {
        text.push_str(EDGE_CASES);
        push_list(&mut text, &requirements.edge_cases);
    }
    let versions = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let row = |line: Value| {
        let field = |name: &str| cell(line[name].as_str().unwrap_or_default());
        format!("| {} | {} | {} |\n", field("version"), field("timestamp"), field("change"))
    };
    let rows: String = versions.map(row).collect();
    if !rows.is_empty() {
        text.push_str(VERSIONS);
        text.push_str("| Version | Date | Change |\n|---|---|---|\n");
        text.push_str(&rows);
    }
    text
}

/// Reads a `requirements.md` back.
pub(super) fn parse_requirements(text: &str) -> Requirements {
    let (heading, body) = split_heading(text);
    let body = body.rsplit_once(VERSIONS).map_or(body, |(body, _)| body);
    let (specification, edge_cases) = match body.rsplit_once(EDGE_CASES) {
        Some((specification, edge_cases)) => (specification, parse_list(edge_cases)),
        None => (body, Vec::new()),
    };
    Requirements {
        version: heading_value(heading, "Version").unwrap_or_default(),
        specification: specification.trim_end().to_owned(),
        edge_cases,
        last_updated: heading_value(heading, "Updated").unwrap_or_default(),
        ..Requirements::default()
    }
}

const INTEGRATION: &str = "\n\n## Integration Points\n\n";
const RISKS: &str = "\n\n## Identified Risks\n\n";

/// Returns the body of `exploration.md`.
pub(super) fn exploration(exploration: &Exploration) -> String {
    let mut text = exploration.architecture_summary.trim_end().to_owned();
    text.push_str(INTEGRATION);
    push_list(&mut text, &exploration.integration_points);
    text.truncate(text.trim_end().len());
    text.push_str(RISKS);
    push_list(&mut text, &exploration.identified_risks);
    text
}

/// Reads an `exploration.md` back.
pub(super) fn parse_exploration(text: &str) -> Exploration {
    let (heading, body) = split_heading(text);
    // The last ones, because the summary may have such sections of its own. An empty section ends with its heading.
    let (body, risks) = body.rsplit_once(RISKS.trim_end()).unwrap_or((body, ""));
    let (summary, points) = body.rsplit_once(INTEGRATION.trim_end()).unwrap_or((body, ""));
    Exploration {
        version: heading_value(heading, "Version").unwrap_or_default(),
        architecture_summary: summary.trim_end().to_owned(),
        integration_points: parse_list(points),
        identified_risks: parse_list(risks),
        last_updated: heading_value(heading, "Updated").unwrap_or_default(),
        ..Exploration::default()
    }
}

/// Returns the text of a Markdown file below its heading.
pub(super) fn body_of(text: &str) -> &str {
    split_heading(text).1.trim_end()
}

/// Appends a Markdown list.
pub(super) fn push_list(text: &mut String, items: &[String]) {
    for item in items {
        writeln!(text, "- {}", item.replace('\n', "\n  ")).expect("BUG: a string takes all");
    }
}

/// Returns the items of a Markdown list; other lines are ignored.
pub(super) fn parse_list(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("- "), line.strip_prefix("  "), items.last_mut()) {
            (Some(item), ..) => items.push(item.to_owned()),
            (None, Some(more), Some(last)) => {
                last.push('\n');
                last.push_str(more);
            }
            (None, ..) => {}
        }
    }
    items
}

/// Splits a Markdown file into its heading, with the table, and its body.
fn split_heading(text: &str) -> (&str, &str) {
    let table_end = text
        .find("| Updated |")
        .and_then(|at| text[at..].find("\n\n").map(|length| at + length + 2))
        .filter(|_| text.starts_with("# "));
    text.split_at(table_end.unwrap_or(0))
}

/// Returns the version in the heading of a file.
pub(super) fn version_of(text: &str) -> Option<String> {
    heading_value(split_heading(text).0, "Version")
}

fn heading_value(heading: &str, field: &str) -> Option<String> {
    let row = format!("| {field} | ");
    let line = heading.lines().find_map(|line| line.strip_prefix(&row))?;
    line.strip_suffix(" |").map(str::to_owned)
}

/// Returns `plan.json`: the plan without the fields that only the master file has.
pub(super) fn plan(plan: &Plan) -> String {
    let tasks = plan.tasks.iter().map(|task| {
        let mut task = serde_json::to_value(task).unwrap_or_default();
        if let Some(task) = task.as_object_mut() {
            task.shift_remove("status");
            task.shift_remove("assigned_to");
        }
        task
    });
    let mut file = json!({
        "version": plan.version,
        "total_tasks": plan.tasks.len(),
        "estimated_duration": plan.total_estimated_effort,
        "tasks": tasks.collect::<Vec<_>>(),
        "critical_path": plan.critical_path,
        "last_updated": plan.last_updated,
    });
    file["parallel_opportunities"] =
        plan.unknown.get("parallel_opportunities").cloned().unwrap_or_else(|| json!([]));
    format!("{file:#}\n")
}

/// Reads a `plan.json` back. The statuses of the tasks are not in it.
pub(super) fn parse_plan(text: &str) -> Result<Plan, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut plan: Plan = serde_json::from_value(file.clone()).map_err(|error| error.to_string())?;
    plan.total_estimated_effort = file["estimated_duration"].as_str().unwrap_or_default().to_owned();
    for derived in ["total_tasks", "estimated_duration"] {
        plan.unknown.shift_remove(derived);
    }
    Ok(plan)
}

/// Returns a line of `cd/changes.log`.
pub(super) fn change_line(change: &FileChange) -> String {
    serde_json::to_string(change).expect("BUG: a change is plain data") + "\n"
}

/// Returns the line of `cd/changes.log` that marks the end of coding in an iteration.
pub(super) fn marker_line(iteration: u32, time: &str) -> String {
    format!("{}\n", json!({ "timestamp": time, "iteration": iteration, "marker": "iteration closed" }))
}

/// Returns a line of `cd/debug-log.ndjson`.
pub(super) fn debug_line(entry: &Map<String, Value>, iteration: u32, time: &str) -> String {
    let mut line = Map::from_iter([
        ("timestamp".to_owned(), Value::from(time)),
        ("iteration".to_owned(), iteration.into()),
    ]);
    line.extend(entry.clone());
    format!("{}\n", Value::Object(line))
}

/// Returns `test-results.json`. `claims` are the figures that the agent reported.
pub(super) fn test_results(
    results: &TestResults,
    iteration: u32,
    counts: TestCounts,
    checks: &[CheckResult],
    claims: &Value,
) -> String {
    let suites = checks.iter().map(|check| {
        json!({
            "name": check.name, "command": check.command, "exit_code": check.exit_code, "passed": check.passed(),
            "duration_ms": check.duration_ms, "tree": check.tree, "output_digest": check.output_digest,
        })
    });
    let suites: Vec<_> = suites.collect();
    let duration: u64 = checks.iter().map(|check| check.duration_ms).sum();
    let source = |field: &str| results.unknown.get(field).cloned().unwrap_or_else(|| "claim".into());
    let file = json!({
        "version": results.version,
        "timestamp": results.last_run,
        "iteration": iteration,
        "source": source("source"),
        "summary": {
            "total": counts.total() + counts.skipped, "passed": counts.passed, "failed": counts.failed,
            "skipped": counts.skipped, "duration_ms": duration,
        },
        "failed_tests": results.failed_tests,
        "by_suite": suites,
        "coverage": { "lines": results.coverage, "source": source("coverage_source") },
        "claims": claims,
    });
    format!("{file:#}\n")
}

/// Reads a `test-results.json` back. Its `total` includes skipped tests; `total_tests` of the master file does
/// not.
pub(super) fn parse_test_results(text: &str) -> Result<TestResults, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let summary = &file["summary"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let skipped = number(&summary["skipped"]);
    let total = number(&summary["total"]).saturating_sub(skipped);
    let coverage = &file["coverage"];
    let lines = coverage.as_number().or_else(|| coverage["lines"].as_number());
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let listed = file["failed_tests"].as_array().map(|tests| tests.iter().filter_map(string).collect());
    let from_suites = || {
        let suites = file["by_suite"].as_array().into_iter().flatten();
        let cases = suites.flat_map(|suite| suite["tests"].as_array().into_iter().flatten());
        let failed = cases.filter(|case| case["status"] == "failed");
        failed.filter_map(|case| string(&case["name"])).collect()
    };
    let mut unknown = Map::new();
    for (field, source) in [("source", file.get("source")), ("coverage_source", coverage.get("source"))] {
        unknown.extend(source.map(|source| (field.to_owned(), source.clone())));
    }
    Ok(TestResults {
        version: file["version"].as_str().unwrap_or_default().to_owned(),
        pass_rate: super::report::percent(number(&summary["passed"]), total),
        coverage: lines.cloned().unwrap_or_else(|| 0.into()),
        failed_tests: listed.unwrap_or_else(from_suites),
        total_tests: total,
        last_run: file["timestamp"].as_str().unwrap_or_default().to_owned(),
        unknown,
    })
}
