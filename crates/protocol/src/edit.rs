//! Edits: what agents and people write into a document themselves, beside what the engine decides.
//!
//! A [`Patch`] is what somebody wants changed, based on the document as they read it. The protocol turns it into an edit
//! of the document as it is now ([`Protocol::edit`](crate::Protocol::edit)), or says why not. An edit changes no run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::Violation;

/// The edits of a protocol whose document only the engine writes: there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hand<S> {
    /// An attempt of this seat, from inside.
    Seat(S),
    /// A person or a program that is no part of the run.
    Outside,
}

/// What somebody wants changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// Values at JSON pointers.
    Set(Vec<(String, Value)>),
    /// A merge patch (RFC 7396).
    Merge(Value),
    /// A list of operations (RFC 6902).
    Operations(json_patch::Patch),
}

/// Why a document cannot be edited so. Nothing is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Uneditable {
    #[error("only the engine writes this document")]
    EngineOnly,
    #[error("the patch does not fit the document: {0}")]
    Unpatchable(String),
    /// The hand may not write there.
    #[error("`{pointer}` is not yours to write: {because}")]
    NotYours { pointer: String, because: String },
    /// `schema_validation_failed`
    #[error("the document would break {} of its rules: {}", .0.len(), .0.first().map_or("", |first| &first.message))]
    Violations(Vec<Violation>),
    /// `invalid_transition`
    #[error("{message}")]
    InvalidTransition { message: String, because: Vec<Violation> },
    /// `sequence_conflict`: since the document was read, somebody else has changed what this would change.
    #[error("`{region}` has changed since")]
    Conflict { region: String },
}
