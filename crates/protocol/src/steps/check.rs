//! The rules of `run_state.json`.
//!
//! They are checked on plain JSON, because an invalid document does not fit into a [`Document`]. Unknown fields are allowed.

use serde_json::{Map, Value};

use super::document::{Document, Status};
use crate::Timestamp;
use crate::check::{
    Location, Violation, ViolationCollector, artifact_path_problem, json_type, member_pointer,
};
use crate::closest;

/// Checks a typed document. Returns every violation.
pub fn check_document(document: &Document) -> Vec<Violation> {
    check(&serde_json::to_value(document).expect("BUG: a document is plain data"))
}

/// Checks any JSON. Returns every violation, in the order of the rules.
pub fn check(document: &Value) -> Vec<Violation> {
    let mut violations = ViolationCollector(Vec::new());
    let at = Location::document();
    let Value::Object(fields) = document else {
        violations.wrong_type(&at, document, "an object", "begin it with `{\"run_id\": …`");
        return violations.0;
    };
    let none = Map::new();
    let steps = fields.get("steps").and_then(Value::as_object).unwrap_or(&none);
    check_fields(&at, fields, &DOCUMENT_FIELDS, steps, &mut violations);
    for (id, step) in steps {
        let at = Location { pointer: member_pointer("/steps", id), name: format!("step `{id}`") };
        let Value::Object(fields) = step else {
            violations.wrong_type(&at, step, "an object", "give it the twelve fields of a step");
            continue;
        };
        check_fields(&at, fields, &STEP_FIELDS, steps, &mut violations);
        check_status(&at, fields, &mut violations);
    }
    violations.0
}

const STATUSES: [Status; 6] = [
    Status::Pending,
    Status::Running,
    Status::WaitingOnHuman,
    Status::Completed,
    Status::Failed,
    Status::Skipped,
];

/// What a field holds.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Path,
    Time,
    Status,
    Count,
    Artifacts,
    Metrics,
    Logs,
    /// The id of a step.
    Step,
    Steps,
}

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    kind: FieldType,
    /// Whether it may be null. It must be present in any case.
    nullable: bool,
}

const fn field(name: &'static str, kind: FieldType) -> Field {
    Field { name, kind, nullable: false }
}

const fn nullable_field(name: &'static str, kind: FieldType) -> Field {
    Field { name, kind, nullable: true }
}

const DOCUMENT_FIELDS: [Field; 8] = [
    field("run_id", FieldType::Text),
    field("workflow_name", FieldType::Text),
    field("repo_dir", FieldType::Path),
    field("reports_dir", FieldType::Path),
    field("manual_inputs_dir", FieldType::Path),
    field("created_at", FieldType::Time),
    field("updated_at", FieldType::Time),
    field("steps", FieldType::Steps),
];

const STEP_FIELDS: [Field; 12] = [
    field("status", FieldType::Status),
    field("attempts", FieldType::Count),
    field("iteration_count", FieldType::Count),
    nullable_field("report_path", FieldType::Path),
    nullable_field("started_at", FieldType::Time),
    nullable_field("ended_at", FieldType::Time),
    nullable_field("last_error", FieldType::Text),
    field("artifacts", FieldType::Artifacts),
    field("metrics", FieldType::Metrics),
    field("logs", FieldType::Logs),
    nullable_field("manual_input_path", FieldType::Path),
    nullable_field("blocked_by_loop", FieldType::Step),
];

type Fields = Map<String, Value>;

fn check_fields(
    at: &Location,
    fields: &Fields,
    known: &[Field],
    steps: &Fields,
    violations: &mut ViolationCollector,
) {
    for field in known {
        match fields.get(field.name) {
            None => missing(at, fields, field, known, violations),
            Some(Value::Null) if field.nullable => {}
            Some(value) => check_value(&at.field(field.name), field, value, steps, violations),
        }
    }
}

fn missing(
    at: &Location,
    fields: &Fields,
    field: &Field,
    known: &[Field],
    violations: &mut ViolationCollector,
) {
    let name = field.name;
    let unknown = fields.keys().map(String::as_str);
    let unknown = unknown.filter(|key| !known.iter().any(|field| field.name == *key));
    let repair = match closest(name, unknown) {
        Some(misspelt) => format!("rename `{misspelt}` to `{name}`"),
        None if field.nullable => format!("add `\"{name}\": null`"),
        None => format!("add `\"{name}\": {}`", example(field.kind)),
    };
    violations.add("missing-field", at, format!("{} has no `{name}`", at.name), repair);
}

fn example(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Text | FieldType::Step => "\"…\"",
        FieldType::Path => "\"/…\"",
        FieldType::Time => "\"2025-01-15T14:30:00.123456Z\"",
        FieldType::Status => "\"PENDING\"",
        FieldType::Count => "0",
        FieldType::Artifacts | FieldType::Logs => "[]",
        FieldType::Metrics | FieldType::Steps => "{}",
    }
}

fn check_value(
    at: &Location,
    field: &Field,
    value: &Value,
    steps: &Fields,
    violations: &mut ViolationCollector,
) {
    let wrong = |expected: &str, violations: &mut ViolationCollector| {
        let expected = if field.nullable { format!("{expected} or null") } else { expected.to_owned() };
        violations.wrong_type(at, value, &expected, &format!("write `{}`", example(field.kind)));
    };
    match field.kind {
        FieldType::Count => match value.as_number() {
            Some(number) => check_count(at, number, violations),
            None => wrong("a whole number", violations),
        },
        FieldType::Artifacts | FieldType::Logs => match value.as_array() {
            Some(items) => check_items(at, field.kind, items, violations),
            None => wrong("a list of texts", violations),
        },
        FieldType::Metrics => match value.as_object() {
            Some(metrics) => check_metrics(at, metrics, violations),
            None => wrong("an object", violations),
        },
        FieldType::Steps => match value.as_object() {
            Some(_) => {}
            None => wrong("an object", violations),
        },
        FieldType::Text | FieldType::Path | FieldType::Time | FieldType::Status | FieldType::Step => {
            match value.as_str() {
                Some(text) => check_text(at, field.kind, text, steps, violations),
                None => wrong("a string", violations),
            }
        }
    }
}

fn check_text(
    at: &Location,
    kind: FieldType,
    text: &str,
    steps: &Fields,
    violations: &mut ViolationCollector,
) {
    let name = &at.name;
    match kind {
        FieldType::Path if !text.starts_with('/') => {
            let message = format!("{name} is `{text}`, which is not an absolute path");
            violations.add("path-not-absolute", at, message, "write the whole path, from `/`");
        }
        FieldType::Time if !is_time(text) => {
            let message = format!("{name} is `{text}`, which is not a time in UTC with microseconds");
            violations.add("bad-time", at, message, format!("write it as `{}`", example(kind)));
        }
        FieldType::Status if status(text).is_none() => {
            let words: Vec<_> = STATUSES.iter().map(|status| status.as_str()).collect();
            let repair = match closest(text, words.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("use one of {}", words.join(", ")),
            };
            violations.add(
                "unknown-status",
                at,
                format!("{name} is `{text}`, which is not a status"),
                repair,
            );
        }
        FieldType::Step if !steps.contains_key(text) => {
            let repair = match closest(text, steps.keys().map(String::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "name a step of this document, or write null".to_owned(),
            };
            let message = format!("{name} is `{text}`, but no step has this id");
            violations.add("unknown-step", at, message, repair);
        }
        FieldType::Path | FieldType::Time | FieldType::Status | FieldType::Step => {}
        // Any text is valid, and the other kinds are not texts.
        FieldType::Text
        | FieldType::Count
        | FieldType::Artifacts
        | FieldType::Metrics
        | FieldType::Logs
        | FieldType::Steps => {}
    }
}

/// Returns whether a time is written exactly as the format requires.
fn is_time(text: &str) -> bool {
    text.parse::<Timestamp>().is_ok_and(|stamp| stamp.to_string() == text)
}

fn status(text: &str) -> Option<Status> {
    STATUSES.into_iter().find(|status| status.as_str() == text)
}

fn check_count(at: &Location, number: &serde_json::Number, violations: &mut ViolationCollector) {
    if number.as_u64().is_none_or(|number| number > u64::from(u32::MAX)) {
        let message = format!("{} is {number}; it must be a whole number from 0 to {}", at.name, u32::MAX);
        violations.add("bad-count", at, message, "write how often it happened, such as `0`");
    }
}

fn check_items(at: &Location, kind: FieldType, items: &[Value], violations: &mut ViolationCollector) {
    for (index, item) in items.iter().enumerate() {
        let at = at.entry(index);
        let Some(text) = item.as_str() else {
            violations.wrong_type(&at, item, "a string", "put it in quotes");
            continue;
        };
        if let (FieldType::Artifacts, Some(problem)) = (kind, artifact_path_problem(text)) {
            let message = format!("{} {problem}: `{text}`", at.name);
            violations.add("artifact-not-relative", &at, message, "write the path from the repository's top");
        }
    }
}

fn check_metrics(at: &Location, metrics: &Fields, violations: &mut ViolationCollector) {
    for (name, value) in metrics.iter().filter(|(_, value)| !value.is_string()) {
        let at = at.inside(name);
        let message =
            format!("{} is {}; metrics are texts, even where they are numbers", at.name, json_type(value));
        let repair = match value {
            Value::Number(_) | Value::Bool(_) => format!("put it in quotes: `\"{value}\"`"),
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                "write it as a string".to_owned()
            }
        };
        violations.add("metric-not-text", &at, message, repair);
    }
}

/// Checks the fields that a status requires. A missing field has been reported already.
fn check_status(at: &Location, fields: &Fields, violations: &mut ViolationCollector) {
    let Some(status) = fields.get("status").and_then(Value::as_str).and_then(status) else { return };
    let mut require = |name: &str, rule, repair: &str| {
        if fields.get(name).is_some_and(Value::is_null) {
            let message = format!("{} is {}, but its `{name}` is null", at.name, status.as_str());
            violations.add(rule, &at.field(name), message, repair);
        }
    };
    match status {
        Status::Pending | Status::Skipped => {}
        Status::Running => require("started_at", "running-without-start", "write when it started"),
        Status::WaitingOnHuman => {
            require("manual_input_path", "waiting-without-input-path", "write where the answer is expected");
        }
        Status::Completed => require("ended_at", "ended-without-end", "write when it ended"),
        Status::Failed => {
            require("ended_at", "ended-without-end", "write when it ended");
            require("last_error", "failed-without-error", "write what went wrong");
        }
    }
}
