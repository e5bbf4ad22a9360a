//! The JSON of a cycle, field by field. Every field may be missing in a file that is read, and unknown fields are kept.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::cycle::step::Role;

/// The JSON fields that a struct does not name. The comment of a field `unknown` lists those that the engine or its agents
/// write; all others come from other programs.
type Unknown = Map<String, Value>;

/// The file `.workflow/.cycle/ID.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MasterFile {
    pub cycle_id: String,
    pub title: String,
    pub description: String,
    pub task_history: Vec<String>,
    pub status: Status,
    pub created_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    pub max_iterations: u32,
    pub current_iteration: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    pub agents: Agents,
    pub current_phase: Phase,
    pub completed_phases: Vec<String>,
    pub phase_errors: Vec<PhaseError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Requirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exploration: Option<Exploration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "changes")]
    pub changes: Option<Changes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_results: Option<TestResults>,
    pub iterations: Vec<Iteration>,
    pub coordination: Coordination,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    #[default]
    Created,
    Running,
    Paused,
    Completed,
    Failed,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    #[default]
    Init,
    #[serde(rename = "ra")]
    Requirements,
    #[serde(rename = "ep")]
    Planning,
    #[serde(rename = "cd")]
    Coding,
    #[serde(rename = "vas")]
    Validation,
    Aggregation,
    Complete,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agents {
    pub ra: Agent,
    pub ep: Agent,
    pub cd: Agent,
    pub vas: Agent,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Agents {
    pub fn of(&self, role: Role) -> &Agent {
        match role {
            Role::Analyst => &self.ra,
            Role::Planner => &self.ep,
            Role::Developer => &self.cd,
            Role::Validator => &self.vas,
        }
    }

    pub fn of_mut(&mut self, role: Role) -> &mut Agent {
        match role {
            Role::Analyst => &mut self.ra,
            Role::Planner => &mut self.ep,
            Role::Developer => &mut self.cd,
            Role::Validator => &mut self.vas,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    pub status: AgentStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    pub output_files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub iterations_completed: u32,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    #[default]
    Idle,
    Running,
    Waiting,
    Completed,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseError {
    pub phase: String,
    pub error: String,
    pub timestamp: String,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Requirements {
    pub version: String,
    pub specification: String,
    pub edge_cases: Vec<String>,
    pub last_updated: String,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Exploration {
    pub version: String,
    pub architecture_summary: String,
    pub integration_points: Vec<String>,
    pub identified_risks: Vec<String>,
    pub last_updated: String,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    pub version: String,
    pub tasks: Vec<PlanTask>,
    pub total_estimated_effort: String,
    pub critical_path: Vec<String>,
    pub last_updated: String,
    /// `parallel_opportunities`.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A task of the plan. `plan.json` shows it without `status` and `assigned_to`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanTask {
    pub id: String,
    pub description: String,
    pub effort: Effort,
    pub depends_on: Vec<String>,
    pub status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assigned_to: Option<String>,
    pub files: Vec<String>,
    /// `title`, `estimated_hours`, `success_criteria`, and other fields that the agent reports.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    Small,
    #[default]
    Medium,
    Large,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    #[default]
    Pending,
    InProgress,
    Completed,
    Blocked,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    pub total_files: u64,
    pub changes: Vec<FileChange>,
    /// When the coding of each iteration ended.
    pub iteration_markers: IndexMap<String, String>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One changed file: an entry of `changes.changes`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileChange {
    pub timestamp: String,
    pub file: String,
    pub action: FileAction,
    pub iteration: u32,
    pub agent: String,
    pub description: String,
    /// `task`, `lines_added`, `lines_removed`.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    Create,
    #[default]
    Modify,
    Delete,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestResults {
    pub version: String,
    pub pass_rate: Number,
    pub coverage: Number,
    pub failed_tests: Vec<String>,
    pub total_tests: u64,
    pub last_run: String,
    /// `source` and `coverage_source`: `engine` if the engine measured it, `claim` if only an agent says so.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Default for TestResults {
    fn default() -> Self {
        Self {
            version: String::new(),
            pass_rate: 0.into(),
            coverage: 0.into(),
            failed_tests: Vec::new(),
            total_tests: 0,
            last_run: String::new(),
            unknown: Unknown::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Iteration {
    pub number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<String>,
    pub started_at: String,
    /// Missing while the iteration is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    pub agent_results: IndexMap<String, AgentResult>,
    pub issues_found: Vec<String>,
    pub resolved: bool,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentResult {
    /// The engine writes `running`, `partial`, `completed`, `failed` or `stopped`; other programs may write any word.
    pub status: String,
    pub files_modified: u64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Coordination {
    pub feedback_log: Vec<Feedback>,
    pub pending_decisions: Vec<Decision>,
    pub blockers: Vec<Blocker>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Feedback {
    pub timestamp: String,
    pub source: String,
    pub target: String,
    pub content: String,
    #[serde(rename = "type")]
    pub kind: FeedbackKind,
    /// The iteration in which the target gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    RequirementUpdate,
    BugReport,
    IssueFix,
    #[default]
    Clarification,
}

impl FeedbackKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequirementUpdate => "requirement_update",
            Self::BugReport => "bug_report",
            Self::IssueFix => "issue_fix",
            Self::Clarification => "clarification",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    pub id: String,
    pub description: String,
    pub options: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_option: Option<String>,
    pub status: DecisionStatus,
    /// `recommended`, `needed_by`, `raised_by`, `iteration`; `original_id` if an import changed the id.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionStatus {
    #[default]
    Pending,
    Made,
    Implemented,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Blocker {
    pub id: String,
    pub description: String,
    pub reported_by: String,
    pub status: BlockerStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// `needed_by`, `iteration`; `original_id` if an import changed the id.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockerStatus {
    #[default]
    Open,
    Resolved,
    Workaround,
}

/// Reads `changes`, which some programs write as the bare list of entries.
fn changes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Changes>, D::Error> {
    use serde::de::Error as _;
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Array(entries) if entries.is_empty() => Ok(None),
        entries @ Value::Array(_) => {
            let changes: Vec<FileChange> = serde_json::from_value(entries).map_err(D::Error::custom)?;
            let mut section = Changes { changes, ..Changes::default() };
            section.update_total_files();
            Ok(Some(section))
        }
        section @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            serde_json::from_value(section).map(Some).map_err(D::Error::custom)
        }
    }
}

impl Changes {
    /// Sets `total_files` to the number of distinct files.
    pub fn update_total_files(&mut self) {
        let files: std::collections::BTreeSet<_> = self.changes.iter().map(|change| &change.file).collect();
        self.total_files = files.len() as u64;
    }
}
