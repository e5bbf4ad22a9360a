//! How a prompt asks for the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{MARKER_CLOSE, MARKER_OPEN, ReportIdentity, SCHEMA};

pub(super) const STARTED_AT: &str = "<UTC time at which you began>";
pub(super) const ENDED_AT: &str = "<UTC time at which you ended>";
pub(super) const ARTIFACT: &str = "<path of a file you made or changed>";
pub(super) const LOG: &str = "<one sentence about what you did>";
const OUTPUT: &str = "<the object that was described above>";

/// The placeholders of the example. A report that still contains one was copied and not filled in. `OUTPUT` needs no such
/// check: an output is an object, so a string is refused.
pub const PLACEHOLDERS: [&str; 4] = [STARTED_AT, ENDED_AT, ARTIFACT, LOG];

/// What the report of a step must contain besides the fields of every report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportForm {
    /// Nothing, except that a gate reports `gate_failure`.
    Plain,
    /// As [`Self::Plain`], and the whole report matches the JSON Schema of the user.
    Matching(Arc<Value>),
    /// What it produced, in `output`.
    WithOutput,
    /// Fields that only this step has.
    Fields(Arc<ReportFields>),
}

/// The fields of a report that only one kind of step has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReportFields {
    /// A filled-in example. The scripted agent of a rehearsal reports it as it is.
    pub example: Map<String, Value>,
    /// The JSON Schema of the fields.
    pub schema: Value,
    /// The rules that a schema cannot say, in a sentence or more.
    pub rules: String,
    /// The files that the scripted agent of a rehearsal writes in the repository, by path.
    pub rehearsed_files: BTreeMap<String, String>,
}

impl ReportForm {
    /// Returns the fields that only this step has, if there are any.
    pub fn fields(&self) -> Option<&ReportFields> {
        match self {
            Self::Plain | Self::Matching(_) | Self::WithOutput => None,
            Self::Fields(fields) => Some(fields),
        }
    }
}

/// Returns the end of every prompt: how to report, with an example whose placeholders are to be filled in.
pub fn instructions(expected: &ReportIdentity, form: &ReportForm, report_path: &str) -> String {
    let mut example = serde_json::json!({
        "schema": SCHEMA,
        "run_id": expected.run_id,
        "step_id": expected.step_id,
        "agent": expected.agent,
        "status": "COMPLETED",
        "started_at": STARTED_AT,
        "ended_at": ENDED_AT,
        "artifacts": [ARTIFACT],
        "metrics": {},
        "logs": [LOG],
    });
    let rule = match form {
        ReportForm::Plain | ReportForm::Matching(_) => {
            example["gate_failure"] = false.into();
            let gate = "`gate_failure` is true only if you were asked to judge the work of others and it must be done again.";
            match form {
                ReportForm::Matching(schema) => {
                    format!("{gate}\n- The report matches this JSON Schema, too:\n\n{schema:#}")
                }
                ReportForm::Plain | ReportForm::WithOutput | ReportForm::Fields(_) => gate.to_owned(),
            }
        }
        ReportForm::WithOutput => {
            example["output"] = OUTPUT.into();
            "`output` is what you produced, as described above; completed without it is refused.".to_owned()
        }
        ReportForm::Fields(fields) => {
            for (field, value) in &fields.example {
                example[field] = value.clone();
            }
            let ReportFields { schema, rules, .. } = &**fields;
            format!("{rules} The fields of this step match this JSON Schema:\n\n{schema:#}")
        }
    };
    format!(
        "## How to report\n\n\
         When you are done, hand in one report. Without a valid report the work does not count, whatever else you did.\n\n\
         Choose one way:\n\n\
         1. Write the report to the file `{report_path}` (also in the variable `REPORT_PATH`).\n\
         2. Pipe it into `callboard report`; it is checked at once and you are told what is wrong.\n\
         3. Print it between the lines `{MARKER_OPEN}` and `{MARKER_CLOSE}`, each on a line of its own.\n\n\
         The report is one JSON object:\n\n\
         {example:#}\n\n\
         - Keep `schema`, `run_id`, `step_id` and `agent` exactly as shown.\n\
         - `status` is `COMPLETED` if the task is done and `FAILED` if it is not; say `FAILED` rather than guess.\n\
         - Replace everything in angle brackets by your own words; a report with a placeholder left in it is refused.\n\
         - {rule}\n\n\
         ## What ends your attempt\n\n\
         The attempt ends when your program exits. What it leaves running is stopped, so finish what you start and wait for it. \
         Report last: after the report you have a moment to exit, and then you are stopped. Questions are not answered meanwhile: if \
         you cannot go on, report `FAILED` and say why.\n"
    )
}
