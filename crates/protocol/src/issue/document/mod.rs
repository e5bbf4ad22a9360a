//! The document: `issue-state.json`, typed, with unknown fields kept.

mod field;
mod merge;
mod sections;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::definition::{Definition, Label, TriageMode};
use crate::{RunLocation, StepId, StepRecord, Timestamp, View};

pub use field::{Complexity, EnumOrText, IssueType, PipelineStatus, ReviewVerdict, Scope, Severity};
pub use merge::{changed_members, merge};
pub use sections::{
    Analysis, Build, ChangedFile, CommandRun, Commit, Communication, Escalation, Issue, LearningsSection,
    Observation, Pipeline, PlannedFile, Question, Review, ReviewFindings, ReviewIssue, TestRequirement,
    Triage, Writer,
};

/// The name of the file that shows the document.
pub const FILE: &str = "issue-state.json";
/// The version of the format.
pub const VERSION: &str = "1.0";
/// The part with what only the engine needs. The file does not show it.
const ENGINE: &str = "callboard";

/// The part with the earlier pipeline attempts. The file shows it once there are some.
const ATTEMPTS: &str = "attempts";

/// The whole document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Document {
    pub version: String,
    pub issue: Issue,
    pub pipeline: Pipeline,
    pub triage: Triage,
    pub analysis: Analysis,
    pub writer: Writer,
    pub build: Build,
    pub review: Review,
    pub commit: Commit,
    pub communication: Communication,
    pub learnings: LearningsSection,
    /// Earlier pipeline attempts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<PipelineAttempt>,
    #[serde(rename = "callboard")]
    pub engine: EngineData,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// The parts that the document is stored in, one per field.
macro_rules! sections {
    ($($name:expr => $field:ident),* $(,)?) => {
        impl Document {
            const SECTIONS: &'static [&'static str] = &[$($name),*];

            /// Returns a section as JSON text; `None` if the format has no section of this name.
            fn section(&self, name: &str) -> Option<String> {
                $(if name == $name {
                    return Some(serde_json::to_string(&self.$field).expect("BUG: a document is plain data"));
                })*
                None
            }

            /// Returns the names of the sections that differ.
            fn changed_sections(&self, old: &Self) -> Vec<&'static str> {
                let changed = [$((self.$field != old.$field).then_some($name)),*];
                changed.into_iter().flatten().collect()
            }
        }
    };
}

sections! {
    "version" => version,
    "issue" => issue,
    "pipeline" => pipeline,
    "triage" => triage,
    "analysis" => analysis,
    "writer" => writer,
    "build" => build,
    "review" => review,
    "commit" => commit,
    "communication" => communication,
    "learnings" => learnings,
    ATTEMPTS => attempts,
    ENGINE => engine,
}

/// A pipeline attempt (writer, build, reviewer) that was sent back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PipelineAttempt {
    pub attempt: u32,
    pub writer: Writer,
    pub build: Build,
    pub review: Review,
    pub ended_at: String,
}

/// What only the engine needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineData {
    pub run: String,
    /// The directory of the file.
    pub state_dir: String,
    pub created_at: Option<Timestamp>,
    /// When the run ended last.
    pub ended_at: Option<Timestamp>,
    pub steps: indexmap::IndexMap<StepId, StepRecord>,
    /// The ids of the questions, escalations and blocks that the agent of the stage waits for, in order.
    pub pending: Vec<String>,
    /// The reason of the last block. `pipeline.blocked_reason` is empty while the run has failed, and a retry shows it again.
    pub block_reason: Option<String>,
    /// How many questions, escalations and blocks the agent of the stage has raised.
    pub asked: u32,
    /// The files that the work changes.
    pub changed_files: Vec<String>,
    pub diff_stat: String,
    /// The git tree of the work that is built, reviewed and committed.
    pub tree: Option<String>,
    /// The git tree of the previous pipeline attempt.
    pub previous_tree: Option<String>,
    /// Reasons of past blocks and failures, and what was removed from reports because the agent had no right to it.
    pub notes: Vec<String>,
    /// The answers of persons to blocks: `NAME: ANSWER`.
    pub block_answers: Vec<String>,
}

impl Document {
    pub(super) fn open(definition: &Definition, location: &RunLocation, at: Timestamp) -> Self {
        let data = &definition.issue;
        let day = at.to_string().chars().take(10).collect::<String>();
        Self {
            version: VERSION.to_owned(),
            issue: Issue {
                number: Some(data.number),
                title: data.title.clone(),
                url: data.url.clone(),
                original_body: data.body.clone(),
                labels: data.labels.iter().map(|label| Label::name(label).to_owned()).collect(),
                ..Issue::default()
            },
            pipeline: Pipeline {
                started_at: Some(format_seconds(at)),
                current_agent: Some(match definition.triage {
                    TriageMode::Run => "triage".to_owned(),
                    TriageMode::Skip => "analyst".to_owned(),
                }),
                attempt: 1,
                max_attempts: definition.pipeline_attempts.get(),
                status: Some(EnumOrText::Known(PipelineStatus::InProgress)),
                ..Pipeline::default()
            },
            commit: Commit { branch: Some(definition.branch.clone()), ..Commit::default() },
            learnings: LearningsSection {
                session_id: Some(format!("{day}-issue-{}", data.number)),
                ..LearningsSection::default()
            },
            engine: EngineData {
                run: location.run.to_string(),
                state_dir: location.state_dir.as_ref().unwrap_or(&location.repo_dir).clone(),
                created_at: Some(at),
                ..EngineData::default()
            },
            ..Self::default()
        }
    }

    /// Returns the document as JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("BUG: a document is plain data")
    }

    /// Returns what the file shows: the document without what only the engine needs.
    pub fn file_content(&self) -> Value {
        let mut value = self.to_value();
        value.as_object_mut().expect("BUG: a document is an object").shift_remove(ENGINE);
        value
    }

    /// Merges a partial document: objects member by member, everything else by replacement. Fails if a field has another
    /// type.
    pub fn merged(&self, partial: &Value) -> Result<Self, String> {
        let mut value = self.to_value();
        merge(&mut value, partial);
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    pub(super) fn part(&self, path: &str) -> String {
        self.section(path).unwrap_or_else(|| self.others[path].to_string())
    }

    pub(super) fn assemble(parts: &[(String, String)]) -> Option<Self> {
        let fields = parts.iter().map(|(path, body)| Some((path.clone(), serde_json::from_str(body).ok()?)));
        serde_json::from_value(Value::Object(fields.collect::<Option<_>>()?)).ok()
    }

    /// Returns the names of the parts that differ from `old`; those of all parts if there is no `old`.
    pub(super) fn changed_parts(&self, old: Option<&Self>) -> Vec<String> {
        let is_present = |name: &str| name != ATTEMPTS || !self.attempts.is_empty();
        let sections = match old {
            Some(old) => self.changed_sections(old),
            None => Self::SECTIONS.iter().copied().filter(|name| is_present(name)).collect(),
        };
        let is_same = |name: &str, value: &Value| old.is_some_and(|old| old.others.get(name) == Some(value));
        let others = self.others.iter().filter(|(name, value)| !is_same(name, value));
        sections.into_iter().map(str::to_owned).chain(others.map(|(name, _)| name.clone())).collect()
    }

    pub(super) fn views(&self) -> Vec<View> {
        let body = serde_json::to_string_pretty(&self.file_content()).expect("BUG: a document is plain data");
        vec![View { path: format!("{}/{FILE}", self.engine.state_dir), body: body + "\n" }]
    }

    /// Returns what `learnings.json` keeps of a run; `None` if the run has not ended. A run that is retried and ends
    /// again has a new `key`.
    pub fn session(&self) -> Option<Value> {
        let (ended_at, outcome) = (self.engine.ended_at?, self.learnings.outcome.as_ref()?);
        let command = |check: &str| {
            let mut runs = self.build.commands_run.iter();
            runs.find(|run| run.others.get("check") == Some(&json!(check))).map(|run| run.command.clone())
        };
        Some(json!({
            "key": format!("{}@{ended_at}", self.engine.run),
            "ended_at": format_seconds(ended_at),
            "session_id": self.learnings.session_id,
            "run": self.engine.run,
            "issue": self.issue.number,
            "url": self.issue.url,
            "type": self.issue.kind,
            "outcome": outcome,
            "attempts_used": self.learnings.attempts_used,
            "duration_minutes": self.learnings.duration_minutes,
            "observations": self.learnings.observations,
            "patterns": self.analysis.patterns,
            "commands": { "test": command("test"), "lint": command("lint"), "types": command("types") },
            "approach": self.writer.summary,
            "lesson": self.review.feedback_for_writer.as_ref().or(self.pipeline.failure_reason.as_ref()),
        }))
    }

    pub(super) fn step(&self, id: &StepId) -> Option<&StepRecord> {
        self.engine.steps.get(id)
    }

    /// Returns the question with this id.
    pub(super) fn question(&self, id: &str) -> Option<&Question> {
        self.communication.questions.iter().find(|question| question.id.as_deref() == Some(id))
    }

    /// Returns the escalation with this id.
    pub(super) fn escalation(&self, id: &str) -> Option<&Escalation> {
        self.communication.escalations.iter().find(|escalation| escalation.id.as_deref() == Some(id))
    }
}

/// Returns the time in whole seconds, as the format writes it.
pub(super) fn format_seconds(at: Timestamp) -> String {
    match at.to_jiff() {
        Some(timestamp) => format!("{timestamp:.0}"),
        None => at.to_string(),
    }
}
