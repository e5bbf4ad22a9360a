//! The rules of `issue-state.json`.

use serde_json::Value;

use super::document::Document;
use crate::check::{Location, Violation, ViolationCollector};
use crate::present::CheckedFile;

/// The fields with a closed set of values: section, field, values.
const ENUM_FIELDS: [(&str, &str, &[&str]); 7] = [
    ("issue", "type", &["BUG_FIX", "NEW_FEATURE", "REFACTOR_STYLE"]),
    ("analysis", "issue_type", &["BUG_FIX", "NEW_FEATURE", "REFACTOR_STYLE"]),
    ("pipeline", "status", &["in_progress", "completed", "failed", "blocked"]),
    ("triage", "scope", &["SMALL", "MEDIUM", "LARGE"]),
    ("triage", "complexity", &["simple", "moderate", "complex"]),
    ("review", "verdict", &["APPROVED", "REJECTED", "NEEDS_INFO"]),
    (
        "pipeline",
        "current_agent",
        &["triage", "analyst", "writer", "build", "builder", "reviewer", "committer"],
    ),
];

/// Checks a document, whole or partial.
pub fn check(value: &Value) -> CheckedFile {
    let (mut violations, mut warnings) = (ViolationCollector::default(), ViolationCollector::default());
    let document = Location::document();
    if !value.is_object() {
        violations.wrong_type(&document, value, "an object", "write a JSON object");
        return CheckedFile { violations: violations.0, ..CheckedFile::default() };
    }
    check_enums(value, &mut violations, &mut warnings);
    if let Err(error) = Document::default().merged(value) {
        violations.add("wrong-type", &document, error, "give the field the type that the format says");
    }
    check_relations(value, &mut violations);
    let summary = summary(value);
    CheckedFile { violations: violations.0, warnings: warnings.0, summary }
}

fn check_enums(value: &Value, violations: &mut ViolationCollector, warnings: &mut ViolationCollector) {
    let document = Location::document();
    for (section, field, values) in ENUM_FIELDS {
        check_enum(
            &document.field(section).field(field),
            &value[section][field],
            values,
            violations,
            warnings,
        );
    }
    let list = document.field("review").field("findings").field("issues");
    let issues = value["review"]["findings"]["issues"].as_array().into_iter().flatten();
    for (index, issue) in issues.enumerate() {
        let at = list.entry(index).field("severity");
        check_enum(&at, &issue["severity"], &["critical", "major", "minor"], violations, warnings);
    }
}

/// Checks that a text is one of `values`. A placeholder of the template, such as `A | B`, is a warning.
fn check_enum(
    at: &Location,
    value: &Value,
    values: &[&str],
    violations: &mut ViolationCollector,
    warnings: &mut ViolationCollector,
) {
    match value {
        Value::String(word) if values.contains(&word.as_str()) => {}
        Value::String(word) if word.contains(" | ") => warnings.add(
            "placeholder",
            at,
            format!("{} is the placeholder `{word}`", at.name),
            format!("choose one of {}", values.join(", ")),
        ),
        Value::String(word) => violations.add(
            "unknown-word",
            at,
            format!("{} is `{word}`", at.name),
            format!("use one of {}", values.join(", ")),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {}
    }
}

/// Checks rules about several fields.
fn check_relations(value: &Value, violations: &mut ViolationCollector) {
    let pipeline = Location::document().field("pipeline");
    let number = |field: &str| value["pipeline"][field].as_u64();
    if let Some(attempt) = number("attempt") {
        let max = number("max_attempts");
        if attempt < 1 || max.is_some_and(|max| attempt > max) {
            let at = pipeline.field("attempt");
            let message = match max {
                Some(max) => format!("attempt {attempt} is not between 1 and {max}"),
                None => format!("attempt {attempt} is less than 1"),
            };
            violations.add("attempt-range", &at, message, "count attempts from 1 to `max_attempts`");
        }
    }
    let has_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
    for (status, reason) in [("blocked", "blocked_reason"), ("failed", "failure_reason")] {
        if value["pipeline"]["status"] == status && !has_text(&value["pipeline"][reason]) {
            let message = format!("the pipeline is {status}, and `{reason}` is missing");
            violations.add("reason-missing", &pipeline, message, format!("say why in `{reason}`"));
        }
    }
    let commit = &value["commit"];
    if commit["completed"] == true && value["review"]["verdict"] != "APPROVED" {
        let at = Location::document().field("commit").field("completed");
        let message = "the commit is completed, and the review is not APPROVED".to_owned();
        violations.add("not-approved", &at, message, "commit only what was approved");
    }
    let questions = value["communication"]["questions"].as_array().into_iter().flatten();
    let list = Location::document().field("communication").field("questions");
    for (index, question) in questions.enumerate() {
        if question["answered"] == true && !has_text(&question["answer"]) {
            let message = format!("question {} is answered, and has no `answer`", index + 1);
            violations.add(
                "answer-missing",
                &list.entry(index),
                message,
                "write the answer, or set `answered` to false",
            );
        }
    }
}

fn summary(value: &Value) -> String {
    let text = |section: &str, field: &str| {
        let value = &value[section][field];
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    format!("issue {}, {}", text("issue", "number"), text("pipeline", "status"))
}

/// Recognises the file by its name or its sections.
pub(super) fn is_issue_state(name: &str, value: &Value) -> bool {
    let has = |section: &str| value.get(section).is_some_and(Value::is_object);
    name == super::document::FILE
        || (has("pipeline") && (has("issue") || has("review") || name == "state.json"))
}

/// Returns what is wrong with a stored document.
pub(super) fn violations(document: &Document) -> Vec<Violation> {
    check(&document.file_content()).violations
}
