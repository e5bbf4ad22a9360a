//! The fields that the rules about order and sequences need, as far as they can be parsed. The rules about fields report what
//! cannot be parsed; the other rules skip it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::peer::document::{Event, PeerCycleStatus, Phase, PhaseStatus};
use crate::peer::names::{MAX_SAFE_INTEGER, PeerCycleId, Scope};

pub(super) struct ParsedDocument {
    pub(super) cycle: Option<PeerCycleId>,
    pub(super) scope: Option<Scope>,
    pub(super) number: Option<u64>,
    /// The text of `metadata.spec_name`, if there is one.
    pub(super) spec: Option<String>,
    pub(super) spec_aware: Option<bool>,
    /// How often the document was written.
    pub(super) sequence: Option<u64>,
    pub(super) status: Option<PeerCycleStatus>,
    pub(super) current: Option<Phase>,
    pub(super) phases: [ParsedPhase; 4],
    pub(super) history: Vec<ParsedEntry>,
}

pub(super) struct ParsedPhase {
    pub(super) phase: Phase,
    pub(super) status: Option<PhaseStatus>,
    /// `sequence_at_start`.
    pub(super) start: Option<u64>,
    /// `sequence_at_complete`.
    pub(super) complete: Option<u64>,
}

pub(super) struct ParsedEntry {
    pub(super) index: usize,
    /// `Some(None)` for the cycle as a whole; `None` if it cannot be parsed.
    pub(super) phase: Option<Option<Phase>>,
    pub(super) event: Option<Event>,
    /// The document's `sequence` in the write that added this entry.
    pub(super) sequence: Option<u64>,
    /// The range that a `compacted` entry replaces.
    pub(super) compacted: Option<(u64, u64)>,
}

impl ParsedDocument {
    pub(super) fn read(document: &Value) -> Self {
        let (metadata, context) = (&document["metadata"], &document["context"]);
        let entries = document["history"].as_array().into_iter().flatten().enumerate();
        Self {
            cycle: read(document, "cycle_id"),
            scope: read(metadata, "key_prefix"),
            number: positive(metadata, "cycle_number"),
            spec: read(metadata, "spec_name"),
            spec_aware: read(context, "spec_aware"),
            sequence: positive(document, "sequence"),
            status: read(metadata, "status"),
            current: read(metadata, "current_phase"),
            phases: Phase::ALL.map(|phase| ParsedPhase::read(&document["phases"][phase.as_str()], phase)),
            history: entries.map(|(index, entry)| ParsedEntry::read(entry, index)).collect(),
        }
    }

    pub(super) fn phase(&self, phase: Phase) -> &ParsedPhase {
        match phase {
            Phase::Plan => &self.phases[0],
            Phase::Execute => &self.phases[1],
            Phase::Express => &self.phases[2],
            Phase::Review => &self.phases[3],
        }
    }

    /// Returns how many phases have this status.
    pub(super) fn count_phases(&self, status: PhaseStatus) -> usize {
        self.phases.iter().filter(|phase| phase.status == Some(status)).count()
    }

    /// Whether every entry could be parsed. Otherwise an entry that seems to be missing may be present.
    pub(super) fn every_entry_is_readable(&self) -> bool {
        self.history.iter().all(|entry| entry.phase.is_some() && entry.event.is_some())
    }

    /// The entries with this phase and event.
    pub(super) fn entries(&self, phase: Option<Phase>, event: Event) -> impl Iterator<Item = &ParsedEntry> {
        let matches =
            move |entry: &&ParsedEntry| entry.phase == Some(phase) && entry.event.as_ref() == Some(&event);
        self.history.iter().filter(matches)
    }
}

impl ParsedPhase {
    fn read(fields: &Value, phase: Phase) -> Self {
        Self {
            phase,
            status: read(fields, "status"),
            start: positive(fields, "sequence_at_start"),
            complete: positive(fields, "sequence_at_complete"),
        }
    }

    pub(super) fn is(&self, status: PhaseStatus) -> bool {
        self.status == Some(status)
    }
}

impl ParsedEntry {
    fn read(entry: &Value, index: usize) -> Self {
        Self {
            index,
            phase: entry.get("phase").and_then(|phase| serde_json::from_value(phase.clone()).ok()),
            event: read(entry, "event"),
            sequence: positive(entry, "sequence"),
            compacted: positive(entry, "from").zip(positive(entry, "to")),
        }
    }
}

/// Returns a field of the object, or `None` if it is missing or invalid.
fn read<T: DeserializeOwned>(object: &Value, name: &str) -> Option<T> {
    serde_json::from_value(object.get(name)?.clone()).ok()
}

/// Returns a field that is a whole number from 1 to [`MAX_SAFE_INTEGER`], or `None` if it is missing or invalid.
fn positive(object: &Value, name: &str) -> Option<u64> {
    read(object, name).filter(|number| (1..=MAX_SAFE_INTEGER).contains(number))
}
