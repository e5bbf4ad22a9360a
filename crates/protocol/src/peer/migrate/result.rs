//! What the migration of cycles to version 2 of the document did with each key of a dump.

use serde::Serialize;
use serde_json::Value;

use crate::peer::document::Document;
use crate::peer::names::PeerCycleId;

/// A cycle of a dump as a document of version 2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MigratedCycle {
    pub cycle: PeerCycleId,
    pub origin: Origin,
    pub sources: Vec<MigratedKey>,
    pub notes: Vec<Note>,
    /// Keys of the cycle that are not in the document, because a document of version 2 was taken as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<SkippedKey>,
    pub document: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A document of version 2 was taken as it is.
    Current,
    /// The document was made from older keys.
    Migrated,
}

/// A key of a cycle, and what the migration did with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MigratedKey {
    pub key: String,
    /// Whether the document was made from it. Otherwise another key took precedence.
    pub read: bool,
    /// Whether some of its value has no field in version 2 and is kept in the document, under `migrated_from`.
    pub preserved: bool,
}

/// Something that the migration assumed, changed or could not read, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    pub kind: NoteKind,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// The cycle became failed although no key says so.
    Failed,
    /// A value could not be parsed.
    Unreadable,
    /// No key gives the value.
    Assumed,
    /// A value got another form, or the cycle another number.
    Converted,
}

/// A key that is in no document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkippedKey {
    pub key: String,
    pub why: String,
    /// Printed by `import --json`, because no document has it.
    pub value: Value,
}

impl SkippedKey {
    pub(super) fn new(key: String, value: Value, why: impl Into<String>) -> Self {
        Self { key, why: why.into(), value }
    }
}

impl Note {
    pub(super) fn new(kind: NoteKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), key: None }
    }

    pub(super) fn of(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }
}

impl NoteKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
            Self::Assumed => "assumed",
            Self::Converted => "converted",
        }
    }
}
