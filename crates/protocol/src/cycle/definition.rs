//! What a cycle is started with. It never changes; what may change, such as the iteration limit, is part of the state.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::step::Role;
use crate::checks::CheckSpec;
use crate::protocol_trait::DEFAULT_MAX_ATTEMPTS;

/// The iteration limit of a cycle whose limit is not given.
pub const DEFAULT_MAX_ITERATIONS: u32 = 5;
/// The default of [`Definition::utc_offset`]: +08:00, as in the documents of the original.
pub const DEFAULT_UTC_OFFSET: i32 = 8 * 60;
/// The most tasks that are coded at once.
pub const MAX_PARALLEL: u32 = 4;

/// What a cycle is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The task, as typed.
    pub task: String,
    /// The title; without one, the beginning of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub max_iterations: u32,
    /// How many tasks of the plan are coded at once; 1 for one step that codes them all.
    pub parallel: u32,
    pub overlap: Overlap,
    pub decisions: DecisionMode,
    pub merge_mode: MergeMode,
    /// The commands by which the engine tests the tree after coding. Without any, the test results in the agent's report count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
    /// The offset of the times in the document, in minutes east of UTC.
    pub utc_offset: i32,
    pub max_attempts: NonZeroU32,
    /// The timeout of an attempt, if it is not that of its role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The templates that replace the built-in prompts, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<Role, String>,
}

/// Whether exploration and a first test run start before the phases that they belong to. The phases are `ra` (requirements),
/// `ep` (exploration and plan), `cd` (code) and `vas` (validation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    #[default]
    Off,
    /// `ep.explore` runs in parallel with `ra`, `vas.baseline` with `ep`.
    On,
}

/// Who makes the decisions that agents ask for in their reports. These are choices about the work; the decisions of the run
/// state machine are something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionMode {
    /// A person chooses.
    #[default]
    Ask,
    /// The engine takes the recommended option, or the first.
    Auto,
}

/// Where the code goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMode {
    /// The agents work in the user's checkout.
    #[default]
    InPlace,
    /// The agents work on the branch `cycle/RUN`, and the user merges it.
    Branch,
    /// The engine fast-forwards the base branch when the cycle has succeeded.
    FastForward,
}

impl Definition {
    /// Returns the definition of a cycle with the default options.
    pub fn new(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            title: None,
            max_iterations: DEFAULT_MAX_ITERATIONS,
            parallel: 1,
            overlap: Overlap::Off,
            decisions: DecisionMode::Ask,
            merge_mode: MergeMode::InPlace,
            checks: Vec::new(),
            utc_offset: DEFAULT_UTC_OFFSET,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: None,
            templates: BTreeMap::new(),
        }
    }

    pub fn title(&self) -> String {
        self.title.clone().unwrap_or_else(|| title_of(&self.task))
    }
}

/// Returns the title of a cycle without one: the first 100 characters of the task.
pub(super) fn title_of(task: &str) -> String {
    task.chars().take(100).collect()
}
