//! Groups the keys of a dump (the old bucket of peer cycles) by cycle, and gives every cycle its id.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::key::{CycleKey, Key, KeyContent, Prefix, parse};
use super::read::time;
use super::result::{Note, NoteKind, SkippedKey};
use crate::peer::check;
use crate::peer::document::{Document, Event, VERSION, WholeSecond};
use crate::peer::names::{MAX_SAFE_INTEGER, PeerCycleId, Scope};

/// The keys of one cycle.
#[derive(Debug, Default)]
pub(super) struct CycleKeys {
    pub(super) fragments: Vec<Fragment>,
    /// Valid documents of version 2, today's format, with their keys.
    pub(super) version_2_documents: Vec<(String, Document)>,
    /// The instruction that the prefix of the keys names.
    pub(super) instruction: Option<String>,
    pub(super) notes: Vec<Note>,
}

/// One key of a cycle, or what the key `meta`, which is about all cycles of a prefix, says about the cycle.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) content: KeyContent,
    archived: bool,
}

#[derive(Default)]
struct Groups {
    cycles: BTreeMap<(Prefix, u64), CycleKeys>,
    skipped: Vec<SkippedKey>,
}

/// Groups the keys of a dump. Returns the keys of each cycle, and those that belong to no single cycle.
pub(super) fn group(dump: BTreeMap<String, Value>) -> (BTreeMap<PeerCycleId, CycleKeys>, Vec<SkippedKey>) {
    let mut groups = Groups::default();
    for (key, value) in dump {
        let rules = broken_rules(&value);
        // A valid document names its cycle. Of all other values the key says what they are.
        if rules.as_deref() == Some("") {
            let document: Document =
                serde_json::from_value(value).expect("BUG: a valid document cannot be read");
            groups.of_cycle(&document.cycle_id).version_2_documents.push((key, document));
            continue;
        }
        match parse(&key) {
            Key::Cycle(CycleKey { prefix, number, archived, content }) => {
                let cycle = groups.cycles.entry((prefix, number)).or_default();
                cycle.notes.extend(rules.map(|rules| {
                    let message = format!("the document of version 2 breaks {rules}; it was rebuilt");
                    Note::new(NoteKind::Converted, message).of(&key)
                }));
                cycle.fragments.push(Fragment { key, value, content, archived });
            }
            Key::Meta(prefix) => groups.add_meta(key, value, &prefix),
            Key::Ignored(why) => groups.skipped.push(SkippedKey::new(key, value, why)),
        }
    }
    groups.assign_ids()
}

/// The ids of the rules that a document of version 2 breaks, joined by commas. Empty if it breaks none; `None` if the
/// value is no document of version 2.
fn broken_rules(value: &Value) -> Option<String> {
    is_current(value).then(|| {
        let rules: BTreeSet<_> = check(value).violations.iter().map(|broken| broken.rule).collect();
        rules.into_iter().collect::<Vec<_>>().join(", ")
    })
}

fn is_current(value: &Value) -> bool {
    value["version"].as_u64() == Some(VERSION)
}

impl Groups {
    fn of_cycle(&mut self, cycle: &PeerCycleId) -> &mut CycleKeys {
        let prefix = match &cycle.scope {
            Scope::Spec(name) => Prefix::Spec(name.clone()),
            Scope::Global => Prefix::Global,
        };
        self.cycles.entry((prefix, cycle.number)).or_default()
    }

    /// Adds what `meta` says about each cycle to that cycle.
    fn add_meta(&mut self, key: String, value: Value, prefix: &Prefix) {
        let mut numbers = Vec::new();
        for (number, about) in value["cycles"].as_object().into_iter().flatten() {
            let Some(number) = number.parse().ok().filter(|number| (1..=MAX_SAFE_INTEGER).contains(number))
            else {
                continue;
            };
            numbers.push(number.to_string());
            let key = format!("{key}#/cycles/{number}");
            let fragment =
                Fragment { key, value: about.clone(), content: KeyContent::MetaEntry, archived: false };
            self.cycles.entry((prefix.clone(), number)).or_default().fragments.push(fragment);
        }
        let why = match numbers.as_slice() {
            [] => "it is about no cycle".to_owned(),
            numbers => format!("its entries were read for cycle {}", numbers.join(", ")),
        };
        self.skipped.push(SkippedKey::new(key, value, why));
    }

    /// Gives every cycle its id. Each instruction once had a counter of its own; its cycles become cycles of the repository
    /// ([`Scope::Global`]), with the next free number if theirs is taken. A cycle that was migrated before keeps the number it
    /// got then.
    fn assign_ids(self) -> (BTreeMap<PeerCycleId, CycleKeys>, Vec<SkippedKey>) {
        let (mut by_id, mut of_instructions): (BTreeMap<_, CycleKeys>, _) = (BTreeMap::new(), Vec::new());
        for ((prefix, number), keys) in self.cycles {
            let scope = match prefix {
                Prefix::Spec(name) => Scope::Spec(name),
                Prefix::Global => Scope::Global,
                Prefix::Instruction(name) => {
                    of_instructions.push((keys.created(), name, number, keys));
                    continue;
                }
            };
            by_id.insert(scope.cycle(number), keys);
        }
        of_instructions.sort_by(|one, other| (&one.0, &one.1, one.2).cmp(&(&other.0, &other.1, other.2)));
        let global = by_id.keys().filter(|id| id.scope == Scope::Global).map(|id| id.number);
        let mut last =
            global.chain(of_instructions.iter().map(|(_, _, number, _)| *number)).max().unwrap_or(0);
        for (_, name, number, mut keys) in of_instructions {
            if let Some(migrated) = by_id.values_mut().find(|other| other.was_made_from(&keys)) {
                migrated.fragments.append(&mut keys.fragments);
                continue;
            }
            let mut id = Scope::Global.cycle(number);
            if by_id.contains_key(&id) {
                last += 1;
                id.number = last;
            }
            let message = format!("it was cycle {number} of `peer:instruction:{name}`");
            keys.notes.push(Note::new(NoteKind::Converted, message));
            keys.instruction = Some(name);
            by_id.insert(id, keys);
        }
        (by_id, self.skipped)
    }
}

impl CycleKeys {
    /// The keys that the cycle is read from, by precedence. If a key has the whole cycle, only that one and `meta` are used.
    pub(super) fn used(&self) -> Vec<&Fragment> {
        let fragments = |archived: bool| -> Vec<&Fragment> {
            let own = self
                .fragments
                .iter()
                .filter(|it| it.content != KeyContent::MetaEntry && it.archived == archived);
            own.collect()
        };
        let not_archived = fragments(false);
        let mut keys = if not_archived.is_empty() { fragments(true) } else { not_archived };
        let documents = keys.iter().filter(|it| it.content == KeyContent::Document && it.value.is_object());
        if let Some(document) = documents.max_by_key(|it| (it.generation(), Reverse(&it.key))).copied() {
            keys = vec![document];
        }
        keys.extend(self.fragments.iter().filter(|it| it.content == KeyContent::MetaEntry));
        keys.sort_by(|one, other| (one.content, &one.key).cmp(&(other.content, &other.key)));
        keys
    }

    /// Whether one of its documents was migrated from keys of the other cycle.
    fn was_made_from(&self, other: &Self) -> bool {
        let histories = self.version_2_documents.iter().flat_map(|(_, document)| &document.history);
        let migrations = histories.filter(|entry| entry.event == Event::Migrated);
        let mut keys = migrations.filter_map(|entry| entry.unknown.get("from")?.as_array()).flatten();
        keys.any(|key| other.fragments.iter().any(|fragment| key == fragment.key.as_str()))
    }

    /// The earliest time that a key gives for the start of the cycle.
    fn created(&self) -> Option<WholeSecond> {
        let pointers = ["/metadata/created_at", "/created_at", "/started_at"];
        let times = self.fragments.iter().flat_map(|fragment| {
            pointers.iter().filter_map(|pointer| fragment.value.pointer(pointer).and_then(time))
        });
        times.min()
    }
}

impl Fragment {
    /// The generation of a whole document's format; the highest is the newest. Drafts with a `schema_version` or `version: 2`
    /// came first, the formats 1 and 1.1 after them. A draft is no valid document of today's version 2.
    fn generation(&self) -> u8 {
        if self.value.get("schema_version").is_some() || is_current(&self.value) {
            2
        } else if self.value.get("version").is_some() {
            3
        } else {
            0
        }
    }
}
