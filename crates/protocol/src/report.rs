//! The run report `run_report@v0`: what an agent hands back, how it is asked for, and what makes it unfit.
//!
//! Everything here is a function of bytes. Where the bytes come from (the report file, `callboard report`, markers in
//! the output) and which source wins is the supervisor's affair. What [`instructions`] asks for is what [`parse`]
//! accepts: the two stand side by side so that they cannot drift apart.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::depth::{DEEPEST_GIVEN, is_deeper};
use crate::{RunId, StepId};

/// The only schema label there is so far.
pub const SCHEMA: &str = "run_report@v0";

/// What opens a report on an agent's standard output.
pub const MARKER_OPEN: &str = "<<<RUN_REPORT_JSON";
/// What closes it.
pub const MARKER_CLOSE: &str = "RUN_REPORT_JSON>>>";

const SAY_BEGUN: &str = "<UTC time at which you began>";
const SAY_ENDED: &str = "<UTC time at which you ended>";
const SAY_ARTIFACT: &str = "<path of a file you made or changed>";
const SAY_LOG: &str = "<one sentence about what you did>";
const SAY_OUTPUT: &str = "<the object that was described above>";

/// The blanks of our own example. A report in which one of them comes back was copied, not filled in.
pub const BLANKS: [&str; 4] = [SAY_BEGUN, SAY_ENDED, SAY_ARTIFACT, SAY_LOG];

/// Whose report is expected: a report that names others is not this attempt's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    pub run_id: RunId,
    pub step_id: StepId,
    pub agent: String,
}

/// What a step is asked to hand in beside what stands in every report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Nothing: files and words. Whoever judges the others says whether their work must be done again.
    Plain,
    /// What it has produced, in `output`. Nobody is sent back.
    WithOutput,
}

/// What an agent says about its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Completed,
    Failed,
}

impl Status {
    /// Reads the status word, with the aliases old wrappers use.
    fn from_word(word: &str) -> Option<Self> {
        match word.trim().to_uppercase().as_str() {
            "COMPLETED" | "SUCCESS" | "OK" | "DONE" | "PASSED" => Some(Self::Completed),
            "FAILED" | "FAIL" | "ERROR" => Some(Self::Failed),
            _ => None,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        })
    }
}

/// A report that has been read and found fit. Times are the agent's claims: kept as they came, never reckoned with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub run_id: RunId,
    pub step_id: StepId,
    pub agent: String,
    pub status: Status,
    pub started_at: String,
    pub ended_at: String,
    pub artifacts: Vec<String>,
    /// Values are text, as the run's document stores them; a nested value is kept as compact JSON.
    pub metrics: IndexMap<String, String>,
    pub logs: Vec<String>,
    pub next_suggested_steps: Vec<Value>,
    pub gate_failure: bool,
    pub memory_updates: Vec<MemoryUpdate>,
    /// Fields we do not know, as they came.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A sentence the agent wants remembered for later runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUpdate {
    pub scope: String,
    pub section: String,
    pub entry: String,
}

/// Why a report cannot be accepted. Each names the field, so that an agent or a person can mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is not JSON: {message} at line {line}, column {column}")]
    NotJson { message: String, line: usize, column: usize },
    #[error("it is nested in more than {DEEPEST_GIVEN} layers")]
    TooDeep,
    #[error("it is {0}, not a JSON object")]
    NotAnObject(&'static str),
    #[error("the field `{0}` is missing")]
    Missing(&'static str),
    #[error("the field `{0}` is empty")]
    Empty(&'static str),
    #[error("the field `{field}` is {found}, expected {expected}")]
    WrongType { field: String, expected: &'static str, found: &'static str },
    #[error("the field `{field}` is `{found}`, but this attempt's is `{expected}`")]
    WrongId { field: &'static str, expected: String, found: String },
    #[error("the schema is `{0}`, only `{SCHEMA}` is known")]
    UnknownSchema(String),
    #[error("the status is `{0}`, expected COMPLETED or FAILED")]
    UnknownStatus(String),
    #[error("the field `{field}` still holds `{phrase}` from the instructions")]
    Blank { field: &'static str, phrase: &'static str },
}

/// Reads a report and compares it with whose it should be.
pub fn parse(bytes: &[u8], expected: &Expected) -> Result<Report, Unfit> {
    let mut fields = Fields(object(bytes)?);
    let schema = fields.text("schema")?;
    if schema != SCHEMA {
        return Err(Unfit::UnknownSchema(schema));
    }
    fields.same("run_id", expected.run_id.as_str())?;
    fields.same("step_id", expected.step_id.as_str())?;
    fields.same("agent", &expected.agent)?;
    let word = fields.text("status")?;
    let report = Report {
        schema,
        run_id: expected.run_id.clone(),
        step_id: expected.step_id.clone(),
        agent: expected.agent.clone(),
        status: Status::from_word(&word).ok_or(Unfit::UnknownStatus(word))?,
        started_at: fields.text("started_at")?,
        ended_at: fields.text("ended_at")?,
        artifacts: fields.texts("artifacts")?,
        metrics: fields.metrics()?,
        logs: fields.texts("logs")?,
        next_suggested_steps: fields.list("next_suggested_steps")?,
        gate_failure: fields.flag("gate_failure")?,
        memory_updates: fields.memory_updates()?,
        others: fields.0,
    };
    filled_in(&report).map(|()| report)
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, Unfit> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        // serde_json appends the place to its message; we say it once, in our own words.
        let message =
            message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
        Unfit::NotJson { message, line, column }
    })?;
    if is_deeper(&value, DEEPEST_GIVEN) {
        return Err(Unfit::TooDeep);
    }
    let kind = kind(&value);
    if let Value::Object(map) = value { Ok(map) } else { Err(Unfit::NotAnObject(kind)) }
}

/// The unread fields: each reader takes its own out, so what is left at the end is what we do not know.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, field: &'static str) -> Option<Value> {
        self.0.shift_remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Result<String, Unfit> {
        let value = self.take(field).ok_or(Unfit::Missing(field))?;
        let text = text_of(value, field)?;
        if text.trim().is_empty() { Err(Unfit::Empty(field)) } else { Ok(text) }
    }

    fn same(&mut self, field: &'static str, expected: &str) -> Result<(), Unfit> {
        let found = self.text(field)?;
        if found == expected {
            return Ok(());
        }
        Err(Unfit::WrongId { field, expected: expected.to_owned(), found })
    }

    fn list(&mut self, field: &'static str) -> Result<Vec<Value>, Unfit> {
        let Some(value) = self.take(field) else { return Ok(Vec::new()) };
        let found = kind(&value);
        if let Value::Array(items) = value { Ok(items) } else { Err(wrong(field, "a list", found)) }
    }

    fn texts(&mut self, field: &'static str) -> Result<Vec<String>, Unfit> {
        let items = self.list(field)?;
        items.into_iter().enumerate().map(|(i, item)| text_of(item, format!("{field}[{i}]"))).collect()
    }

    fn flag(&mut self, field: &'static str) -> Result<bool, Unfit> {
        let Some(value) = self.take(field) else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong(field, "true or false", kind(&value)))
    }

    fn metrics(&mut self) -> Result<IndexMap<String, String>, Unfit> {
        let Some(value) = self.take("metrics") else { return Ok(IndexMap::new()) };
        let found = kind(&value);
        let Value::Object(map) = value else { return Err(wrong("metrics", "an object", found)) };
        let rendered = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(map.into_iter().map(|(name, value)| (name, rendered(value))).collect())
    }

    fn memory_updates(&mut self) -> Result<Vec<MemoryUpdate>, Unfit> {
        let items = self.list("memory_updates")?;
        items.into_iter().enumerate().map(|(i, item)| memory_update(item, i)).collect()
    }
}

fn memory_update(item: Value, i: usize) -> Result<MemoryUpdate, Unfit> {
    let found = kind(&item);
    let Value::Object(mut map) = item else {
        return Err(wrong(format!("memory_updates[{i}]"), "an object", found));
    };
    let mut part = |name: &str, absent: &str| match map.shift_remove(name) {
        None | Some(Value::Null) => Ok(absent.to_owned()),
        Some(value) => text_of(value, format!("memory_updates[{i}].{name}")),
    };
    Ok(MemoryUpdate {
        scope: part("scope", ".")?,
        section: part("section", "Notes")?,
        entry: part("entry", "")?,
    })
}

/// Refuses a report in which a blank of our own example came back. Copied with other letter case is copied all the same.
fn filled_in(report: &Report) -> Result<(), Unfit> {
    let single = [("started_at", &report.started_at), ("ended_at", &report.ended_at)];
    let logs = report.logs.iter().map(|text| ("logs", text));
    let artifacts = report.artifacts.iter().map(|text| ("artifacts", text));
    for (field, text) in single.into_iter().chain(artifacts).chain(logs) {
        let text = text.to_lowercase();
        if let Some(phrase) = BLANKS.into_iter().find(|phrase| text.contains(&phrase.to_lowercase())) {
            return Err(Unfit::Blank { field, phrase });
        }
    }
    Ok(())
}

fn text_of(value: Value, field: impl Into<String>) -> Result<String, Unfit> {
    let found = kind(&value);
    if let Value::String(text) = value { Ok(text) } else { Err(wrong(field, "text", found)) }
}

fn wrong(field: impl Into<String>, expected: &'static str, found: &'static str) -> Unfit {
    Unfit::WrongType { field: field.into(), expected, found }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The end of every prompt: how to hand in the report, with an example whose blanks are to be filled in.
pub fn instructions(expected: &Expected, form: Form, report_path: &str) -> String {
    let mut example = serde_json::json!({
        "schema": SCHEMA,
        "run_id": expected.run_id,
        "step_id": expected.step_id,
        "agent": expected.agent,
        "status": "COMPLETED",
        "started_at": SAY_BEGUN,
        "ended_at": SAY_ENDED,
        "artifacts": [SAY_ARTIFACT],
        "metrics": {},
        "logs": [SAY_LOG],
    });
    let (field, blank, rule) = match form {
        Form::Plain => (
            "gate_failure",
            Value::Bool(false),
            "`gate_failure` is true only if you were asked to judge the work of others and it must be done again.",
        ),
        Form::WithOutput => (
            "output",
            SAY_OUTPUT.into(),
            "`output` is what you produced, as described above; completed without it is refused.",
        ),
    };
    example[field] = blank;
    format!(
        "## How to report\n\n\
         When you are done, hand in one report. Without a valid report the work does not count, whatever else you did.\n\n\
         Choose one way:\n\n\
         1. Write the report to the file `{report_path}` (also in the variable `REPORT_PATH`).\n\
         2. Pipe it into `callboard report`; it is checked at once and you are told what is wrong.\n\
         3. Print it between the lines `{MARKER_OPEN}` and `{MARKER_CLOSE}`, each on a line of its own.\n\n\
         The report is one JSON object:\n\n\
         {example:#}\n\n\
         - Keep `schema`, `run_id`, `step_id` and `agent` exactly as they stand here.\n\
         - `status` is `COMPLETED` if the task is done and `FAILED` if it is not; say `FAILED` rather than guess.\n\
         - Replace everything in angle brackets by your own words; a report with a blank left in it is refused.\n\
         - {rule}\n"
    )
}

/// The last complete block between the markers. The first marker begins a line and the second ends one: an agent that
/// only talks about them, or repeats our instructions, opens nothing. A block that was opened twice begins at the
/// second opening, and one that was never closed is nothing.
pub fn between_markers(stdout: &str) -> Option<&str> {
    let (mut open, mut last) = (None, None);
    let mut line_start = 0;
    for line in stdout.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if line.trim_start().starts_with(MARKER_OPEN) {
            open = Some(line_start + indent + MARKER_OPEN.len());
        }
        if let (Some(from), true) = (open, line.trim_end().ends_with(MARKER_CLOSE)) {
            let to = line_start + line.trim_end().len() - MARKER_CLOSE.len();
            if from <= to {
                last = Some(stdout[from..to].trim());
                open = None;
            }
        }
        line_start += line.len();
    }
    last
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn expected() -> Expected {
        Expected {
            run_id: RunId::new("f8c1a491").unwrap(),
            step_id: StepId::new("review").unwrap(),
            agent: "code reviewer".to_owned(),
        }
    }

    fn least() -> Value {
        json!({
            "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "code reviewer",
            "status": "COMPLETED", "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z",
        })
    }

    fn with(field: &str, value: Value) -> Value {
        let mut report = least();
        report[field] = value;
        report
    }

    fn read(value: &Value) -> Result<Report, Unfit> {
        parse(value.to_string().as_bytes(), &expected())
    }

    #[test]
    fn the_required_fields_are_enough() {
        let report = read(&least()).unwrap();
        assert_eq!((report.status, report.gate_failure), (Status::Completed, false));
        assert!(report.artifacts.is_empty() && report.metrics.is_empty() && report.memory_updates.is_empty());
    }

    #[test]
    fn each_required_field_is_required_as_filled_text() {
        for field in ["schema", "run_id", "step_id", "agent", "status", "started_at", "ended_at"] {
            let mut report = least();
            report.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&report), Err(Unfit::Missing(field)));
            assert_eq!(read(&with(field, Value::Null)), Err(Unfit::Missing(field)));
            assert_eq!(read(&with(field, json!(" "))), Err(Unfit::Empty(field)));
            let said = read(&with(field, json!(7))).unwrap_err().to_string();
            assert_eq!(said, format!("the field `{field}` is a number, expected text"));
        }
    }

    #[test]
    fn status_words_are_read_with_their_aliases_and_nothing_else() {
        for word in ["COMPLETED", "completed", "Success", "ok", "DONE", "passed"] {
            assert_eq!(read(&with("status", json!(word))).unwrap().status, Status::Completed, "{word}");
        }
        for word in ["FAILED", "fail", "Error"] {
            assert_eq!(read(&with("status", json!(word))).unwrap().status, Status::Failed, "{word}");
        }
        for word in ["RUNNING", "PARTIAL", "not ok", "COMPLETED?"] {
            assert_eq!(read(&with("status", json!(word))), Err(Unfit::UnknownStatus(word.to_owned())));
        }
    }

    #[test]
    fn optional_fields_may_be_absent_empty_or_null() {
        let lists = ["artifacts", "logs", "next_suggested_steps", "memory_updates"];
        for (field, empty) in lists.map(|f| (f, json!([]))).into_iter().chain([("metrics", json!({}))]) {
            assert_eq!(read(&with(field, Value::Null)), read(&least()), "{field} null");
            assert_eq!(read(&with(field, empty)), read(&least()), "{field} empty");
            assert!(matches!(read(&with(field, json!("x"))), Err(Unfit::WrongType { .. })), "{field} text");
        }
        assert_eq!(read(&with("gate_failure", Value::Null)), read(&least()));
        assert!(matches!(read(&with("gate_failure", json!("false"))), Err(Unfit::WrongType { .. })));
        let said = read(&with("logs", json!(["a", 2]))).unwrap_err().to_string();
        assert_eq!(said, "the field `logs[1]` is a number, expected text");
    }

    #[test]
    fn metrics_become_text_and_unknown_fields_are_kept() {
        let mut report =
            with("metrics", json!({ "cost_usd": 0.25, "ok": true, "model": "m", "by": { "a": [1, 2] } }));
        report["mood"] = json!({ "today": "fine" });
        let read = read(&report).unwrap();
        let metrics: Vec<_> = read.metrics.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(metrics, [("cost_usd", "0.25"), ("ok", "true"), ("model", "m"), ("by", r#"{"a":[1,2]}"#)]);
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["mood"], json!({ "today": "fine" }));
        assert_eq!(serde_json::from_value::<Report>(written).unwrap(), read);
    }

    #[test]
    fn memory_updates_have_defaults() {
        let read = read(&with("memory_updates", json!([{ "entry": "use just" }]))).unwrap();
        let first = &read.memory_updates[0];
        assert_eq!(
            (first.scope.as_str(), first.section.as_str(), first.entry.as_str()),
            (".", "Notes", "use just")
        );
    }

    #[test]
    fn what_is_not_a_json_object_is_refused_with_its_place() {
        let said = parse(b"{\n  \"schema\": tru", &expected()).unwrap_err();
        assert!(matches!(said, Unfit::NotJson { line: 2, .. }), "{said}");
        assert_eq!(said.to_string().matches("line 2").count(), 1, "{said}");
        assert!(matches!(parse(b"", &expected()), Err(Unfit::NotJson { .. })));
        assert!(matches!(parse(b"\xff{}", &expected()), Err(Unfit::NotJson { .. })));
        assert_eq!(parse(b"[]", &expected()), Err(Unfit::NotAnObject("a list")));
        assert_eq!(parse(b"null", &expected()), Err(Unfit::NotAnObject("null")));
    }

    #[test]
    fn a_report_of_somebody_else_is_refused() {
        for field in ["run_id", "step_id", "agent"] {
            let refused = read(&with(field, json!("another"))).unwrap_err();
            assert!(matches!(&refused, Unfit::WrongId { field: f, .. } if *f == field), "{refused}");
        }
        assert_eq!(read(&with("schema", json!("v1"))), Err(Unfit::UnknownSchema("v1".to_owned())));
    }

    #[test]
    fn our_own_example_handed_back_is_refused() {
        let text = instructions(&expected(), Form::Plain, "/runs/a b/report.json");
        let start = text.find("{\n").unwrap();
        let end = text.find("\n}").unwrap() + 2;
        let copied = &text[start..end];
        assert!(matches!(parse(copied.as_bytes(), &expected()), Err(Unfit::Blank { .. })));
        assert!(text.contains("`/runs/a b/report.json`"));

        // Filled in, the same example is fit.
        let mut filled = copied.to_owned();
        for blank in BLANKS {
            assert!(filled.contains(blank), "{blank} is not in the example");
            filled = filled.replace(blank, "2026-01-01");
        }
        assert!(parse(filled.as_bytes(), &expected()).is_ok());

        for (field, value) in [
            ("started_at", json!(SAY_BEGUN)),
            ("ended_at", json!(format!("x {SAY_ENDED}"))),
            ("artifacts", json!(["a.md", SAY_ARTIFACT])),
            ("logs", json!([SAY_LOG.to_uppercase()])),
        ] {
            let refused = read(&with(field, value)).unwrap_err();
            assert!(matches!(&refused, Unfit::Blank { field: f, .. } if *f == field), "{refused}");
        }
    }

    #[test]
    fn whoever_has_to_hand_in_an_output_is_shown_where_and_is_not_asked_about_gates() {
        let text = instructions(&expected(), Form::WithOutput, "/report.json");
        assert!(text.contains("\"output\": \"<the object that was described above>\""), "{text}");
        assert!(!text.contains("gate_failure"), "{text}");
        assert!(!instructions(&expected(), Form::Plain, "/report.json").contains("output\""));
    }

    #[test]
    fn the_last_complete_block_between_the_markers_counts() {
        let find = between_markers;
        assert_eq!(find("nothing"), None);
        assert_eq!(find("<<<RUN_REPORT_JSON\n{\"a\":1}\nRUN_REPORT_JSON>>>\n"), Some("{\"a\":1}"));
        let blocks =
            |one: &str, other: &str| format!("<<<RUN_REPORT_JSON {one}\n<<<RUN_REPORT_JSON {other}\n");
        assert_eq!(find(&blocks("1 RUN_REPORT_JSON>>>", "2 RUN_REPORT_JSON>>>")), Some("2"));
        assert_eq!(find(&blocks("1 RUN_REPORT_JSON>>>", "cut")), Some("1"));
        assert_eq!(find(&blocks("torn", "2 RUN_REPORT_JSON>>>")), Some("2"));
        assert_eq!(find("<<<RUN_REPORT_JSON 1 RUN_REPORT_JSON>>>\nthen RUN_REPORT_JSON>>>"), Some("1"));
        assert_eq!(find("RUN_REPORT_JSON>>>\n<<<RUN_REPORT_JSON"), None);
        assert_eq!(find("<<<RUN_REPORT_JSON é RUN_REPORT_JSON>>>"), Some("é"));
    }

    #[test]
    fn markers_that_are_only_talked_about_open_nothing() {
        let said = format!(
            "{MARKER_OPEN}\n{{}}\n{MARKER_CLOSE}\nI printed it between `{MARKER_OPEN}` and `{MARKER_CLOSE}`."
        );
        assert_eq!(between_markers(&said), Some("{}"));
        let expected = Expected {
            run_id: RunId::new("r").unwrap(),
            step_id: StepId::new("s").unwrap(),
            agent: "a".to_owned(),
        };
        assert_eq!(between_markers(&instructions(&expected, Form::Plain, "/report.json")), None);
        assert_eq!(between_markers(&format!("  {MARKER_OPEN} {{}} {MARKER_CLOSE}  \n")), Some("{}"));
    }
}
