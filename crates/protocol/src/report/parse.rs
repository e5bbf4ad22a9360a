//! Parses a [`Report`] from bytes.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::{MemoryUpdate, PLACEHOLDERS, Report, ReportIdentity, SCHEMA, Status};
use crate::check::json_type;
use crate::json::{MAX_INPUT_DEPTH, exceeds_depth};

/// Why a report is refused. Each variant names the field, so that its author can fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReport {
    #[error("it is not JSON: {message} at line {line}, column {column}")]
    NotJson { message: String, line: usize, column: usize },
    #[error("it is nested more than {MAX_INPUT_DEPTH} levels deep")]
    TooDeep,
    #[error("it is {0}, not a JSON object")]
    NotAnObject(&'static str),
    #[error("the field `{0}` is missing")]
    Missing(&'static str),
    #[error("the field `{0}` is empty")]
    Empty(&'static str),
    #[error("the field `{field}` is {found}, expected {expected}")]
    WrongType { field: String, expected: &'static str, found: &'static str },
    #[error("the field `{field}` is `{found}`, expected `{expected}`")]
    WrongId { field: &'static str, expected: String, found: String },
    #[error("the schema is `{0}`, expected `{SCHEMA}`")]
    UnknownSchema(String),
    #[error("the status is `{0}`, expected COMPLETED or FAILED")]
    UnknownStatus(String),
    #[error("the field `{field}` still contains `{placeholder}` from the instructions")]
    Placeholder { field: &'static str, placeholder: &'static str },
}

/// Parses a report. Fails if it is malformed, or belongs to another run, step or agent.
pub fn parse(bytes: &[u8], expected: &ReportIdentity) -> Result<Report, InvalidReport> {
    parse_object(object(bytes)?, expected)
}

pub(super) fn parse_object(
    object: Map<String, Value>,
    expected: &ReportIdentity,
) -> Result<Report, InvalidReport> {
    let mut fields = Fields(object);
    let schema = fields.text("schema")?;
    if schema != SCHEMA {
        return Err(InvalidReport::UnknownSchema(schema));
    }
    fields.expect("run_id", expected.run_id.as_str())?;
    fields.expect("step_id", expected.step_id.as_str())?;
    fields.expect("agent", &expected.agent)?;
    let word = fields.text("status")?;
    // The engine itself fills in how the private copies were edited. What a report says about it is dropped.
    fields.0.shift_remove("copy_edits");
    let report = Report {
        schema,
        run_id: expected.run_id.clone(),
        step_id: expected.step_id.clone(),
        agent: expected.agent.clone(),
        status: Status::parse(&word).ok_or(InvalidReport::UnknownStatus(word))?,
        started_at: fields.text("started_at")?,
        ended_at: fields.text("ended_at")?,
        artifacts: fields.texts("artifacts")?,
        metrics: fields.metrics()?,
        logs: fields.texts("logs")?,
        next_suggested_steps: fields.list("next_suggested_steps")?,
        gate_failure: fields.flag("gate_failure")?,
        memory_updates: fields.memory_updates()?,
        copy_edits: BTreeMap::new(),
        extra_fields: fields.0,
    };
    check_placeholders(&report).map(|()| report)
}

/// Reads a JSON object. Fails if the bytes are anything else, or nested too deep.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, InvalidReport> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        // serde_json appends the position to its message, and ours has it already.
        let message =
            message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
        InvalidReport::NotJson { message, line, column }
    })?;
    if exceeds_depth(&value, MAX_INPUT_DEPTH) {
        return Err(InvalidReport::TooDeep);
    }
    let kind = json_type(&value);
    if let Value::Object(map) = value { Ok(map) } else { Err(InvalidReport::NotAnObject(kind)) }
}

/// The fields that have not been read yet. Those left at the end are unknown ones.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.0.shift_remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Result<String, InvalidReport> {
        let value = self.take(field).ok_or(InvalidReport::Missing(field))?;
        let text = text_of(value, field)?;
        if text.trim().is_empty() { Err(InvalidReport::Empty(field)) } else { Ok(text) }
    }

    fn expect(&mut self, field: &'static str, expected: &str) -> Result<(), InvalidReport> {
        let found = self.text(field)?;
        if found == expected {
            return Ok(());
        }
        Err(InvalidReport::WrongId { field, expected: expected.to_owned(), found })
    }

    fn list(&mut self, field: &'static str) -> Result<Vec<Value>, InvalidReport> {
        let Some(value) = self.take(field) else { return Ok(Vec::new()) };
        let found = json_type(&value);
        if let Value::Array(items) = value { Ok(items) } else { Err(wrong_type(field, "a list", found)) }
    }

    fn texts(&mut self, field: &'static str) -> Result<Vec<String>, InvalidReport> {
        let items = self.list(field)?;
        items.into_iter().enumerate().map(|(i, item)| text_of(item, format!("{field}[{i}]"))).collect()
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, InvalidReport> {
        let Some(value) = self.take(field) else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong_type(field, "true or false", json_type(&value)))
    }

    fn metrics(&mut self) -> Result<IndexMap<String, String>, InvalidReport> {
        let Some(value) = self.take("metrics") else { return Ok(IndexMap::new()) };
        let found = json_type(&value);
        let Value::Object(map) = value else { return Err(wrong_type("metrics", "an object", found)) };
        let rendered = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(map.into_iter().map(|(name, value)| (name, rendered(value))).collect())
    }

    fn memory_updates(&mut self) -> Result<Vec<MemoryUpdate>, InvalidReport> {
        let items = self.list("memory_updates")?;
        items.into_iter().enumerate().map(|(i, item)| memory_update(item, i)).collect()
    }
}

fn memory_update(item: Value, i: usize) -> Result<MemoryUpdate, InvalidReport> {
    let found = json_type(&item);
    let Value::Object(mut map) = item else {
        return Err(wrong_type(format!("memory_updates[{i}]"), "an object", found));
    };
    let mut text = |name: &str, default: &str| match map.shift_remove(name) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(value) => text_of(value, format!("memory_updates[{i}].{name}")),
    };
    Ok(MemoryUpdate {
        scope: text("scope", ".")?,
        section: text("section", "Notes")?,
        entry: text("entry", "")?,
    })
}

/// Refuses a report that still contains a placeholder of the example in the prompt, in any letter case.
fn check_placeholders(report: &Report) -> Result<(), InvalidReport> {
    let single = [("started_at", &report.started_at), ("ended_at", &report.ended_at)];
    let logs = report.logs.iter().map(|text| ("logs", text));
    let artifacts = report.artifacts.iter().map(|text| ("artifacts", text));
    for (field, text) in single.into_iter().chain(artifacts).chain(logs) {
        let text = text.to_lowercase();
        let is_left = |placeholder: &&str| text.contains(&placeholder.to_lowercase());
        if let Some(placeholder) = PLACEHOLDERS.into_iter().find(is_left) {
            return Err(InvalidReport::Placeholder { field, placeholder });
        }
    }
    Ok(())
}

fn text_of(value: Value, field: impl Into<String>) -> Result<String, InvalidReport> {
    let found = json_type(&value);
    if let Value::String(text) = value { Ok(text) } else { Err(wrong_type(field, "a string", found)) }
}

fn wrong_type(field: impl Into<String>, expected: &'static str, found: &'static str) -> InvalidReport {
    InvalidReport::WrongType { field: field.into(), expected, found }
}
