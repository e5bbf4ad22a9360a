//! Merges the reports of one attempt field by field. A report without a field leaves that field to the other reports.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parse::{object, parse_object};
use super::{Report, ReportIdentity, Status};

/// How a report was handed in, in descending order of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Submitted with `callboard report`.
    Submitted,
    /// Written to `REPORT_PATH`.
    File,
    /// Printed between the markers.
    Markers,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::Submitted, Self::File, Self::Markers];
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Submitted => "the submitted report",
            Self::File => "the report file",
            Self::Markers => "the report between the markers",
        })
    }
}

/// What one source said at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub source: Source,
    /// The bytes, or why they cannot be read.
    pub content: Result<Vec<u8>, String>,
}

/// The report of an attempt, and the sources that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub report: Report,
    pub sources: Vec<Source>,
}

/// Why statements cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{from}: {reason}")]
    Invalid { from: Source, reason: String },
    #[error("contradictory: {one} says {one_says}, {other} says {other_says}")]
    Contradictory { one: String, one_says: Status, other: String, other_says: Status },
}

/// Merges statements in the order in which they were made. Returns `None` if there is none.
///
/// Fails if the last statement of the most trusted source is invalid: text in the output does not repair a broken file.
/// Other invalid ones are ignored, because an agent that prints its instructions prints our example, too.
pub fn merge(statements: &[Statement], expected: &ReportIdentity) -> Result<Option<Merged>, MergeError> {
    let parsed = parse_all(statements, expected);
    let Some(fields) = merge_parsed(&parsed)? else { return Ok(None) };
    let report = parse_object(fields, expected).expect("BUG: every field is from a valid report");
    let sources = Source::ALL
        .into_iter()
        .filter(|source| parsed.iter().any(|statement| statement.is_valid_from(*source)));
    Ok(Some(Merged { report, sources: sources.collect() }))
}

/// Merges statements into the fields of one report, as JSON, to be checked against the user's schema for reports. A
/// `gate_failure` that no statement has is left out.
pub fn merge_as_stated(
    statements: &[Statement],
    expected: &ReportIdentity,
) -> Result<Option<Map<String, Value>>, MergeError> {
    let parsed = parse_all(statements, expected);
    let mut merged = merge_parsed(&parsed)?;
    if let Some(fields) = &mut merged
        && parsed.iter().all(|statement| statement.gate_failure().is_none())
    {
        fields.shift_remove("gate_failure");
    }
    Ok(merged)
}

fn parse_all(statements: &[Statement], expected: &ReportIdentity) -> Vec<ParsedStatement> {
    statements.iter().map(|statement| ParsedStatement::parse(statement, expected)).collect()
}

/// Returns the merged fields, or `None` if there are no statements.
fn merge_parsed(statements: &[ParsedStatement]) -> Result<Option<Map<String, Value>>, MergeError> {
    let last = |source| statements.iter().rev().find(|statement| statement.source == source);
    match Source::ALL.into_iter().find_map(last) {
        None => return Ok(None),
        Some(ParsedStatement { source, report: Err(reason), .. }) => {
            return Err(MergeError::Invalid { from: *source, reason: reason.clone() });
        }
        Some(ParsedStatement { report: Ok(_), .. }) => {}
    }
    let status = agreed_status(statements)?;
    let mut fields = merged_fields(statements);
    fields.insert("status".to_owned(), status.to_string().into());
    Ok(Some(fields))
}

/// A statement after parsing.
struct ParsedStatement {
    source: Source,
    /// The fields that are not null; none if it is not a JSON object.
    fields: Map<String, Value>,
    report: Result<Report, String>,
}

impl ParsedStatement {
    fn parse(statement: &Statement, expected: &ReportIdentity) -> Self {
        let object =
            statement.content.clone().and_then(|bytes| object(&bytes).map_err(|error| error.to_string()));
        let (mut fields, report) = match object {
            Ok(fields) => {
                let report = parse_object(fields.clone(), expected);
                (fields, report.map_err(|error| error.to_string()))
            }
            Err(reason) => (Map::new(), Err(reason)),
        };
        fields.retain(|_, value| !value.is_null());
        Self { source: statement.source, fields, report }
    }

    fn is_valid_from(&self, source: Source) -> bool {
        self.source == source && self.report.is_ok()
    }

    fn gate_failure(&self) -> Option<bool> {
        self.fields.get("gate_failure").and_then(Value::as_bool)
    }
}

/// Returns whether the value is an empty list or object. Such a value replaces nothing, because a wrapper without
/// artifacts must not remove those that its agent reported.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the status that all sources state. `callboard report` and the markers may correct themselves, so their last
/// valid statement counts. Every version of the report file counts: an agent and its wrapper write the same file.
fn agreed_status(statements: &[ParsedStatement]) -> Result<Status, MergeError> {
    let mut stated: Vec<(String, Status)> = Vec::new();
    for source in Source::ALL {
        let mut of_source = statements.iter().rev().filter(|statement| statement.source == source);
        let mut valid = of_source.by_ref().filter_map(|statement| statement.report.as_ref().ok());
        stated.extend(valid.next().map(|report| (source.to_string(), report.status)));
        if source == Source::File {
            stated.extend(valid.map(|report| (format!("an earlier version of {source}"), report.status)));
        }
    }
    let (one, one_says) = stated.first().cloned().expect("BUG: a report is valid");
    match stated.into_iter().find(|(_, status)| *status != one_says) {
        Some((other, other_says)) => Err(MergeError::Contradictory { one, one_says, other, other_says }),
        None => Ok(one_says),
    }
}

/// Merges the fields of all valid statements. A later one replaces the fields that it has; `metrics` are joined.
fn merged_fields(statements: &[ParsedStatement]) -> Map<String, Value> {
    let mut merged = Map::new();
    // The logs of the statement that failed the gate.
    let mut findings: Option<Vec<Value>> = None;
    for statement in statements {
        let gate_failure = statement.gate_failure();
        if statement.report.is_err() {
            // Of an invalid report only a gate failure in the report file counts.
            if gate_failure == Some(true) && statement.source == Source::File {
                findings.get_or_insert_default();
            }
            continue;
        }
        if gate_failure == Some(true) {
            let logs = statement.fields.get("logs").and_then(Value::as_array);
            findings = Some(logs.filter(|logs| !logs.is_empty()).cloned().or(findings).unwrap_or_default());
        }
        // `false` in the report file does not count: a wrapper that writes the file does not know the result of the
        // gate.
        if gate_failure == Some(false) && statement.source != Source::File {
            findings = None;
        }
        for (field, value) in &statement.fields {
            match (merged.get_mut(field), value) {
                (Some(Value::Object(metrics)), Value::Object(more)) if field == "metrics" => {
                    metrics.extend(more.clone());
                }
                (Some(_), value) if is_empty(value) => {}
                _ => drop(merged.insert(field.clone(), value.clone())),
            }
        }
    }
    merged.insert("gate_failure".to_owned(), findings.is_some().into());
    if let Some(findings) = findings {
        // At the end, because the last sentence is shown as the reason.
        let logs = merged.get("logs").and_then(Value::as_array).cloned().unwrap_or_default();
        let others = logs.into_iter().filter(|log| !findings.contains(log));
        let logs: Vec<_> = others.chain(findings.iter().cloned()).collect();
        merged.insert("logs".to_owned(), logs.into());
    }
    merged
}
