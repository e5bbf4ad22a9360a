//! The document of `steps`: `run_state.json`, typed. Unknown fields are kept and written back.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::Definition;
use super::phases::Phase;
use super::time::Time;
use crate::StepId;
use crate::brief::{Finding, GivenAnswer};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    #[serde(flatten)]
    pub run_fields: RunFields,
    /// In workflow order.
    pub steps: IndexMap<String, StepDocument>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
    /// Why each failed gate has failed, until its loop-back hands that on to `findings` of the target. Stored with the
    /// document and not shown in the file.
    #[serde(skip)]
    pub gate_findings: BTreeMap<String, Finding>,
    /// What the agent of a step has to mend, until the step is done: the failures of the gates that looped back to it, its
    /// failed checks, or a person's rejection. Not shown in the file.
    #[serde(skip)]
    pub findings: BTreeMap<String, Vec<Finding>>,
    /// What the engine knows about a step besides the fields of the file. It is not shown there.
    #[serde(skip)]
    pub progress: BTreeMap<String, StepProgress>,
    /// The items of steps with data loops, each like a step. They are not shown in the file.
    #[serde(skip)]
    pub items: BTreeMap<String, StepDocument>,
}

/// What the engine knows about a step besides the fields of the file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepProgress {
    /// The same as in `State::phases`: `None` in the first phase, and for finished steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How often its checks have failed since it was ready, the same as in `State::failed_check_turns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_check_turns: u32,
    /// The items of its data loop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Value>,
    /// The findings about its items while their list is read again, which removes the items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub item_findings: Vec<ItemFindings>,
    /// The answer of a person, until the step starts again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<GivenAnswer>,
}

/// Findings about one item of a data loop, for a step that works on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemFindings {
    pub item: Value,
    /// Its number in the earlier list, from 1.
    pub number: u32,
    /// The step of the data loop that the findings are for.
    pub step: StepId,
    pub findings: Vec<Finding>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The fields above the steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFields {
    pub run_id: String,
    pub workflow_name: String,
    pub repo_dir: String,
    pub reports_dir: String,
    pub manual_inputs_dir: String,
    pub created_at: Time,
    pub updated_at: Time,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDocument {
    pub status: Status,
    pub attempts: u32,
    pub iteration_count: u32,
    pub report_path: Option<String>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub last_error: Option<String>,
    pub artifacts: Vec<String>,
    /// Values are texts, even if they are numbers, as the format requires. Those of an imported step stay as they were.
    pub metrics: Map<String, Value>,
    pub logs: Vec<String>,
    /// The file in which the answer of a person is read, while the step waits for it.
    pub manual_input_path: Option<String>,
    /// The gate that looped back, for a step after the target, until the step starts again.
    pub blocked_by_loop: Option<String>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// The status of a step, in the document's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Pending,
    Running,
    WaitingOnHuman,
    Completed,
    Failed,
    Skipped,
}

impl Status {
    /// Returns the word in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::WaitingOnHuman => "WAITING_ON_HUMAN",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
        }
    }
}

impl StepDocument {
    pub(super) fn pending() -> Self {
        Self {
            status: Status::Pending,
            attempts: 0,
            iteration_count: 0,
            report_path: None,
            started_at: None,
            ended_at: None,
            last_error: None,
            artifacts: Vec::new(),
            metrics: Map::new(),
            logs: Vec::new(),
            manual_input_path: None,
            blocked_by_loop: None,
            unknown: Map::new(),
        }
    }
}

/// The path of the part with everything but the steps.
pub(super) const RUN_FIELDS: &str = "run";

/// Returns the path of the part of a step.
pub(super) fn step_part(id: &str) -> String {
    format!("{STEPS}{id}")
}

/// Returns the path of the part with the findings for a step.
pub(super) fn findings_part(id: &str) -> String {
    format!("{FINDINGS}{id}")
}

/// Returns the path of the part with the report of a failed gate.
pub(super) fn gate_finding_part(id: &str) -> String {
    format!("{GATES}{id}")
}

/// Returns the path of the part of an item.
pub(super) fn item_part(id: &str) -> String {
    format!("{ITEMS}{id}")
}

const ITEMS: &str = "items/";

/// Returns the path of the part with the progress of a step.
pub(super) fn progress_part(id: &str) -> String {
    format!("{PROGRESS}{id}")
}

const PROGRESS: &str = "progress/";
const STEPS: &str = "steps/";
const FINDINGS: &str = "findings/";
const GATES: &str = "gates/";

impl Document {
    /// Returns a step or an item.
    pub fn step(&self, id: &str) -> Option<&StepDocument> {
        self.steps.get(id).or_else(|| self.items.get(id))
    }

    /// Returns the phase of a step that is not finished.
    pub fn phase(&self, definition: &Definition, id: &StepId) -> Phase {
        let progress = self.progress.get(id.as_str());
        progress.and_then(|progress| progress.phase).unwrap_or_else(|| definition.first_phase(id))
    }

    /// Returns how often the checks of a step have failed since it was ready.
    pub(super) fn failed_check_turns(&self, id: &StepId) -> u32 {
        self.progress.get(id.as_str()).map_or(0, |progress| progress.failed_check_turns)
    }

    /// Returns the answer that a person gave to a step since it started.
    pub(super) fn answer(&self, id: &StepId) -> Option<&GivenAnswer> {
        self.progress.get(id.as_str())?.answer.as_ref()
    }

    /// Returns the JSON text of a part.
    pub(super) fn part(&self, path: &str) -> String {
        let text = if let Some(id) = path.strip_prefix(STEPS) {
            serde_json::to_string(&self.steps[id])
        } else if let Some(id) = path.strip_prefix(FINDINGS) {
            serde_json::to_string(self.findings.get(id).map_or(&[][..], Vec::as_slice))
        } else if let Some(id) = path.strip_prefix(GATES) {
            serde_json::to_string(&self.gate_findings.get(id))
        } else if let Some(id) = path.strip_prefix(PROGRESS) {
            serde_json::to_string(&self.progress.get(id))
        } else if let Some(id) = path.strip_prefix(ITEMS) {
            serde_json::to_string(&self.items.get(id))
        } else {
            assert!(path == RUN_FIELDS, "BUG: a document has no part `{path}`");
            serde_json::to_string(&RunFieldsPart {
                run_fields: self.run_fields.clone(),
                unknown: self.unknown.clone(),
            })
        };
        text.expect("BUG: a document is plain data")
    }

    /// Assembles a document from its parts, with the steps in this order. Returns `None` if a part is missing or malformed.
    pub(super) fn assemble<'a>(
        order: impl Iterator<Item = &'a StepId>,
        parts: &[(String, String)],
    ) -> Option<Self> {
        let parts: IndexMap<&str, &str> =
            parts.iter().map(|(path, body)| (path.as_str(), body.as_str())).collect();
        let RunFieldsPart { run_fields, unknown } = serde_json::from_str(parts.get(RUN_FIELDS)?).ok()?;
        let steps = order.map(|id| {
            let body = parts.get(step_part(id.as_str()).as_str())?;
            Some((id.to_string(), serde_json::from_str(body).ok()?))
        });
        let steps = steps.collect::<Option<_>>()?;
        let mut document = Self {
            run_fields,
            steps,
            unknown,
            gate_findings: BTreeMap::new(),
            findings: BTreeMap::new(),
            progress: BTreeMap::new(),
            items: BTreeMap::new(),
        };
        for (path, body) in parts {
            if let Some(id) = path.strip_prefix(FINDINGS) {
                let found: Vec<_> = serde_json::from_str(body).ok()?;
                document.findings.extend((!found.is_empty()).then(|| (id.to_owned(), found)));
            } else if let Some(id) = path.strip_prefix(GATES) {
                let found: Option<_> = serde_json::from_str(body).ok()?;
                document.gate_findings.extend(found.map(|found| (id.to_owned(), found)));
            } else if let Some(id) = path.strip_prefix(PROGRESS) {
                let found: Option<_> = serde_json::from_str(body).ok()?;
                document.progress.extend(found.map(|found| (id.to_owned(), found)));
            } else if let Some(id) = path.strip_prefix(ITEMS) {
                let found: Option<_> = serde_json::from_str(body).ok()?;
                document.items.extend(found.map(|found| (id.to_owned(), found)));
            }
        }
        Some(document)
    }

    /// Returns the text of the file: JSON indented by two spaces, with a final newline.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("BUG: a document is plain data");
        text.push('\n');
        text
    }
}

#[derive(Serialize, Deserialize)]
struct RunFieldsPart {
    #[serde(flatten)]
    run_fields: RunFields,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}
