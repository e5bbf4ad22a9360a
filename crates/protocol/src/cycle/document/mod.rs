//! The document of a cycle: the original JSON, what the engine keeps besides, and the files under `.progress/`.
//!
//! All of it changes in one commit. It is stored in parts, so that a commit writes what has changed and not the whole
//! history of a long cycle.
//!
//! The files under `.progress/` are those of the directory `.workflow/.cycle/ID.progress/`.

mod merge_partial;
mod model;
pub(in crate::cycle) mod parts;
pub mod times;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

pub use merge_partial::merge_partial;
pub use model::{
    Agent, AgentResult, AgentStatus, Agents, Blocker, BlockerStatus, Changes, Coordination, Decision,
    DecisionStatus, Effort, Exploration, Feedback, FeedbackKind, FileAction, FileChange, Iteration,
    MasterFile, Phase, PhaseError, Plan, PlanTask, Requirements, Status, TaskStatus, TestResults,
};

use super::definition::Definition;
use super::step::Step;
use crate::checks::CheckResult;
use crate::protocol_trait::RunLocation;
use crate::{StepId, StepRecord, Timestamp};

/// The document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub master_file: MasterFile,
    pub engine: EngineRecord,
    /// The files under `.progress/` that are rewritten as a whole, by relative path. Those in `history/` never change.
    pub files: BTreeMap<String, String>,
    /// The files that only grow: by relative path, what each iteration has appended.
    pub logs: BTreeMap<String, BTreeMap<u32, String>>,
}

/// Writes the original JSON only, without what the engine keeps besides.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.master_file.serialize(serializer)
    }
}

/// What the engine keeps besides the original JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineRecord {
    /// The repository whose `.workflow/` shows the cycle.
    pub repo_dir: String,
    /// The offset of the times in the document, in minutes east of UTC.
    pub utc_offset: i32,
    pub created_at: Timestamp,
    pub steps: BTreeMap<StepId, IterationStep>,
    /// The tasks of `extend` requests that no iteration has taken yet, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// What the open iteration has found so far: its `issues_found`, and feedback for the next iteration.
    pub findings: IterationFindings,
    /// The results of the checks of this iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// How the cycle had ended each time before it was reopened: `REASON (ended TIME)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reopened: Vec<String>,
}

/// What an iteration has found, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IterationFindings {
    /// Failing tests and checks, and critical issues.
    pub failing_tests: Vec<String>,
    pub open_issues: Vec<String>,
    /// Tasks that are not completed, and a sentence if the plan is partial.
    pub plan_gaps: Vec<String>,
}

impl IterationFindings {
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.failing_tests.iter().chain(&self.open_issues).chain(&self.plan_gaps)
    }
}

/// The record of a step, and the iteration of its latest turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IterationStep {
    pub iteration: u32,
    #[serde(flatten)]
    pub record: StepRecord,
}

impl Document {
    /// Returns the document of a new cycle.
    pub(super) fn open(definition: &Definition, location: &RunLocation, at: Timestamp) -> Self {
        let time = times::format(at, definition.utc_offset);
        let master_file = MasterFile {
            cycle_id: location.run.to_string(),
            title: definition.title(),
            description: definition.task.clone(),
            task_history: vec![definition.task.clone()],
            created_at: time.clone(),
            updated_at: time,
            max_iterations: definition.max_iterations,
            ..MasterFile::default()
        };
        let engine = EngineRecord {
            repo_dir: location.repo_dir.clone(),
            utc_offset: definition.utc_offset,
            created_at: at,
            steps: BTreeMap::new(),
            extensions: Vec::new(),
            findings: IterationFindings::default(),
            checks: Vec::new(),
            reopened: Vec::new(),
        };
        Self { master_file, engine, files: BTreeMap::new(), logs: BTreeMap::new() }
    }

    /// Formats a time with the offset of the cycle.
    pub(super) fn time(&self, at: Timestamp) -> String {
        times::format(at, self.engine.utc_offset)
    }

    /// Returns a file under `.progress/`, or an empty one that an agent can fill.
    pub(super) fn file_or_blank(&self, path: &str) -> &str {
        let blank = if path.ends_with(".json") { "{}\n" } else { "" };
        self.files.get(path).map_or(blank, String::as_str)
    }

    /// Returns the whole text of a log.
    pub(super) fn log(&self, path: &str) -> String {
        self.logs.get(path).into_iter().flat_map(BTreeMap::values).map(String::as_str).collect()
    }

    /// Returns the record of a step, if it had a turn.
    pub fn step(&self, step: &Step) -> Option<&StepRecord> {
        self.engine.steps.get(&step.id()).map(|step| &step.record)
    }

    /// Returns the record of a step, if it had a turn in this iteration.
    pub(super) fn step_of_iteration(&self, step: &Step) -> Option<&StepRecord> {
        let step = self.engine.steps.get(&step.id())?;
        (step.iteration == self.master_file.current_iteration).then_some(&step.record)
    }

    /// Returns the latest iteration, open or closed.
    pub(super) fn iteration_mut(&mut self) -> Option<&mut Iteration> {
        self.master_file.iterations.last_mut()
    }
}
