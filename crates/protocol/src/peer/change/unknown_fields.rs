//! Fields that the seed does not know. They are their writers' own: kept through every other change, changed only by
//! their writers.

use super::written;
use crate::peer::document::{Document, Event, Phase, Second, Unknown};

/// All fields of a document that the seed does not know and that may be changed. (Those of history entries and of errors
/// may not: what has happened has happened.)
#[derive(Debug, Clone, PartialEq)]
pub struct Foreign {
    pub root: Unknown,
    pub metadata: Unknown,
    pub context: Unknown,
    pub phases: [Unknown; 4],
}

impl Foreign {
    pub fn of(document: &Document) -> Self {
        Self {
            root: document.unknown.clone(),
            metadata: document.metadata.unknown.clone(),
            context: document.context.unknown.clone(),
            phases: Phase::ALL.map(|phase| document.phases[phase].unknown.clone()),
        }
    }

    /// Puts them in the place of the document's own.
    pub(in crate::peer) fn put(self, document: &mut Document) {
        document.unknown = self.root;
        document.metadata.unknown = self.metadata;
        document.context.unknown = self.context;
        for (phase, unknown) in Phase::ALL.into_iter().zip(self.phases) {
            document.phases[phase].unknown = unknown;
        }
    }
}

/// Changes fields that the seed does not know, and nothing else. Possible wherever the cycle stands.
pub fn set_foreign(old: &Document, foreign: Foreign, at: Second) -> Document {
    let (mut new, _) = written(old, at, None, Event::Progress);
    foreign.put(&mut new);
    new
}
