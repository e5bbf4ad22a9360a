//! Keys → cycles: which keys belong together, and what the cycle is called from now on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::account::{Ignored, Note, NoteKind};
use super::claim::{Claim, Fragment, Generation, Rank, Slot};
use super::key::{CycleKey, Kept, Piece, Prefix, recognise};
use super::temp::Temp;
use super::words::time;
use crate::peer::check;
use crate::peer::document::{Document, Event, Second, VERSION};
use crate::peer::names::{CycleId, LARGEST, Scope};

/// The keys of one cycle.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) fragments: Vec<Fragment>,
    /// What is known without a key of the cycle's own.
    pub(super) claims: Vec<Claim>,
    pub(super) notes: Vec<Note>,
    /// Documents of version 2 that keep the rules, with their keys.
    pub(super) current: Vec<(String, Document)>,
}

type Name = (Prefix, u64);

/// Sorts the keys of a dump into cycles. In the dump's order no key comes twice.
pub(super) fn gather(items: Vec<(String, Value)>) -> (BTreeMap<CycleId, Bundle>, Vec<Ignored>) {
    let mut gathered = Gathered::default();
    let mut metas = Vec::new();
    for (key, value) in items {
        match recognise(&key) {
            _ if is_current(&value) => gathered.current(key, value),
            Kept::Cycle(found) => gathered.cycle(key, value, found),
            Kept::Meta(prefix) => metas.push((key, value, prefix)),
            Kept::Temp(file) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                gathered.temp.add(file, &key, &text);
                gathered.temp_files.push((key, value));
            }
            Kept::Nothing(why) => gathered.ignored.push(Ignored { key, why, value }),
        }
    }
    metas.into_iter().for_each(|(key, value, prefix)| gathered.meta(key, value, &prefix));
    gathered.temp();
    gathered.named()
}

fn is_current(value: &Value) -> bool {
    value["version"].as_u64() == Some(VERSION)
}

#[derive(Default)]
struct Gathered {
    bundles: BTreeMap<Name, Bundle>,
    ignored: Vec<Ignored>,
    temp: Temp,
    temp_files: Vec<(String, Value)>,
}

impl Gathered {
    fn bundle(&mut self, name: Name) -> &mut Bundle {
        let empty =
            || Bundle { fragments: Vec::new(), claims: Vec::new(), notes: Vec::new(), current: Vec::new() };
        self.bundles.entry(name).or_insert_with(empty)
    }

    /// A document of version 2 names its cycle itself.
    fn current(&mut self, key: String, value: Value) {
        let violations = check(&value).violations;
        let cycle = value["cycle_id"].as_str().and_then(|id| id.parse::<CycleId>().ok());
        let Some(cycle) = cycle else {
            if let Kept::Cycle(found) = recognise(&key) {
                return self.cycle(key, value, found);
            }
            let why = "it is of version 2, but does not name its cycle".to_owned();
            return self.ignored.push(Ignored { key, why, value });
        };
        let prefix = match cycle.scope {
            Scope::Spec(name) => Prefix::Spec(name),
            Scope::Global => Prefix::Global,
        };
        let bundle = self.bundle((prefix.clone(), cycle.number));
        if violations.is_empty() {
            let document =
                serde_json::from_value(value).expect("BUG: a document that keeps the rules can be read");
            bundle.current.push((key, document));
            return;
        }
        let rules: BTreeSet<_> = violations.iter().map(|broken| broken.rule).collect();
        let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!("it is of version 2, but breaks {rules}; it was put together anew");
        bundle.notes.push(Note::new(NoteKind::Reshaped, message).of(&key));
        let found =
            CycleKey { prefix, number: cycle.number, archived: false, piece: Piece::Whole, doubtful: false };
        self.cycle(key, value, found);
    }

    fn cycle(&mut self, key: String, value: Value, found: CycleKey) {
        let CycleKey { prefix, number, archived, piece, doubtful } = found;
        let rank = Rank {
            live: !archived,
            generation: generation(piece, &value),
            precision: precision(piece),
            dots: key.starts_with("peer."),
        };
        let bundle = self.bundle((prefix, number));
        if doubtful {
            let message = "its name and the rest could be told apart in another way";
            bundle.notes.push(Note::new(NoteKind::Guessed, message).of(&key));
        }
        bundle.fragments.push(Fragment { key, value, piece, rank });
    }

    /// What `meta` tells of each cycle becomes a fragment of that cycle.
    fn meta(&mut self, key: String, value: Value, prefix: &Prefix) {
        let rank =
            Rank { live: true, generation: Generation::G0, precision: 10, dots: key.starts_with("peer.") };
        let mut told = Vec::new();
        for (number, about) in value["cycles"].as_object().into_iter().flatten() {
            let Some(number) = number.parse().ok().filter(|number| (1..=LARGEST).contains(number)) else {
                continue;
            };
            told.push(number);
            let key = format!("{key}#/cycles/{number}");
            let fragment = Fragment { key, value: about.clone(), piece: Piece::Whole, rank };
            self.bundle((prefix.clone(), number)).fragments.push(fragment);
        }
        let current = value["current_cycle"].as_u64();
        if let Some(bundle) = current.and_then(|number| self.bundles.get_mut(&(prefix.clone(), number))) {
            let status = value["current_phase"].clone();
            let rank = Rank { precision: 5, ..rank };
            bundle.claims.push(Claim {
                slot: Slot::Status,
                value: status,
                key: key.clone(),
                place: None,
                rank,
            });
        }
        let why = match told.as_slice() {
            [] => "it tells of no cycle".to_owned(),
            told => {
                let told: Vec<_> = told.iter().map(u64::to_string).collect();
                format!("what it tells of cycle {} went there; the rest has no place", told.join(", "))
            }
        };
        self.ignored.push(Ignored { key, why, value });
    }

    /// The temp files add to a cycle; they are none by themselves.
    fn temp(&mut self) {
        if self.temp_files.is_empty() {
            return;
        }
        let rank = Rank { live: true, generation: Generation::G1, precision: 1, dots: true };
        let why = match self.temp.cycle() {
            None => "together the temp files name no cycle".to_owned(),
            Some((prefix, number)) => match self.bundles.get_mut(&(prefix.clone(), number)) {
                None => format!("it is about cycle {number} of `{prefix}`, which is not in the dump"),
                Some(bundle) => {
                    bundle.claims.extend(self.temp.claims(rank));
                    let lines = self.temp.unread.iter().map(|(file, line)| {
                        let message =
                            format!("line {line} is no plain assignment, and nothing is carried out");
                        Note::new(NoteKind::Unreadable, message).of(file)
                    });
                    bundle.notes.extend(lines);
                    format!("it was read for cycle {number} of `{prefix}`")
                }
            },
        };
        let files = std::mem::take(&mut self.temp_files).into_iter();
        self.ignored.extend(files.map(|(key, value)| Ignored { key, why: why.clone(), value }));
    }

    /// Gives every cycle the name it has from now on. Each instruction once counted for itself; those cycles are the
    /// repository's now, and where numbers are taken they get the next ones. One that has been given its number before, in a
    /// bucket that is in use, keeps it.
    fn named(self) -> (BTreeMap<CycleId, Bundle>, Vec<Ignored>) {
        let (mut named, mut strays): (BTreeMap<_, Bundle>, _) = (BTreeMap::new(), Vec::new());
        for ((prefix, number), bundle) in self.bundles {
            match prefix {
                Prefix::Spec(name) => {
                    named.insert(Scope::Spec(name).cycle(number), bundle);
                }
                Prefix::Global => {
                    named.insert(Scope::Global.cycle(number), bundle);
                }
                Prefix::Instruction(name) => strays.push((bundle.begun(), name, number, bundle)),
            }
        }
        strays.sort_by(|one, other| (&one.0, &one.1, one.2).cmp(&(&other.0, &other.1, other.2)));
        let mut last =
            named.keys().filter(|id| id.scope == Scope::Global).map(|id| id.number).max().unwrap_or(0);
        last = strays.iter().map(|(_, _, number, _)| *number).fold(last, u64::max);
        for (_, name, number, mut bundle) in strays {
            if let Some(became) = named.values_mut().find(|named| named.came_from(&bundle)) {
                became.fragments.append(&mut bundle.fragments);
                continue;
            }
            let taken = named.contains_key(&Scope::Global.cycle(number));
            let new = if taken { last + 1 } else { number };
            last = last.max(new);
            let message = format!("it was cycle {number} of `peer:instruction:{name}`");
            bundle.notes.push(Note::new(NoteKind::Reshaped, message).at("/cycle_id"));
            let rank = Rank { live: false, generation: Generation::G0, precision: 0, dots: false };
            let key = bundle.fragments.first().map(|fragment| fragment.key.clone()).unwrap_or_default();
            bundle.claims.push(Claim { slot: Slot::Instruction, value: name.into(), key, place: None, rank });
            named.insert(Scope::Global.cycle(new), bundle);
        }
        (named, self.ignored)
    }
}

impl Bundle {
    /// Whether a document of it was put together from keys of the other one.
    fn came_from(&self, other: &Self) -> bool {
        let histories = self.current.iter().flat_map(|(_, document)| &document.history);
        let migrations = histories.filter(|entry| entry.event == Event::Migrated);
        let mut keys = migrations.filter_map(|entry| entry.unknown.get("from")?.as_array()).flatten();
        keys.any(|key| other.fragments.iter().any(|fragment| key == fragment.key.as_str()))
    }

    /// When the cycle began, as far as it says so outright.
    fn begun(&self) -> Option<Second> {
        let places = ["/metadata/created_at", "/created_at", "/started_at"];
        let times = |fragment: &Fragment| {
            places.iter().filter_map(|place| fragment.value.pointer(place).and_then(time)).collect::<Vec<_>>()
        };
        self.fragments.iter().flat_map(times).min()
    }
}

fn generation(piece: Piece, value: &Value) -> Generation {
    match piece {
        Piece::Whole if value.get("schema_version").is_some() || is_current(value) => Generation::G2,
        Piece::Whole if value.get("version").is_some() || value.get("metadata").is_some() => Generation::G3,
        Piece::Whole => Generation::G0,
        Piece::Metadata | Piece::Spec | Piece::Instruction | Piece::Mode | Piece::Context => Generation::G1,
        Piece::PhasesCompleted | Piece::Output(_) | Piece::Status | Piece::State | Piece::PhaseStatus(_) => {
            Generation::G1
        }
        Piece::CompletedAt | Piece::FailedAt | Piece::Error | Piece::Other => Generation::G1,
    }
}

/// Among keys of one generation, those count more that were written later or about one thing only.
fn precision(piece: Piece) -> u8 {
    match piece {
        Piece::Output(_) | Piece::PhaseStatus(_) | Piece::Status | Piece::Error => 40,
        Piece::CompletedAt | Piece::FailedAt | Piece::Whole => 35,
        Piece::State | Piece::PhasesCompleted => 30,
        Piece::Spec | Piece::Instruction | Piece::Mode => 25,
        Piece::Metadata | Piece::Context => 20,
        Piece::Other => 10,
    }
}
