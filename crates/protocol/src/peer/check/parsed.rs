//! What a document says about order and sequences, as far as it can be read. What cannot was reported by the rules about
//! fields; the other rules hold their tongue about it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::peer::document::{CycleStatus, Event, Phase, PhaseStatus};
use crate::peer::names::{CycleId, LARGEST, Scope};

pub(super) struct Facts {
    pub(super) cycle: Option<CycleId>,
    pub(super) scope: Option<Scope>,
    pub(super) number: Option<u64>,
    /// The text of `metadata.spec_name`, if there is one.
    pub(super) spec: Option<String>,
    pub(super) spec_aware: Option<bool>,
    pub(super) sequence: Option<u64>,
    pub(super) status: Option<CycleStatus>,
    pub(super) current: Option<Phase>,
    pub(super) phases: [PhaseFacts; 4],
    pub(super) history: Vec<EntryFacts>,
}

pub(super) struct PhaseFacts {
    pub(super) phase: Phase,
    pub(super) status: Option<PhaseStatus>,
    pub(super) start: Option<u64>,
    pub(super) complete: Option<u64>,
}

pub(super) struct EntryFacts {
    pub(super) index: usize,
    /// None inside for the cycle as a whole; none outside if it cannot be read.
    pub(super) phase: Option<Option<Phase>>,
    pub(super) event: Option<Event>,
    pub(super) sequence: Option<u64>,
    /// What a `compacted` entry stands for.
    pub(super) compacted: Option<(u64, u64)>,
}

impl Facts {
    pub(super) fn read(document: &Value) -> Self {
        let (metadata, context) = (&document["metadata"], &document["context"]);
        let entries = document["history"].as_array().into_iter().flatten().enumerate();
        Self {
            cycle: read(document, "cycle_id"),
            scope: read(metadata, "key_prefix"),
            number: count(metadata, "cycle_number"),
            spec: read(metadata, "spec_name"),
            spec_aware: read(context, "spec_aware"),
            sequence: count(document, "sequence"),
            status: read(metadata, "status"),
            current: read(metadata, "current_phase"),
            phases: Phase::ALL.map(|phase| PhaseFacts::read(&document["phases"][phase.as_str()], phase)),
            history: entries.map(|(index, entry)| EntryFacts::read(entry, index)).collect(),
        }
    }

    pub(super) fn phase(&self, phase: Phase) -> &PhaseFacts {
        match phase {
            Phase::Plan => &self.phases[0],
            Phase::Execute => &self.phases[1],
            Phase::Express => &self.phases[2],
            Phase::Review => &self.phases[3],
        }
    }

    /// How many phases have this status.
    pub(super) fn count(&self, status: PhaseStatus) -> usize {
        self.phases.iter().filter(|phase| phase.status == Some(status)).count()
    }

    /// Whether every entry can be read; else one that seems to be missing may be there.
    pub(super) fn has_whole_history(&self) -> bool {
        self.history.iter().all(|entry| entry.phase.is_some() && entry.event.is_some())
    }

    /// The entries that say this.
    pub(super) fn entries(&self, phase: Option<Phase>, event: Event) -> impl Iterator<Item = &EntryFacts> {
        let says =
            move |entry: &&EntryFacts| entry.phase == Some(phase) && entry.event.as_ref() == Some(&event);
        self.history.iter().filter(says)
    }
}

impl PhaseFacts {
    fn read(shown: &Value, phase: Phase) -> Self {
        Self {
            phase,
            status: read(shown, "status"),
            start: count(shown, "sequence_at_start"),
            complete: count(shown, "sequence_at_complete"),
        }
    }

    pub(super) fn is(&self, status: PhaseStatus) -> bool {
        self.status == Some(status)
    }
}

impl EntryFacts {
    fn read(entry: &Value, index: usize) -> Self {
        Self {
            index,
            phase: entry.get("phase").and_then(|phase| serde_json::from_value(phase.clone()).ok()),
            event: read(entry, "event"),
            sequence: count(entry, "sequence"),
            compacted: count(entry, "from").zip(count(entry, "to")),
        }
    }
}

fn read<T: DeserializeOwned>(owner: &Value, name: &str) -> Option<T> {
    serde_json::from_value(owner.get(name)?.clone()).ok()
}

fn count(owner: &Value, name: &str) -> Option<u64> {
    read(owner, name).filter(|number| (1..=LARGEST).contains(number))
}
