//! What a run of `issue` is started with.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::CheckSpec;
use crate::issue::step::Agent;

/// The default of [`Definition::pipeline_attempts`].
pub const DEFAULT_PIPELINE_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).expect("BUG: three is not zero");
/// The default of [`Definition::max_questions`].
pub const DEFAULT_MAX_QUESTIONS: u32 = 3;

/// What a run is started with. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    pub issue: IssueData,
    pub tracker: TrackerSpec,
    pub triage: TriageMode,
    /// How often writer, build and reviewer are run before the run fails.
    pub pipeline_attempts: NonZeroU32,
    /// Attempts of one agent in one turn.
    pub max_attempts: NonZeroU32,
    /// How many questions, escalations and blocks one agent may raise before it completes its step of the pipeline.
    pub max_questions: u32,
    /// The branch that the work is committed to.
    pub branch: String,
    /// The branch that the pull request goes to; `None` if HEAD was detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether a pull request that exists already is changed to go to `base`: only if the user named the base.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retarget_pull_request: bool,
    /// The commit that the work starts from.
    pub start_commit: String,
    pub close_issue: CloseIssue,
    /// What `build` runs.
    pub checks: Vec<CheckSpec>,
    /// The timeout of an agent's attempt; `None` for the adapter's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Prompt templates of the repository, by agent. The others are built in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// The content of `learnings.json` when the run started; null if there was none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub learnings: Value,
}

/// An issue as `gh issue view --json number,title,body,labels,url` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueData {
    pub number: u64,
    pub title: String,
    #[serde(default, deserialize_with = "or_default")]
    pub body: String,
    #[serde(default, deserialize_with = "or_default")]
    pub labels: Vec<Label>,
    #[serde(default, deserialize_with = "or_default")]
    pub url: String,
}

/// Reads null as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A label: its name, or an object with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Label {
    Name(String),
    Object { name: String },
}

impl Label {
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Object { name } => name,
        }
    }
}

/// Where comments and pull requests go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackerSpec {
    /// GitHub, by the program `gh`.
    Gh,
    /// A directory, by JSON files.
    Files { dir: PathBuf },
}

/// Whether the pipeline starts with triage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriageMode {
    Run,
    Skip,
}

/// What closes the issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseIssue {
    /// The merge of the pull request.
    ByMerge,
    /// The run, at its end.
    ByRun,
}

impl Definition {
    /// Returns the template of an agent's prompt: that of the repository, or the built-in one.
    pub(super) fn template(&self, agent: Agent) -> &str {
        let own = self.prompts.get(agent.name());
        own.map_or_else(|| super::step::prompts::template(agent), String::as_str)
    }
}
