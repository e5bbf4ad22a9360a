//! Edits: what agents and people write into a document themselves, beside what the engine decides.
//!
//! A [`Patch`] is what somebody wants changed, based on the document as they read it. The protocol turns it into an edit
//! of the document as it is now ([`Protocol::edit`](crate::Protocol::edit)), or says why not. An edit changes no run.

mod patch;

use serde::{Deserialize, Serialize};

use crate::check::Violation;
pub use patch::{Patch, Unpatchable};

/// The edits of a protocol whose document only the engine writes: there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditAuthor<S> {
    /// An attempt of this step, from inside.
    Step(S),
    /// A person or a program that is no part of the run.
    Outside,
}

/// Why a document cannot be edited so. Nothing is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Uneditable {
    #[error("only the engine writes this document")]
    EngineOnly,
    #[error("the patch does not fit the document")]
    Unpatchable(#[from] Unpatchable),
    /// The hand may not write there.
    #[error("`{pointer}` is not yours to write: {because}")]
    NotYours { pointer: String, because: String },
    #[error("the document would break {} of its rules: {}", .0.len(), .0.first().map_or("", |first| &first.message))]
    Violations(Vec<Violation>),
    #[error("{message}")]
    InvalidTransition { message: String, because: Vec<Violation> },
    /// Since the document was read, somebody else has changed what this would change, or what it rests on.
    #[error("{why}")]
    Conflict { why: String },
}

impl Uneditable {
    /// The seed's word for it, where it has one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::EngineOnly => "engine_only",
            Self::Unpatchable(_) => "unpatchable",
            Self::NotYours { .. } => "not_yours",
            Self::Violations(_) => "schema_validation_failed",
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::Conflict { .. } => "sequence_conflict",
        }
    }

    /// Each place that is in the way.
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Violations(violations) | Self::InvalidTransition { because: violations, .. } => violations,
            Self::EngineOnly | Self::Unpatchable(_) | Self::NotYours { .. } | Self::Conflict { .. } => &[],
        }
    }
}
