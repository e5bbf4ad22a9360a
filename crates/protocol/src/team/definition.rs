//! What a run of `team` is started with: the request, the mode and the limits.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::StepId;

/// What a run is started with; it never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// What the user wants, verbatim. Every prompt has it.
    pub request: String,
    pub mode: ModeChoice,
    pub limits: Limits,
    /// The time limit of an attempt of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The templates that replace built-in prompts, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
}

/// Which mode the plan must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeChoice {
    /// The project manager decides.
    Auto,
    Simple,
    Parallel,
}

/// How many turns a group gets before a person decides, and how many groups work at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Turns of a group's developer.
    pub developer: NonZeroU8,
    /// Turns of a group's QA expert.
    pub qa: NonZeroU8,
    /// Reviews of a group by the tech lead.
    pub review: NonZeroU8,
    /// Turns of the step `pm.check`, in which the project manager judges the result.
    pub checks: NonZeroU8,
    /// Groups that may work at the same time.
    pub groups: NonZeroU8,
    /// Attempts of a turn.
    pub attempts: NonZeroU32,
    /// `show` and `inbox` name a group that makes no progress for this long.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let number = |number| NonZeroU8::new(number).expect("BUG: the number is not zero");
        Self {
            developer: number(5),
            qa: number(3),
            review: number(3),
            checks: number(5),
            groups: number(4),
            attempts: crate::protocol_trait::DEFAULT_MAX_ATTEMPTS,
            idle: Duration::from_secs(15 * 60),
        }
    }
}

/// The mode of a plan: how the work is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One group, `main`.
    Simple,
    /// The groups that the project manager plans.
    Parallel,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Simple => "simple",
            Self::Parallel => "parallel",
        })
    }
}

/// The id of a group. Its steps begin with it, as in `A.developer`, so it has no dot and is not `pm`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupId(StepId);

/// The longest id of a group: its steps must be step ids, and its branch a file name.
const MAX_GROUP_ID_LEN: usize = 40;

impl GroupId {
    /// Creates an id. Fails if it is not safe as a file name, in a branch or before the dot of a step id.
    pub fn new(text: &str) -> Result<Self, String> {
        let id =
            StepId::new(text).map_err(|error| format!("`{text}` cannot be the id of a group: {error}"))?;
        match text {
            "pm" => Err("`pm` cannot be the id of a group: it names the project manager".to_owned()),
            _ if text.contains('.') => Err(format!("`{text}` cannot be the id of a group: it contains `.`")),
            // A key that begins with `_` is a comment in the files of the original.
            _ if text.starts_with('_') => {
                Err(format!("`{text}` cannot be the id of a group: it begins with `_`"))
            }
            _ if text.len() > MAX_GROUP_ID_LEN => Err(format!(
                "`{text}` cannot be the id of a group: it has more than {MAX_GROUP_ID_LEN} characters"
            )),
            _ => Ok(Self(id)),
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn step_id(&self) -> &StepId {
        &self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl TryFrom<String> for GroupId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::new(&text)
    }
}

impl From<GroupId> for String {
    fn from(id: GroupId) -> String {
        id.as_str().to_owned()
    }
}
