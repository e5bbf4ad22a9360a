//! The document of `peer`: one per cycle, typed. Fields we do not know are kept and written back.
//!
//! What reads without an error here may still break the rules of the seed.

mod history;
pub(super) mod parts;
mod phase;
mod position;
pub(super) mod progress;
mod second;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::names::{CycleId, Scope, SpecName};

pub use history::{Event, HistoryEntry};
pub use phase::{Phase, PhaseDocument, PhaseError, PhaseStatus, Phases};
pub use position::{InvalidTransition, Position};
pub use second::{BadSecond, Second};

/// The version of the format.
pub const VERSION: u64 = 2;

/// Fields the seed does not know, in their order.
pub type Unknown = Map<String, Value>;

/// One cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Always [`VERSION`].
    pub version: u64,
    pub cycle_id: CycleId,
    /// How often this document was changed; not the store's number.
    pub sequence: u64,
    pub metadata: Metadata,
    pub context: Context,
    pub phases: Phases,
    /// Only ever appended to, but for the compacting of old progress.
    pub history: Vec<HistoryEntry>,
    /// The reviewer's summary.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub cycle_summary: Option<Value>,
    /// What the reviewer learnt, and what is asked of the user.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub insights: Option<Value>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What cycle this is, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Any text: what could be asked in another version is still a cycle.
    pub instruction: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_name: Option<SpecName>,
    pub key_prefix: Scope,
    pub cycle_number: u64,
    pub created_at: Second,
    pub updated_at: Second,
    pub status: CycleStatus,
    /// The phase in progress, else the last that was; `plan` before the first.
    pub current_phase: Phase,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the cycle was opened with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    pub peer_mode: Mode,
    pub spec_aware: bool,
    pub instruction_args: String,
    /// What the user wants, verbatim.
    pub user_requirements: String,
    /// The failed cycle that this one goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<CycleId>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CycleStatus {
    Initialized,
    InProgress,
    Completed,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    New,
    Continue,
}

impl CycleStatus {
    pub const ALL: [Self; 4] = [Self::Initialized, Self::InProgress, Self::Completed, Self::Failed];

    /// The seed's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "initialized",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl Mode {
    pub const ALL: [Self; 2] = [Self::New, Self::Continue];

    /// The seed's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Continue => "continue",
        }
    }
}

impl Document {
    /// Its text: two-space JSON with a final newline.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("BUG: a document is plain data");
        text.push('\n');
        text
    }

    /// The same as plain JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("BUG: a document is plain data")
    }
}

/// Keeps a null that was written apart from a field that was not.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
