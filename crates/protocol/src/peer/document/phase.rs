//! The four phases, and what the document has for each.

use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PeerCycleId, Unknown, WholeSecond, deserialize_present};

/// A phase of a cycle, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Says what to do.
    Plan,
    /// Does it.
    Execute,
    /// Turns the result into text for people.
    Express,
    /// Judges the result and the text.
    Review,
}

/// One phase in the document. Fields that do not apply yet are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseDocument {
    pub status: PhaseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<WholeSecond>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<WholeSecond>,
    /// The document's `sequence` in the write that started the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_at_start: Option<u64>,
    /// The document's `sequence` in the write that completed the phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_at_complete: Option<u64>,
    /// Anything while the phase is in progress; a valid output once it is completed.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The failed attempts, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<PhaseError>>,
    /// The cycle whose output was reused: this phase did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_from: Option<PeerCycleId>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseError {
    /// A machine-readable word, such as `timeout` or `cancelled`.
    pub kind: String,
    pub message: String,
    pub timestamp: WholeSecond,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// The four phases. Unlike in other objects, unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    pub plan: PhaseDocument,
    pub execute: PhaseDocument,
    pub express: PhaseDocument,
    pub review: PhaseDocument,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Plan, Self::Execute, Self::Express, Self::Review];

    /// The word in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Execute => "execute",
            Self::Express => "express",
            Self::Review => "review",
        }
    }

    /// The agent that runs it.
    pub fn agent(self) -> &'static str {
        match self {
            Self::Plan => "planner",
            Self::Execute => "executor",
            Self::Express => "expresser",
            Self::Review => "reviewer",
        }
    }

    pub fn next(self) -> Option<Self> {
        match self {
            Self::Plan => Some(Self::Execute),
            Self::Execute => Some(Self::Express),
            Self::Express => Some(Self::Review),
            Self::Review => None,
        }
    }

    /// Parses the word in the document. Returns `None` if there is no such phase.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == word)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PhaseStatus {
    pub const ALL: [Self; 4] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed];

    /// The word in the document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

impl PhaseDocument {
    pub fn pending() -> Self {
        Self {
            status: PhaseStatus::Pending,
            started_at: None,
            completed_at: None,
            sequence_at_start: None,
            sequence_at_complete: None,
            output: None,
            errors: None,
            reused_from: None,
            unknown: Unknown::new(),
        }
    }

    pub fn errors(&self) -> &[PhaseError] {
        self.errors.as_deref().unwrap_or_default()
    }
}

impl Phases {
    pub fn pending() -> Self {
        let pending = PhaseDocument::pending;
        Self { plan: pending(), execute: pending(), express: pending(), review: pending() }
    }

    /// The phases in the order in which they run.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, &PhaseDocument)> {
        Phase::ALL.into_iter().map(|phase| (phase, &self[phase]))
    }

    /// The first phase that has this status.
    pub fn find(&self, status: PhaseStatus) -> Option<Phase> {
        self.iter().find(|(_, document)| document.status == status).map(|(phase, _)| phase)
    }
}

impl Index<Phase> for Phases {
    type Output = PhaseDocument;

    fn index(&self, phase: Phase) -> &PhaseDocument {
        match phase {
            Phase::Plan => &self.plan,
            Phase::Execute => &self.execute,
            Phase::Express => &self.express,
            Phase::Review => &self.review,
        }
    }
}

impl IndexMut<Phase> for Phases {
    fn index_mut(&mut self, phase: Phase) -> &mut PhaseDocument {
        match phase {
            Phase::Plan => &mut self.plan,
            Phase::Execute => &mut self.execute,
            Phase::Express => &mut self.express,
            Phase::Review => &mut self.review,
        }
    }
}
