//! Edits: changes of a document that agents and people make themselves. An edit does not change the state of the run.
//!
//! A [`Patch`] is the change an author asks for, based on the document as the author read it. The protocol turns it into an
//! edit of the current document ([`Protocol::edit`](crate::Protocol::edit)), or refuses it.

mod patch;
mod rights;

use crate::StepId;
use crate::check::Violation;
pub use patch::{Patch, PatchError};
pub use rights::{FilteredPatch, Rights};

/// Who makes an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditAuthor<S = StepId> {
    /// An attempt of this step.
    Step(S),
    /// A person, or a program that is not part of the run.
    Outside,
}

/// Why an edit was refused. Nothing was written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EditRefusal {
    #[error("only the engine writes this document")]
    DocumentNotEditable,
    #[error("the patch does not apply to the document")]
    Patch(#[from] PatchError),
    /// The author has no right to change the field at `pointer`.
    #[error("`{pointer}` may not be changed by you: {because}")]
    NotYours { pointer: String, because: String },
    #[error("the document would violate {} of its rules: {}", .0.len(), .0.first().map_or("", |first| &first.message))]
    Violations(Vec<Violation>),
    #[error("{message}")]
    InvalidTransition { message: String, violations: Vec<Violation> },
    /// Since this author read the document, another one has changed a field that the edit changes or copies.
    #[error("{why}")]
    Conflict { why: String },
}

impl EditRefusal {
    /// Returns the stable name of the refusal: the original's word, if it has one.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::DocumentNotEditable => "engine_only",
            Self::Patch(_) => "unpatchable",
            Self::NotYours { .. } => "not_yours",
            Self::Violations(_) => "schema_validation_failed",
            Self::InvalidTransition { .. } => "invalid_transition",
            Self::Conflict { .. } => "sequence_conflict",
        }
    }

    /// Returns the violations that caused the refusal.
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Violations(violations) | Self::InvalidTransition { violations, .. } => violations,
            Self::DocumentNotEditable | Self::Patch(_) | Self::NotYours { .. } | Self::Conflict { .. } => &[],
        }
    }
}
