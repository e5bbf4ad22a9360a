//! The document of `peer`, one per cycle. Unknown fields are written back unchanged.
//!
//! A document that can be parsed may still break rules of the format; see [`check`](mod@super::check).

mod history;
pub(super) mod parts;
mod phase;
pub(super) mod progress_entries;
mod status_with_phase;
mod whole_second;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::names::{PeerCycleId, Scope, SpecName};

pub use history::{Event, HistoryEntry};
pub use phase::{Phase, PhaseDocument, PhaseError, PhaseStatus, Phases};
pub use status_with_phase::{InvalidTransition, StatusWithPhase};
pub use whole_second::{BadWholeSecond, WholeSecond};

/// The version of the format.
pub const VERSION: u64 = 2;

/// Fields that the format does not define, in their order.
pub type Unknown = Map<String, Value>;

/// One cycle: one run of the protocol, with its four phases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Always [`VERSION`].
    pub version: u64,
    pub cycle_id: PeerCycleId,
    /// How often this document was written: its own revision, not the store's.
    pub sequence: u64,
    pub metadata: Metadata,
    pub context: Context,
    pub phases: Phases,
    /// Append-only. In an imported document a `compacted` entry may stand for old progress entries.
    pub history: Vec<HistoryEntry>,
    /// The reviewer's summary.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub cycle_summary: Option<Value>,
    /// What the reviewer learnt, and its questions to the user.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub insights: Option<Value>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The cycle's name and status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The instruction that the user gave, such as `create-spec`. Any text: other versions may have other instructions.
    pub instruction: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_name: Option<SpecName>,
    /// The cycle id without its number.
    pub key_prefix: Scope,
    pub cycle_number: u64,
    pub created_at: WholeSecond,
    pub updated_at: WholeSecond,
    pub status: PeerCycleStatus,
    /// The phase in progress, else the one that was in progress last; `plan` before the first has started.
    pub current_phase: Phase,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the cycle was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    pub peer_mode: Mode,
    /// Whether the cycle is about a spec, not about the repository.
    pub spec_aware: bool,
    /// The flags that choose the scope, as typed.
    pub instruction_args: String,
    /// What the user wants, verbatim.
    pub user_requirements: String,
    /// The failed cycle that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<PeerCycleId>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerCycleStatus {
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

impl PeerCycleStatus {
    pub const ALL: [Self; 4] = [Self::Initialized, Self::InProgress, Self::Completed, Self::Failed];

    /// The word in the document.
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

    /// The word in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Continue => "continue",
        }
    }
}

impl Document {
    /// Renders the document as JSON, indented by two spaces, with a final newline.
    pub fn render(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("BUG: a document cannot be serialized");
        text.push('\n');
        text
    }

    /// Converts the document to JSON.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("BUG: a document cannot be serialized")
    }
}

/// Deserializes a field that is present, so that null differs from a missing field.
pub(super) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
