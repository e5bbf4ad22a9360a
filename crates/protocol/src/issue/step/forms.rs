//! The forms of the agents' reports: an example, a JSON Schema, and the rules that a schema cannot say.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Agent, Step};
use crate::issue::definition::Definition;
use crate::report::{ReportFields, ReportForm};

/// The rule about questions, escalations and observations. It applies to every agent except when it answers a question.
const ASKING: &str = "You may ask another agent (`triage`, `analyst`, `writer`, `reviewer`) or `human` by \
    `\"communication\": {\"questions\": [{\"to\": \"analyst\", \"question\": \"…\"}]}` or `callboard ask`, and escalate by \
    `\"communication\": {\"escalations\": [{\"reason\": \"…\", \"requires_human\": true}]}` or `callboard escalate` (without a person, another agent decides); then end, and you are asked again \
    with the answers. What you noticed for later runs goes into \
    `\"learnings\": {\"observations\": [{\"type\": \"pattern_discovered\", \"content\": \"…\"}]}`. Instead of reporting you may \
    edit `issue-state.json` in your working directory.";

/// Returns what the report of a step contains.
pub(in crate::issue) fn form(definition: &Definition, step: Step) -> ReportForm {
    let number = definition.issue.number;
    let (example, properties, rules) = match step {
        Step::Triage => (
            json!({ "triage": { "scope": "SMALL", "complexity": "simple", "should_proceed": true, "rejection_reason": null } }),
            json!({ "triage": {
                "type": "object",
                "required": ["should_proceed"],
                "properties": {
                    "scope": { "enum": ["SMALL", "MEDIUM", "LARGE"] },
                    "complexity": { "enum": ["simple", "moderate", "complex"] },
                    "should_proceed": { "type": "boolean" },
                    "rejection_reason": { "type": ["string", "null"] },
                },
            } }),
            "`rejection_reason` is required if `should_proceed` is false.",
        ),
        Step::Analyst => (
            json!({ "analysis": {
                "issue_type": "BUG_FIX",
                "files": [{ "path": example_file(number), "purpose": "shows the change", "action": "create" }],
                "patterns": [],
                "test_requirement": { "required": false, "type": null, "location": null, "description": null },
                "must_do": ["Solve the issue"],
                "must_not_do": [],
                "brief": "Write the file that the issue asks for.",
            } }),
            json!({ "analysis": {
                "type": "object",
                "required": ["issue_type", "test_requirement", "brief"],
                "properties": {
                    "issue_type": { "enum": ["BUG_FIX", "NEW_FEATURE", "REFACTOR_STYLE"] },
                    "files": objects(&["path", "purpose", "action"]),
                    "patterns": texts(),
                    "test_requirement": { "type": "object", "required": ["required"] },
                    "must_do": texts(),
                    "must_not_do": texts(),
                    "brief": { "type": "string" },
                },
            } }),
            "`brief` is not empty.",
        ),
        Step::Writer => (
            json!({ "writer": {
                "changes": [{ "file": example_file(number), "description": "Added the file" }],
                "test_written": false,
                "test_file": null,
                "summary": "Adds the file that the issue asks for.",
            } }),
            json!({ "writer": {
                "type": "object",
                "required": ["changes", "summary"],
                "properties": {
                    "changes": objects(&["file", "description"]),
                    "test_written": { "type": "boolean" },
                    "test_file": { "type": ["string", "null"] },
                    "summary": { "type": "string" },
                },
            } }),
            "`summary` is not empty.",
        ),
        Step::Reviewer => (
            json!({ "review": {
                "verdict": "APPROVED",
                "findings": { "good": ["The change is minimal"], "issues": [] },
                "feedback_for_writer": null,
            } }),
            json!({ "review": {
                "type": "object",
                "required": ["verdict"],
                "properties": {
                    "verdict": { "enum": ["APPROVED", "REJECTED", "NEEDS_INFO"] },
                    "findings": { "type": "object" },
                    "feedback_for_writer": { "type": ["string", "null"] },
                },
            } }),
            "REJECTED needs `feedback_for_writer`, NEEDS_INFO a question.",
        ),
        Step::Answer(_) => (
            json!({ "answer": "The answer to the question." }),
            json!({ "answer": { "type": "string" } }),
            "`answer` is not empty.",
        ),
        Step::Diff
        | Step::Build
        | Step::Commit
        | Step::Push
        | Step::PullRequest
        | Step::Comment
        | Step::Close
        | Step::Person => return ReportForm::Plain,
    };
    let is_answer = matches!(step, Step::Answer(_));
    let rules = if is_answer { rules.to_owned() } else { format!("{rules} {ASKING}") };
    let schema = json!({ "type": "object", "properties": properties });
    let example = example.as_object().cloned().unwrap_or_default();
    let mut rehearsed_files = std::collections::BTreeMap::new();
    if step == Step::Writer {
        rehearsed_files.insert(example_file(number), format!("A rehearsal of issue {number}.\n"));
    }
    ReportForm::Fields(Arc::new(ReportFields { example, schema, rules, rehearsed_files }))
}

/// Returns the file that the writer of a rehearsal makes.
pub fn example_file(number: u64) -> String {
    format!("callboard-rehearsal-issue-{number}.md")
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn objects(required: &[&str]) -> Value {
    json!({ "type": "array", "items": { "type": "object", "required": required } })
}

/// Checks that a report has the section of its agent, which is a member of `issue-state.json`. Instead it may ask
/// something, or block the run by `pipeline`.
pub(in crate::issue) fn check(step: Step, report: &crate::report::Report) -> Result<(), String> {
    let Some(agent) = step.agent().filter(|_| report.status == crate::report::Status::Completed) else {
        return Ok(());
    };
    let has = |field: &str| report.extra_fields.contains_key(field);
    let field = if let Step::Answer(_) = step { "answer" } else { Agent::section(agent) };
    let asks_or_blocks = field != "answer" && (has("communication") || has("pipeline"));
    if has(field) || asks_or_blocks { Ok(()) } else { Err(format!("the report has no field `{field}`")) }
}
