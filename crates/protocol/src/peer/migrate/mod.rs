//! Older formats of a cycle → documents of version 2.
//!
//! Before version 2 a cycle was many keys, or one of several documents, under names with dots or colons. All of them are
//! understood, in any mixture: [`Old::read`] sorts the keys of a dump into cycles, and [`Old::cycles`] plays each cycle again
//! as far as it came, so that what comes out keeps every rule. Nothing is written here, and nothing is lost: what has no place
//! in version 2 is kept under [`MIGRATED_FROM`], and every decision is in the account.
//!
//! Where keys disagree, the latest generation that says something is believed. A cycle that says that it is completed, but
//! lacks the output of a phase, has failed there.

mod account;
mod claim;
mod facts;
mod fate;
mod fit;
mod fold;
mod gather;
mod kept;
mod key;
mod read;
mod temp;
mod words;

use std::collections::BTreeMap;

use serde_json::Value;

use super::change;
use super::document::{Document, Second};
use super::names::CycleId;
pub use account::{Ignored, Migrated, Note, NoteKind, Origin, Source};
pub use claim::Generation;
use facts::Facts;
use gather::Bundle;
pub use kept::MIGRATED_FROM;

/// The files of the scripts of old that are understood beside a dump's keys.
pub const TEMP_FILES: [&str; 4] =
    ["peer_args.txt", "peer_context.txt", "peer_cycle.txt", "determined_spec_name.txt"];

/// A dump, sorted into cycles.
#[derive(Debug)]
pub struct Old {
    cycles: BTreeMap<CycleId, Bundle>,
    /// Keys that are no part of a cycle, and what was shared by several.
    pub ignored: Vec<Ignored>,
}

/// What the text under a key says: JSON if it is an object, a list or a quoted text, else the text itself.
pub fn value_of(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => value,
        Ok(Value::Null | Value::Bool(_) | Value::Number(_)) | Err(_) => Value::String(text.to_owned()),
    }
}

impl Old {
    /// Reads the keys of a dump. Their order does not matter, but that of a key given twice the last counts.
    pub fn read(dump: impl IntoIterator<Item = (String, Value)>) -> Self {
        let (mut last, mut repeated) = (BTreeMap::new(), Vec::new());
        for (key, value) in dump {
            if let Some(value) = last.insert(key.clone(), value) {
                let why = "the same key comes again later, and that counts".to_owned();
                repeated.push(Ignored { key, why, value });
            }
        }
        let (cycles, mut ignored) = gather::gather(last.into_iter().collect());
        ignored.extend(repeated);
        ignored.sort_by(|one, other| one.key.cmp(&other.key));
        Self { cycles, ignored }
    }

    /// All cycles, as they are entered at this time.
    pub fn cycles(&self, at: Second) -> Vec<Migrated> {
        self.cycles.iter().map(|(cycle, bundle)| migrated(cycle, bundle, at)).collect()
    }

    /// One of them.
    pub fn cycle(&self, cycle: &CycleId, at: Second) -> Option<Migrated> {
        self.cycles.get(cycle).map(|bundle| migrated(cycle, bundle, at))
    }
}

fn migrated(cycle: &CycleId, bundle: &Bundle, at: Second) -> Migrated {
    let mut current: Vec<_> = bundle.current.iter().collect();
    current.sort_by(|(one, a), (other, b)| b.sequence.cmp(&a.sequence).then_with(|| one.cmp(other)));
    if let Some(((key, document), others)) = current.split_first() {
        return taken(cycle, bundle, (key, document), others);
    }
    let mut notes = bundle.notes.clone();
    let mut claims = bundle.claims.clone();
    claims.extend(bundle.fragments.iter().flat_map(read::read));
    let unreadable =
        bundle.fragments.iter().find(|it| it.piece == key::Piece::Whole && !it.value.is_object());
    let unreadable = unreadable.map(|fragment| fragment.key.as_str());
    if let Some(key) = unreadable {
        notes.push(Note::new(NoteKind::Unreadable, "it should be a document, and is none").of(key));
    }
    let facts = Facts::of(cycle, claims.clone(), at, &mut notes);
    let played = fold::fold(cycle, &facts, unreadable, at, &mut notes);
    let keys: Vec<_> = bundle.fragments.iter().map(|fragment| fragment.key.clone()).collect();
    let mut document = change::migrate(&played, &keys, at);
    let (sources, rest) = kept::keep(&document.to_value(), &bundle.fragments, &claims, &facts.believed);
    if !rest.is_empty() {
        document.unknown.insert(MIGRATED_FROM.to_owned(), rest.into());
    }
    Migrated {
        cycle: cycle.clone(),
        origin: Origin::RunState,
        sources,
        notes,
        left_out: Vec::new(),
        document,
    }
}

/// A document of version 2 needs no migration; whatever else there is of its cycle is older.
fn taken(
    cycle: &CycleId,
    bundle: &Bundle,
    (key, document): (&String, &Document),
    others: &[&(String, Document)],
) -> Migrated {
    let left = |key: &str, value: Value| {
        let why = "the cycle has a document of version 2, and that counts".to_owned();
        Ignored { key: key.to_owned(), why, value }
    };
    let others = others.iter().filter(|(_, other)| other != document);
    let mut left_out: Vec<_> = others.map(|(key, other)| left(key, other.to_value())).collect();
    left_out.extend(bundle.fragments.iter().map(|it| left(&it.key, it.value.clone())));
    Migrated {
        cycle: cycle.clone(),
        origin: Origin::Current,
        sources: vec![Source {
            key: key.clone(),
            generation: None,
            gave: vec![String::new()],
            decided: Vec::new(),
            rest: false,
        }],
        notes: bundle.notes.clone(),
        left_out,
        document: document.clone(),
    }
}
