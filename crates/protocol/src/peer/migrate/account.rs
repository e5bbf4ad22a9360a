//! What became of each key: for people, for programs, and for whoever has to trust it.

use serde::Serialize;
use serde_json::Value;

use super::claim::Generation;
use crate::peer::document::Document;
use crate::peer::names::CycleId;

/// A cycle of a dump, as a document of version 2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Migrated {
    pub cycle: CycleId,
    pub origin: Origin,
    pub sources: Vec<Source>,
    pub notes: Vec<Note>,
    /// Keys of the cycle that are not in the document, because one of version 2 was taken as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Ignored>,
    pub document: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It was of version 2 and is taken as it is.
    Current,
    /// It was put together from what was found.
    RunState,
}

/// A key of a cycle, and what it gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Source {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// The places of the document that have their value from here, unchanged.
    pub gave: Vec<String>,
    /// The places that follow from what it says, in other words.
    pub decided: Vec<String>,
    /// Whether something is left for which version 2 has no place, or another; it is under `migrated_from`.
    pub rest: bool,
}

/// Something that was decided on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    pub kind: NoteKind,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where in the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The cycle is entered as failed, though it does not say so itself.
    Failed,
    /// Two keys disagree; the one that counts more was believed.
    Overruled,
    /// Something cannot be read as what it should be.
    Unreadable,
    /// It is not said anywhere.
    Guessed,
    /// It had another form, or another number.
    Reshaped,
}

/// A key that became nothing. Its value is kept here, for it is nowhere else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ignored {
    pub key: String,
    pub why: String,
    pub value: Value,
}

impl Note {
    pub(super) fn new(kind: NoteKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), key: None, pointer: None }
    }

    pub(super) fn of(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    pub(super) fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }
}

impl NoteKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Overruled => "overruled",
            Self::Unreadable => "unreadable",
            Self::Guessed => "guessed",
            Self::Reshaped => "reshaped",
        }
    }
}
