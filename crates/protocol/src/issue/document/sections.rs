//! The sections of the document. Every field may be missing. Unknown fields are kept in `others`, and an [`EnumOrText`] keeps a
//! text that is none of the words of its field.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::field::{Complexity, EnumOrText, IssueType, PipelineStatus, ReviewVerdict, Scope, Severity};

/// `issue`: the issue as the tracker had it when the run started.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Issue {
    pub number: Option<u64>,
    pub title: String,
    pub url: String,
    #[serde(rename = "type")]
    pub kind: Option<EnumOrText<IssueType>>,
    pub original_body: String,
    pub labels: Vec<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `pipeline`: where the run is. Only the engine writes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    pub started_at: Option<String>,
    pub current_agent: Option<String>,
    pub attempt: u32,
    pub max_attempts: u32,
    pub status: Option<EnumOrText<PipelineStatus>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `triage`: whether the issue can be worked on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Triage {
    pub completed: bool,
    pub scope: Option<EnumOrText<Scope>>,
    pub complexity: Option<EnumOrText<Complexity>>,
    pub should_proceed: Option<bool>,
    pub rejection_reason: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `analysis`: what is to be done, and what is not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Analysis {
    pub completed: bool,
    pub files: Vec<PlannedFile>,
    pub patterns: Vec<String>,
    pub test_requirement: TestRequirement,
    pub must_do: Vec<String>,
    pub must_not_do: Vec<String>,
    pub brief: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue_type: Option<EnumOrText<IssueType>>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A file that the analyst expects to change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlannedFile {
    pub path: String,
    pub purpose: String,
    pub action: String,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The test that the change needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TestRequirement {
    pub required: Option<bool>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub location: Option<String>,
    pub description: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `writer`: what the writer says about the change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Writer {
    pub completed: bool,
    pub attempt: Option<u32>,
    pub changes: Vec<ChangedFile>,
    pub test_written: bool,
    pub test_file: Option<String>,
    pub summary: Option<String>,
    pub previous_feedback: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A file that the writer has changed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedFile {
    pub file: String,
    pub description: String,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `build`: the results of the checks; null if a check does not apply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    pub completed: bool,
    pub tests_passed: Option<bool>,
    pub lint_passed: Option<bool>,
    pub type_check_passed: Option<bool>,
    pub errors: Vec<Value>,
    pub commands_run: Vec<CommandRun>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// One command of the build.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandRun {
    pub command: String,
    pub exit_code: Option<i32>,
    pub output: String,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `review`: the reviewer's verdict.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Review {
    pub completed: bool,
    pub verdict: Option<EnumOrText<ReviewVerdict>>,
    pub findings: ReviewFindings,
    pub feedback_for_writer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_from: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// What the reviewer found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewFindings {
    pub good: Vec<String>,
    pub issues: Vec<ReviewIssue>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// One problem that the reviewer found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewIssue {
    pub file: String,
    pub line: Option<u64>,
    pub issue: String,
    pub severity: Option<EnumOrText<Severity>>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `commit`: what the committer has done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Commit {
    pub completed: bool,
    pub hash: Option<String>,
    pub message: Option<String>,
    pub branch: Option<String>,
    pub pushed: bool,
    pub pr_created: bool,
    pub pr_url: Option<String>,
    pub issue_closed: bool,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `communication`: questions and escalations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Communication {
    pub questions: Vec<Question>,
    pub escalations: Vec<Escalation>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A question of one agent to another, or to a person.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub from: String,
    pub to: String,
    pub question: String,
    pub answered: bool,
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// A problem that an agent leaves to a person or to another agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Escalation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub agent: String,
    pub reason: String,
    pub requires_human: bool,
    pub resolved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<String>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// `learnings`: what the run has shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LearningsSection {
    pub session_id: Option<String>,
    pub observations: Vec<Observation>,
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_used: Option<u32>,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Something that an agent noticed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    pub agent: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}
