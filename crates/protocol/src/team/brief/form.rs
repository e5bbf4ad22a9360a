//! The form of a report, with an example that the report of the step can follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::super::definition::{Definition, ModeChoice};
use super::super::document::Document;
use super::super::report::plan::{self};
use super::super::state::Stage;
use super::super::step::{PmStep, Role, Step};
use crate::report::{ReportFields, ReportForm};

/// Returns the form of the step's report. Its example is a report of success, which rehearsals use.
pub(super) fn form(definition: &Definition, document: &Document, step: &Step) -> ReportForm {
    let counts = json!({
        "type": "object", "required": ["total", "passed", "failed"],
        "properties": {
            "total": { "type": "integer" }, "passed": { "type": "integer" }, "failed": { "type": "integer" },
        },
    });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let (example, schema, rules) = match step {
        Step::Pm(PmStep::Plan) => (
            example_plan(definition, document),
            plan::schema(),
            "`verdict` is PLANNING_COMPLETE; every task is in exactly one group, every criterion names tasks. The groups may \
             be written into `coordination/pm_state.json` instead.",
        ),
        Step::Pm(PmStep::Check) => {
            let mut schema = plan::schema();
            schema["required"] = json!(["verdict"]);
            schema["properties"]["verdict"] = json!({ "enum": ["BAZINGA", "CONTINUE"] });
            (
                json!({ "verdict": "BAZINGA" }),
                schema,
                "`verdict` is BAZINGA if the request is fulfilled, or CONTINUE with new `all_tasks` and `task_groups`.",
            )
        }
        Step::Group(_, Role::Developer) => (
            json!({
                "verdict": "READY_FOR_QA", "summary": "Implemented the tasks of the group.",
                "unit_tests": { "total": 3, "passed": 3, "failed": 0 },
            }),
            json!({
                "type": "object", "required": ["verdict", "summary"],
                "properties": {
                    "verdict": { "enum": ["READY_FOR_QA", "READY_FOR_REVIEW", "BLOCKED", "INCOMPLETE", "ERROR"] },
                    "summary": { "type": "string" }, "blocker": { "type": "string" }, "unit_tests": counts,
                },
            }),
            "`verdict` is one word; with BLOCKED say in `blocker` what you need. Setting the `status` of your group in \
             `coordination/group_status.json` to `waiting_qa`, `waiting_review` or `dev_blocked` means the same.",
        ),
        Step::Group(_, Role::Qa) => (
            json!({
                "verdict": "PASS", "summary": "All tests passed.",
                "integration_tests": { "total": 2, "passed": 2, "failed": 0 },
                "contract_tests": { "total": 1, "passed": 1, "failed": 0 },
                "e2e_tests": { "total": 1, "passed": 1, "failed": 0 },
                "findings": [],
            }),
            json!({
                "type": "object", "required": ["verdict"],
                "properties": {
                    "verdict": { "enum": ["PASS", "FAIL", "BLOCKED", "FLAKY"] },
                    "summary": { "type": "string" }, "findings": texts, "blocker": { "type": "string" },
                    "integration_tests": counts, "contract_tests": counts, "e2e_tests": counts,
                },
            }),
            "`verdict` is one word; with FAIL say in `findings` what failed and how to see it. Setting the `status` of the \
             group in `coordination/group_status.json` to `waiting_review` (PASS) or `qa_failed` means the same.",
        ),
        Step::Group(id, Role::TechLead) => {
            let unblocks =
                document.groups.get(id).is_some_and(|group| matches!(group.stage, Stage::Unblock(_)));
            let words =
                if unblocks { json!(["unblocked"]) } else { json!(["approved", "changes_requested"]) };
            let example = if unblocks {
                json!({ "verdict": "unblocked", "feedback": "Use the interface that exists already." })
            } else {
                json!({
                    "verdict": "approved", "feedback": "Clean and well tested.", "issues": [],
                    "actionable_items": [], "code_quality_score": 9, "security_issues_count": 0,
                })
            };
            (
                example,
                json!({
                    "type": "object", "required": ["verdict", "feedback"],
                    "properties": {
                        "verdict": { "enum": words }, "feedback": { "type": "string" },
                        "issues": { "type": "array", "items": {
                            "type": "object", "required": ["priority", "title"],
                            "properties": {
                                "priority": { "enum": ["critical", "high", "medium", "low"] },
                                "title": { "type": "string" }, "location": { "type": "string" },
                                "description": { "type": "string" }, "fix_suggestion": { "type": "string" },
                            },
                        } },
                        "actionable_items": texts, "code_quality_score": { "type": "number" },
                        "security_issues_count": { "type": "integer" },
                    },
                }),
                "`verdict` is one word. Setting the `status` of the group in `coordination/group_status.json` to `complete` \
                 (approved), `changes_requested`, or `dev_working` (unblocked) means the same.",
            )
        }
        Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge)
        | Step::Group(_, Role::Merge | Role::Decision) => return ReportForm::Plain,
    };
    let example = match example {
        Value::Object(example) => example,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    ReportForm::Fields(Arc::new(ReportFields {
        example,
        schema,
        rules: rules.to_owned(),
        rehearsed_files: rehearsed_files(document, step),
    }))
}

/// Returns the files that a rehearsed developer writes: those of the plan that are no patterns, or else one of its own.
fn rehearsed_files(document: &Document, step: &Step) -> BTreeMap<String, String> {
    let Step::Group(id, Role::Developer) = step else { return BTreeMap::new() };
    let files = document.planned(id).map(|group| group.files_affected.clone()).unwrap_or_default();
    let is_file = |file: &String| !file.contains(['*', '?', '[', '{']) && !file.ends_with('/');
    let mut files: Vec<_> = files.into_iter().filter(is_file).collect();
    if files.is_empty() {
        files.push(format!("rehearsed-{id}.txt"));
    }
    files.into_iter().map(|file| (file, format!("rehearsed by group {id}\n"))).collect()
}

/// Returns an example plan that would be accepted: two groups; one group in the mode `simple`; or one group that replaces the
/// group to split.
fn example_plan(definition: &Definition, document: &Document) -> Value {
    match document.splitting().and_then(|id| document.planned(id)) {
        Some(group) => json!({
            "verdict": "PLANNING_COMPLETE", "all_tasks": [], "success_criteria": [],
            "task_groups": [{
                "id": format!("{}1", group.id), "name": group.name, "tasks": group.tasks,
                "files_affected": group.files_affected,
            }],
        }),
        None if definition.mode == ModeChoice::Simple => json!({
            "verdict": "PLANNING_COMPLETE", "mode": "simple", "mode_reasoning": "The user chose it.",
            "all_tasks": [{ "id": "T1", "description": "The request" }],
            "task_groups": [{
                "id": "main", "name": "The request", "tasks": ["T1"], "files_affected": ["first.txt"],
                "complexity": "low", "estimated_effort_minutes": 10,
            }],
            "success_criteria": [{ "id": "C1", "text": "The request is fulfilled", "tasks": ["T1"] }],
        }),
        None => json!({
            "verdict": "PLANNING_COMPLETE", "mode": "parallel",
            "mode_reasoning": "Two independent parts that change different files.",
            "all_tasks": [
                { "id": "T1", "description": "The first part of the request" },
                { "id": "T2", "description": "The second part of the request" },
            ],
            "task_groups": [
                {
                    "id": "A", "name": "First part", "tasks": ["T1"], "files_affected": ["first.txt"],
                    "can_parallel": true, "depends_on": [], "complexity": "low", "estimated_effort_minutes": 10,
                },
                {
                    "id": "B", "name": "Second part", "tasks": ["T2"], "files_affected": ["second.txt"],
                    "can_parallel": true, "depends_on": [], "complexity": "low", "estimated_effort_minutes": 10,
                },
            ],
            "execution_phases": match definition.limits.groups.get() {
                1 => json!([
                    { "phase_number": 1, "group_ids": ["A"] },
                    { "phase_number": 2, "group_ids": ["B"] },
                ]),
                _ => json!([{ "phase_number": 1, "group_ids": ["A", "B"] }]),
            },
            "success_criteria": [{ "id": "C1", "text": "Both parts are done", "tasks": ["T1", "T2"] }],
        }),
    }
}
