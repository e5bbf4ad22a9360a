//! Changes fields of the document that its format does not define. All other writes leave these fields as they are.

use super::next_write;
use crate::peer::document::{Document, Event, Phase, Unknown, WholeSecond};

/// All unknown fields that may be changed. Those of history entries and of errors may not.
#[derive(Debug, Clone, PartialEq)]
pub struct UnknownFields {
    pub root: Unknown,
    pub metadata: Unknown,
    pub context: Unknown,
    pub phases: [Unknown; 4],
}

impl UnknownFields {
    pub fn of(document: &Document) -> Self {
        Self {
            root: document.unknown.clone(),
            metadata: document.metadata.unknown.clone(),
            context: document.context.unknown.clone(),
            phases: Phase::ALL.map(|phase| document.phases[phase].unknown.clone()),
        }
    }

    /// Replaces the unknown fields of a document.
    pub(in crate::peer) fn put(self, document: &mut Document) {
        document.unknown = self.root;
        document.metadata.unknown = self.metadata;
        document.context.unknown = self.context;
        for (phase, unknown) in Phase::ALL.into_iter().zip(self.phases) {
            document.phases[phase].unknown = unknown;
        }
    }
}

/// Makes a write that replaces the unknown fields and otherwise changes only what every write does: sequence, time and history.
/// Allowed in every status of the cycle and its phases.
pub fn set_unknown_fields(old: &Document, fields: UnknownFields, at: WholeSecond) -> Document {
    let (mut new, _) = next_write(old, at, None, Event::Progress);
    fields.put(&mut new);
    new
}
