//! Migration of peer cycles that were stored before version 2 of the document.
//!
//! Earlier formats kept a cycle in many keys of a NATS bucket, or in one document of several shapes; dots or colons
//! separate the words of a key. A dump has all keys of such a bucket, with their values.
//!
//! [`OldCycles::read`] sorts the keys of a dump into cycles. [`OldCycles::cycles`] replays each cycle, as far as it got,
//! with the functions of [`change`] that also make the writes of new cycles. So the result breaks no rule. Nothing is
//! stored here.
//!
//! * One format is used per cycle: a document of version 2, else the newest whole document (one key has the whole
//!   cycle), else the keys with single values (generation 1 in `docs/peer.md`), else an archived copy.
//! * A cycle that is marked completed but lacks the output of a phase becomes failed in that phase.
//! * Values that version 2 has no field for are preserved under [`MIGRATED_FROM`], by key.

mod group;
mod key;
mod migrated_status;
mod read;
mod replay;
mod reshape;
mod result;
mod status;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::change;
use super::document::{Document, WholeSecond};
use super::names::PeerCycleId;
use group::{CycleKeys, Fragment};
use key::KeyContent;
pub use result::{MigratedCycle, MigratedKey, Note, NoteKind, Origin, SkippedKey};

/// The root field that preserves what version 2 has no field for.
pub const MIGRATED_FROM: &str = "migrated_from";

/// The cycles of a dump.
#[derive(Debug)]
pub struct OldCycles {
    cycles: BTreeMap<PeerCycleId, CycleKeys>,
    /// Keys that belong to no single cycle.
    pub skipped: Vec<SkippedKey>,
}

/// Parses the text under a key: JSON if it is an object, a list or a quoted text, else the text itself.
pub fn parse_json_or_text(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => value,
        Ok(Value::Null | Value::Bool(_) | Value::Number(_)) | Err(_) => Value::String(text.to_owned()),
    }
}

impl OldCycles {
    /// Reads the keys of a dump, in any order. If a key occurs twice, the last value counts.
    pub fn read(dump: impl IntoIterator<Item = (String, Value)>) -> Self {
        let (cycles, skipped) = group::group(dump.into_iter().collect());
        Self { cycles, skipped }
    }

    /// Migrates all cycles. `at` is the time of the migration; no time in the result is later.
    pub fn cycles(&self, at: WholeSecond) -> Vec<MigratedCycle> {
        self.cycles.iter().map(|(cycle, keys)| migrate(cycle, keys, at)).collect()
    }

    /// Migrates one cycle. The same dump and the same time give the same document.
    pub fn cycle(&self, cycle: &PeerCycleId, at: WholeSecond) -> Option<MigratedCycle> {
        self.cycles.get(cycle).map(|keys| migrate(cycle, keys, at))
    }
}

fn migrate(cycle: &PeerCycleId, keys: &CycleKeys, at: WholeSecond) -> MigratedCycle {
    if let Some(current) = newest(&keys.version_2_documents) {
        return take_current(cycle, keys, current);
    }
    let mut notes = keys.notes.clone();
    // The keys of the one format that is used, and what the key `meta` says about this cycle.
    let used = keys.used();
    let old = read::read(&used, keys.instruction.as_deref(), at, &mut notes);
    let replayed = replay::replay(cycle, &old, at, &mut notes);
    let all_keys: Vec<_> = keys.fragments.iter().map(|fragment| fragment.key.clone()).collect();
    let mut document = change::migrate(&replayed, &all_keys, at);
    let migrated = document.to_value();
    let (mut sources, mut preserved) = (Vec::new(), Map::new());
    for fragment in &keys.fragments {
        let remainder = remainder(&fragment.value, fragment.target(&migrated));
        sources.push(MigratedKey {
            key: fragment.key.clone(),
            read: used.iter().any(|used| used.key == fragment.key),
            preserved: remainder.is_some(),
        });
        preserved.extend(remainder.map(|remainder| (fragment.key.clone(), remainder)));
    }
    if !preserved.is_empty() {
        document.unknown.insert(MIGRATED_FROM.to_owned(), preserved.into());
    }
    let cycle = cycle.clone();
    MigratedCycle { cycle, origin: Origin::Migrated, sources, notes, superseded: Vec::new(), document }
}

/// The document that was written last. If several have the same sequence, the one with the first key.
fn newest(documents: &[(String, Document)]) -> Option<&(String, Document)> {
    documents.iter().max_by(|(one, a), (other, b)| a.sequence.cmp(&b.sequence).then_with(|| other.cmp(one)))
}

/// Takes a document of version 2 as it is. The cycle's other keys are older.
fn take_current(
    cycle: &PeerCycleId,
    keys: &CycleKeys,
    (key, document): &(String, Document),
) -> MigratedCycle {
    let others = keys.version_2_documents.iter().filter(|(_, other)| other != document);
    let others = others.map(|(key, other)| (key.clone(), other.to_value()));
    let older = keys.fragments.iter().map(|fragment| (fragment.key.clone(), fragment.value.clone()));
    let why = "the cycle has a newer document of version 2";
    MigratedCycle {
        cycle: cycle.clone(),
        origin: Origin::Current,
        sources: vec![MigratedKey { key: key.clone(), read: true, preserved: false }],
        notes: keys.notes.clone(),
        superseded: others.chain(older).map(|(key, value)| SkippedKey::new(key, value, why)).collect(),
        document: document.clone(),
    }
}

/// What of an old value is not in the document at the same place; `None` if all of it is there.
fn remainder(old: &Value, new: Option<&Value>) -> Option<Value> {
    match (old, new) {
        (Value::Null, _) => None,
        (old, Some(new)) if old == new => None,
        (Value::Object(old), Some(Value::Object(new))) => {
            let rest =
                old.iter().filter_map(|(name, value)| Some((name.clone(), remainder(value, new.get(name))?)));
            let rest: Map<_, _> = rest.collect();
            (!rest.is_empty()).then(|| rest.into())
        }
        (old, _) => Some(old.clone()),
    }
}

impl Fragment {
    /// The place in the version 2 document that has the fields of this key under the same names.
    fn target<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        match self.content {
            KeyContent::Document => Some(document),
            KeyContent::Metadata => document.get("metadata"),
            KeyContent::Context => document.get("context"),
            KeyContent::Output(phase) => document["phases"][phase.as_str()].get("output"),
            KeyContent::MetaEntry
            | KeyContent::PhaseStatus(_)
            | KeyContent::Status
            | KeyContent::State
            | KeyContent::Error => None,
            KeyContent::CompletedAt | KeyContent::FailedAt | KeyContent::PhasesCompleted => None,
            KeyContent::Instruction | KeyContent::Mode | KeyContent::Other => None,
        }
    }
}
