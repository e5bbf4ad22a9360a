//! The report `run_report@v0`: what an agent hands back, how the prompt asks for it, and when it is refused.
//!
//! Everything here is a function of bytes. The supervisor collects the bytes (report file, `callboard report`, markers in
//! the output) and [`merge()`] makes one report of them. [`instructions()`] asks for what [`parse()`] accepts.

mod copies;
mod instructions;
mod markers;
mod merge;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{RunId, StepId, Timestamp};

pub use copies::{CopyEdit, can_replace_report};
pub use instructions::{PLACEHOLDERS, ReportFields, ReportForm, instructions};
pub use markers::{MARKER_CLOSE, MARKER_OPEN, between_markers};
pub use merge::{MergeError, Merged, Source, Statement, merge, merge_as_stated};
pub use parse::{InvalidReport, parse};

/// The only schema of reports.
pub const SCHEMA: &str = "run_report@v0";

/// Whose report is expected. A report with other values belongs to another run, step or agent. It names no attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportIdentity {
    pub run_id: RunId,
    pub step_id: StepId,
    pub agent: String,
}

/// The status that an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    Completed,
    Failed,
}

impl Status {
    /// Parses a status word, with the aliases that old wrappers use.
    fn parse(word: &str) -> Option<Self> {
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

/// A valid report. Its times are what the agent says: they are stored, and nothing is computed from them.
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
    /// Values are text, as in the document of the run. A nested value becomes compact JSON.
    pub metrics: IndexMap<String, String>,
    pub logs: Vec<String>,
    pub next_suggested_steps: Vec<Value>,
    pub gate_failure: bool,
    pub memory_updates: Vec<MemoryUpdate>,
    /// How the attempt changed its [private copies](crate::brief::PrivateCopy), by path. Set by the engine only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copy_edits: BTreeMap<String, CopyEdit>,
    /// The fields of the protocol, such as `output` of `peer`, and unknown ones, unchanged.
    #[serde(flatten)]
    pub extra_fields: Map<String, Value>,
}

impl Report {
    /// Returns a report of success that the engine makes itself: for an effect, a check, an answer, or an agent
    /// without a report. `fields` are those of every report (`logs`, `gate_failure`), or the protocol's own.
    pub fn completed(expected: &ReportIdentity, at: Timestamp, fields: Map<String, Value>) -> Self {
        let report = Self {
            schema: SCHEMA.to_owned(),
            run_id: expected.run_id.clone(),
            step_id: expected.step_id.clone(),
            agent: expected.agent.clone(),
            status: Status::Completed,
            started_at: at.to_string(),
            ended_at: at.to_string(),
            artifacts: Vec::new(),
            metrics: IndexMap::new(),
            logs: Vec::new(),
            next_suggested_steps: Vec::new(),
            gate_failure: false,
            memory_updates: Vec::new(),
            copy_edits: BTreeMap::new(),
            extra_fields: Map::new(),
        };
        if fields.is_empty() {
            return report;
        }
        let mut report = serde_json::to_value(report).expect("BUG: a report is plain data");
        report.as_object_mut().expect("BUG: a report is an object").extend(fields);
        serde_json::from_value(report).expect("BUG: an effect states a field of a report in another type")
    }
}

/// A sentence that the agent wants to keep for later runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUpdate {
    pub scope: String,
    pub section: String,
    pub entry: String,
}
