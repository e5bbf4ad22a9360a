//! The document: the content of the files in `coordination/`. It is stored in parts, of which a commit
//! changes few.

mod files;
mod messages;
mod orchestrator;
mod plan;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Definition, GroupId, Mode};
use super::import::CoordinationFiles;
use super::report::plan::{Criterion, PlanGroup, Task};
use super::state::{Blocked, DevelopReason, GroupProgress, Stage};
use super::step::{PmStep, Role, Step};
use crate::protocol_trait::{RunLocation, View};
use crate::{StepId, StepRecord, Timestamp};

pub use messages::{Mailbox, Message};
pub(super) use orchestrator::spawn_decision;

/// The directory of the files, relative to the repository.
pub(super) const DIRECTORY: &str = "coordination";

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub run: RunPart,
    pub plan: PlanPart,
    pub groups: BTreeMap<GroupId, GroupPart>,
    pub decisions: Vec<DecisionEntry>,
    pub messages: Vec<Message>,
    pub imported: Option<Imported>,
}

/// What every commit may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPart {
    pub repo_dir: String,
    pub session_id: String,
    pub request: String,
    /// How many groups may work at the same time.
    pub max_parallel: u8,
    /// `iteration` of `orchestrator_state.json`: how many attempts have started.
    pub iteration: u64,
    /// `total_spawns` of the same file: the same count, but imported files may have two.
    pub total_spawns: u64,
    /// `iteration` of `pm_state.json`: how often the plan, or the status of a group in it, has changed.
    pub pm_iteration: u64,
    pub pm_last_update: Timestamp,
    pub status: OrchestratorStatus,
    /// Whether the run is paused, stopped or about to be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    pub start_time: Timestamp,
    pub end_time: Option<Timestamp>,
    pub last_update: Timestamp,
    /// The steps at work, and when their attempts have started.
    pub active: BTreeMap<StepId, Timestamp>,
    /// The project manager's steps.
    pub steps: BTreeMap<String, StepRecord>,
    /// Why the project manager's last report that all is done was refused.
    pub refusal: Option<String>,
    /// What a person agreed to leave out: a group that was skipped, or the open rest of a run accepted as complete.
    pub consents: Vec<String>,
}

/// `status` of `orchestrator_state.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrchestratorStatus {
    Running,
    Completed,
    Error,
}

/// The plan as accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanPart {
    pub mode: Mode,
    pub mode_reasoning: String,
    pub tasks: Vec<Task>,
    pub groups: Vec<PlanGroup>,
    pub phases: Vec<Vec<GroupId>>,
    pub criteria: Vec<CriterionRecord>,
    /// The files for which a group waits for another one that it does not depend on.
    pub shared_files: BTreeMap<GroupId, BTreeMap<GroupId, Vec<String>>>,
    /// The groups that replace a group.
    pub replaced: BTreeMap<GroupId, Vec<GroupId>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionRecord {
    #[serde(flatten)]
    pub criterion: Criterion,
    /// Whether its command passed the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The result of its command, with the end of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

impl From<Criterion> for CriterionRecord {
    fn from(criterion: Criterion) -> Self {
        Self { criterion, passed: None, evidence: None }
    }
}

/// One group: what `group_status.json` has, and what only the engine needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupPart {
    pub stage: Stage,
    /// Whether the group continues, waits for a decision, or is closed.
    pub progress: GroupProgress,
    /// Whether the role that the stage needs has started.
    pub stage_started: bool,
    pub iterations: Iterations,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub files_modified: Vec<String>,
    pub commits: Vec<String>,
    pub test_results: BTreeMap<String, TestCounts>,
    pub feedback: Vec<Feedback>,
    pub blockers: Vec<Blocker>,
    pub code_quality_score: Option<f64>,
    pub security_issues_count: Option<u64>,
    /// How often a test, a review or a merge sent the group back to its developer.
    pub sent_back: u32,
    pub last_update: Timestamp,
    pub closed_because: Option<String>,
    /// The summary of the developer's last report.
    pub summary: String,
    pub steps: BTreeMap<String, StepRecord>,
    /// Whether the imported files claim that the group is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimed_complete: bool,
    /// Why a person decides about an imported group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_question: Option<String>,
}

/// `iterations` of a group in `group_status.json`: how many attempts of each role have started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Iterations {
    pub developer: u32,
    pub qa: u32,
    pub tech_lead: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TestCounts {
    #[serde(default)]
    pub total: u64,
    #[serde(default)]
    pub passed: u64,
    #[serde(default)]
    pub failed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    pub iteration: u32,
    pub decision: String,
    pub feedback: String,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    pub description: String,
    pub resolved: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
}

impl Blocker {
    pub(super) fn new(description: String) -> Self {
        Self { description, resolved: false, resolution: None }
    }
}

/// One entry of `decisions_log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionEntry {
    pub iteration: u64,
    pub decision: String,
    pub reasoning: String,
    pub timestamp: Timestamp,
}

/// The files of an imported `coordination/`, as they were. Members that the original does not define are exported again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    pub coordination: CoordinationFiles,
    /// Whether the run still is as it was imported.
    pub unchanged: bool,
}

// The paths of the parts, or their prefixes.
const RUN: &str = "run";
const PLAN: &str = "plan";
const IMPORTED: &str = "imported";
const GROUP: &str = "group/";
const DECISION: &str = "decision/";
const MESSAGE: &str = "message/";

impl Document {
    pub(super) fn open(definition: &Definition, location: &RunLocation, at: Timestamp) -> Self {
        Self {
            run: RunPart {
                repo_dir: location.repo_dir.clone(),
                session_id: session_id(at),
                request: definition.request.clone(),
                max_parallel: definition.limits.groups.get(),
                iteration: 0,
                total_spawns: 0,
                pm_iteration: 0,
                pm_last_update: at,
                status: OrchestratorStatus::Running,
                held: false,
                start_time: at,
                end_time: None,
                last_update: at,
                active: BTreeMap::new(),
                steps: PmStep::ALL.map(|step| (step.as_str().to_owned(), StepRecord::default())).into(),
                refusal: None,
                consents: Vec::new(),
            },
            plan: PlanPart {
                mode: Mode::Simple,
                mode_reasoning: "not decided yet".to_owned(),
                tasks: Vec::new(),
                groups: Vec::new(),
                phases: Vec::new(),
                criteria: Vec::new(),
                shared_files: BTreeMap::new(),
                replaced: BTreeMap::new(),
            },
            groups: BTreeMap::new(),
            decisions: Vec::new(),
            messages: Vec::new(),
            imported: None,
        }
    }

    pub(super) fn step(&self, step: &Step) -> StepRecord {
        let found = match step {
            Step::Pm(step) => self.run.steps.get(step.as_str()),
            Step::Group(id, role) => self.groups.get(id).and_then(|group| group.steps.get(role.as_str())),
        };
        found.cloned().unwrap_or_default()
    }

    /// Returns a step and the path of the part that has it.
    pub(super) fn step_mut(&mut self, step: &Step) -> (&mut StepRecord, String) {
        match step {
            Step::Pm(step) => (self.run.steps.entry(step.as_str().to_owned()).or_default(), RUN.to_owned()),
            Step::Group(id, role) => {
                let group = self.groups.get_mut(id).unwrap_or_else(|| panic!("BUG: no group `{id}`"));
                (group.steps.entry(role.as_str().to_owned()).or_default(), group_part_path(id))
            }
        }
    }

    /// Returns the group that the project manager is to split.
    pub(super) fn splitting(&self) -> Option<&GroupId> {
        self.groups.iter().find(|(_, group)| group.progress == GroupProgress::Splitting).map(|(id, _)| id)
    }

    /// Returns the group as the plan has it.
    pub(super) fn planned(&self, id: &GroupId) -> Option<&PlanGroup> {
        self.plan.groups.iter().find(|group| group.id == *id)
    }

    /// Returns the paths of all parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = String> {
        let imported = self.imported.as_ref().map(|_| imported_part_path());
        let groups = self.groups.keys().map(group_part_path);
        let decisions = (0..self.decisions.len()).map(decision_part_path);
        let messages = (0..self.messages.len()).map(message_part_path);
        [run_part_path(), plan_part_path()]
            .into_iter()
            .chain(imported)
            .chain(groups)
            .chain(decisions)
            .chain(messages)
    }

    pub(super) fn part(&self, path: &str) -> String {
        let text = if let Some(id) = path.strip_prefix(GROUP) {
            let id = GroupId::new(id).expect("BUG: the part of a group has its id");
            serde_json::to_string(&self.groups[&id])
        } else if let Some(number) = path.strip_prefix(DECISION) {
            serde_json::to_string(&self.decisions[parse_index(number)])
        } else if let Some(number) = path.strip_prefix(MESSAGE) {
            serde_json::to_string(&self.messages[parse_index(number)])
        } else if path == PLAN {
            serde_json::to_string(&self.plan)
        } else if path == IMPORTED {
            serde_json::to_string(&self.imported)
        } else {
            serde_json::to_string(&self.run)
        };
        text.expect("BUG: a document is plain data")
    }

    pub(super) fn assemble(parts: &[(String, String)]) -> Option<Self> {
        let find = |name: &str| parts.iter().find(|(path, _)| path == name).map(|(_, body)| body.as_str());
        let mut groups = BTreeMap::new();
        let (mut decisions, mut messages) = (BTreeMap::new(), BTreeMap::new());
        for (path, body) in parts {
            if let Some(id) = path.strip_prefix(GROUP) {
                groups.insert(GroupId::new(id).ok()?, serde_json::from_str(body).ok()?);
            } else if let Some(number) = path.strip_prefix(DECISION) {
                decisions.insert(number.parse::<usize>().ok()?, serde_json::from_str(body).ok()?);
            } else if let Some(number) = path.strip_prefix(MESSAGE) {
                messages.insert(number.parse::<usize>().ok()?, serde_json::from_str(body).ok()?);
            }
        }
        Some(Self {
            run: serde_json::from_str(find(RUN)?).ok()?,
            plan: serde_json::from_str(find(PLAN)?).ok()?,
            groups,
            decisions: in_sequence(decisions)?,
            messages: in_sequence(messages)?,
            imported: match find(IMPORTED) {
                Some(body) => serde_json::from_str(body).ok()?,
                None => None,
            },
        })
    }

    pub(super) fn views(&self) -> Vec<View> {
        let path = |name| format!("{}/{DIRECTORY}/{name}", self.run.repo_dir);
        self.files()
            .into_iter()
            .map(|(name, value)| View { path: path(name), body: pretty(&value) })
            .collect()
    }
}

/// Formats the content of a file.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("BUG: a document is plain data") + "\n"
}

/// Returns the entries in order; `None` if a number is missing.
fn in_sequence<T>(numbered: BTreeMap<usize, T>) -> Option<Vec<T>> {
    let is_whole = numbered.keys().copied().eq(0..numbered.len());
    is_whole.then(|| numbered.into_values().collect())
}

fn parse_index(number: &str) -> usize {
    number.parse().expect("BUG: the part of an entry has its number")
}

pub(super) fn run_part_path() -> String {
    RUN.to_owned()
}

pub(super) fn plan_part_path() -> String {
    PLAN.to_owned()
}

pub(super) fn imported_part_path() -> String {
    IMPORTED.to_owned()
}

pub(super) fn group_part_path(id: &GroupId) -> String {
    format!("{GROUP}{id}")
}

pub(super) fn decision_part_path(number: usize) -> String {
    format!("{DECISION}{number}")
}

pub(super) fn message_part_path(number: usize) -> String {
    format!("{MESSAGE}{number}")
}

/// Returns a session id in the original's format: `v4_YYYYMMDD_HHMMSS`.
fn session_id(at: Timestamp) -> String {
    format!("v4_{}", compact_timestamp(at))
}

/// Returns `YYYYMMDD_HHMMSS`.
pub(super) fn compact_timestamp(at: Timestamp) -> String {
    at.to_jiff().unwrap_or_default().strftime("%Y%m%d_%H%M%S").to_string()
}

impl GroupPart {
    pub(super) fn new(at: Timestamp) -> Self {
        Self {
            stage: Stage::Develop(DevelopReason::New),
            progress: GroupProgress::Open,
            stage_started: false,
            iterations: Iterations::default(),
            start_time: None,
            end_time: None,
            files_modified: Vec::new(),
            commits: Vec::new(),
            test_results: BTreeMap::new(),
            feedback: Vec::new(),
            blockers: Vec::new(),
            code_quality_score: None,
            security_issues_count: None,
            sent_back: 0,
            last_update: at,
            closed_because: None,
            summary: String::new(),
            steps: Role::ALL.map(|role| (role.as_str().to_owned(), StepRecord::default())).into(),
            claimed_complete: false,
            import_question: None,
        }
    }

    /// Returns the original's status.
    pub fn status(&self) -> &'static str {
        self.stage.status(self.stage_started)
    }

    /// Returns the value of `closed`, a key that the original does not have.
    pub(super) fn closed(&self) -> Option<&'static str> {
        match self.progress {
            GroupProgress::Skipped => Some("skipped"),
            GroupProgress::Failed(_) => Some("failed"),
            GroupProgress::Split => Some("split"),
            GroupProgress::Open | GroupProgress::Asks(_) | GroupProgress::Splitting => None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Complete || self.progress.is_closed()
    }

    pub(super) fn open_blockers(&self) -> impl Iterator<Item = &Blocker> {
        self.blockers.iter().filter(|blocker| !blocker.resolved)
    }

    pub(super) fn resolve_blockers(&mut self, resolution: &str) {
        for blocker in self.blockers.iter_mut().filter(|blocker| !blocker.resolved) {
            (blocker.resolved, blocker.resolution) = (true, Some(resolution.to_owned()));
        }
    }

    /// Returns whether a role of the group has ever started.
    pub(super) fn has_begun(&self) -> bool {
        self.start_time.is_some()
    }
}
