//! The brief: all that one attempt is given, as data. The runner turns it into files and environment variables.

pub mod prompt;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::StepId;
use crate::checks::CheckSpec;
use crate::report::{Report, ReportForm};

/// Shown as the agent of steps that the engine performs itself.
pub const ENGINE: &str = "callboard";

/// What an attempt is given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Brief {
    /// The name of the workflow, or the instruction of a peer cycle.
    pub workflow: String,
    /// The agent of the step; an adapter of this name may be configured.
    pub agent: String,
    /// The prompt as stored when the run was opened.
    pub prompt: String,
    pub model: Option<String>,
    #[serde(skip)]
    pub timeout: Option<Duration>,
    /// The number of this attempt among those that count towards `max_attempts`.
    pub counted_attempt: u32,
    pub max_attempts: NonZeroU32,
    /// Why the previous attempt failed.
    pub last_error: Option<String>,
    /// What the report must contain.
    #[serde(skip)]
    pub form: ReportForm,
    /// Where the document of the run is stored, if agents may read and write it directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateLocation>,
    /// Results of the steps that this one needs, in the order of `needs`.
    pub upstream: Vec<Upstream>,
    /// What people answered to the steps that this one needs, in the order of `needs`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<GivenAnswer>,
    /// More environment variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// Which execution of the step this is: 1, plus 1 for every loop-back that has reset it.
    pub iteration: u32,
    /// Whether the step is a gate, so that a report with `gate_failure` loops back.
    pub gate: bool,
    /// The gate failures that caused the latest loop-back to this step.
    pub findings: Vec<Finding>,
    /// The worktree of its own in which the attempt works; `None` if it works where the run does.
    #[serde(skip)]
    pub worktree: Option<Worktree>,
    /// The git tree to which the run's worktree is reset before the attempt starts.
    #[serde(skip)]
    pub reset: Option<TreeReset>,
    #[serde(skip)]
    pub tree_use: TreeUse,
    /// A branch name. The engine lists the existing branches `NAME` and `NAME/*` in the field `git` of the report.
    #[serde(skip)]
    pub list_branches_below: Option<&'static str>,
    /// The checks that the engine runs in a command step, which has no agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// The files that the attempt may edit instead of reporting.
    #[serde(skip)]
    pub copies: Vec<PrivateCopy>,
    /// What happens to the `memory_updates` of its report.
    #[serde(skip)]
    pub memory_policy: MemoryPolicy,
}

/// What happens to the `memory_updates` of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPolicy {
    /// The protocol does not have them.
    #[default]
    Unused,
    /// A note says that they were not applied.
    NotApplied,
    /// They are added to the file `AGENTS.md` of their directory.
    Applied,
}

impl Brief {
    /// Returns the brief of a first attempt that knows nothing but its prompt.
    pub fn new(agent: impl Into<String>, prompt: impl Into<String>, max_attempts: NonZeroU32) -> Self {
        Self {
            workflow: String::new(),
            agent: agent.into(),
            prompt: prompt.into(),
            model: None,
            timeout: None,
            counted_attempt: 1,
            max_attempts,
            last_error: None,
            form: ReportForm::Plain,
            state: None,
            upstream: Vec::new(),
            answers: Vec::new(),
            variables: Vec::new(),
            iteration: 1,
            gate: false,
            findings: Vec::new(),
            worktree: None,
            reset: None,
            tree_use: TreeUse::Changes,
            list_branches_below: None,
            checks: Vec::new(),
            copies: Vec::new(),
            memory_policy: MemoryPolicy::Unused,
        }
    }
}

/// What an attempt does with its worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeUse {
    /// It changes the worktree. Its changes are kept.
    Changes,
    /// It only reads. Its changes, commits included, are removed when it ends. In a run in which the engine makes no
    /// commits, its files are removed when the next attempt with [`Changes`](Self::Changes) starts.
    Reads,
}

/// A git tree to which the run's worktree is reset, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeReset {
    pub tree: String,
    /// Unique among the resets of the run, so that a repeated reset is recognised.
    pub number: usize,
}

/// A worktree that one or more steps of a run share, on a branch of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its name, unique in the run.
    pub name: StepId,
    /// Its branch; `None` for one that is named after the run and the worktree.
    pub branch: Option<String>,
}

/// A file that an attempt finds in its worktree and may edit. After the attempt it is compared with this body, and the
/// difference becomes part of the report ([`Report::copy_edits`]). Steps that can run at once in one worktree need different
/// paths. A run without worktrees has no private copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateCopy {
    /// Relative to the worktree.
    pub path: String,
    pub body: String,
}

/// Where the document of a run is stored. The runner adds the address of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateLocation {
    pub bucket: String,
    pub key: String,
    /// The id that the document gives itself.
    pub document: String,
}

/// The report of a gate that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The id of the gate.
    pub from: String,
    /// The file that shows the report; empty if a person rejected it.
    pub report_path: String,
    pub report: Report,
}

/// Results of an earlier step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upstream {
    pub step: String,
    /// Relative to the repository.
    pub artifacts: Vec<String>,
    pub logs: Vec<String>,
}

/// What a person answered to an earlier step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    pub step: String,
    pub approved: bool,
    pub by: String,
    /// The reason or the text, if the person gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
