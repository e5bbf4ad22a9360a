//! Checks: commands that the engine runs in a tree, and the evidence that they leave.
//!
//! A step of the kind [`Command`](crate::StepKind::Command) runs the checks of its [brief](crate::brief::Brief::checks) one
//! after the other. Its report has a [`CheckResult`] for each; the protocol reads them as its verdict.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::Report;

/// The field of a report that has the results of checks.
pub const CHECKS_FIELD: &str = "checks";

/// A command that checks a tree, as stored with the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckSpec {
    /// `test`, `lint`, `types`, or any other name.
    pub name: String,
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    pub timeout: Duration,
}

/// The evidence of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    pub command: Vec<String>,
    /// `None` if the command did not exit by itself; `error` says why.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub duration_ms: u64,
    /// The hash of the git tree that was checked, without the views of runs; `None` outside of git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// The digest of the whole output.
    pub output_digest: String,
    /// The end of the output.
    pub output: String,
    /// The file with the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

impl CheckResult {
    /// Returns whether the command exited with 0.
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// Returns the command as it would be typed in a shell.
    pub fn command_line(&self) -> String {
        shell_words::join(&self.command)
    }

    /// Returns the result in one line: `test failed: exit code 101`.
    pub fn summary(&self) -> String {
        let name = &self.name;
        match (self.exit_code, &self.error) {
            (Some(0), _) => format!("{name} passed"),
            (_, Some(error)) => format!("{name} failed: {error}"),
            (Some(code), None) => format!("{name} failed: exit code {code}"),
            (None, None) => format!("{name} failed"),
        }
    }
}

/// Returns the results that the report of a command step has. Fails if it has none, or if they are malformed.
pub fn results(report: &Report) -> Result<Vec<CheckResult>, String> {
    let results = report.extra_fields.get(CHECKS_FIELD).ok_or("the report has no field `checks`")?;
    Vec::deserialize(results).map_err(|error| format!("the field `checks` is malformed: {error}"))
}
