//! Which places of a document differ, and whose they are.
//!
//! Works on plain JSON: what a patch makes of a document need not be one.

use serde_json::{Map, Value};

use crate::check::member;
use crate::peer::document::Phase;

/// Fields of the seed, by what they stand in. All others are foreign.
const HEAD: [&str; 9] = [
    "version",
    "cycle_id",
    "sequence",
    "metadata",
    "context",
    "phases",
    "history",
    "cycle_summary",
    "insights",
];
const METADATA: [&str; 8] = [
    "instruction",
    "spec_name",
    "key_prefix",
    "cycle_number",
    "created_at",
    "updated_at",
    "status",
    "current_phase",
];
const CONTEXT: [&str; 5] = ["peer_mode", "spec_aware", "instruction_args", "user_requirements", "continues"];
const PHASE: [&str; 8] = [
    "status",
    "started_at",
    "completed_at",
    "sequence_at_start",
    "sequence_at_complete",
    "output",
    "errors",
    "reused_from",
];

/// A place where two documents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pointer: String,
    pub(super) owner: Owner,
}

/// Whose a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// `output` or `errors` of a phase.
    Work(Phase),
    /// Nobody's whom the seed knows; in a phase, or outside of them.
    Foreign(Option<Phase>),
    /// The engine's: another field of a phase, or outside of them.
    Engine(Option<Phase>),
}

impl Owner {
    fn phase(self) -> Option<Phase> {
        match self {
            Self::Work(phase) => Some(phase),
            Self::Foreign(phase) | Self::Engine(phase) => phase,
        }
    }
}

impl Place {
    /// The place that a pointer leads to, or into.
    pub(super) fn of(pointer: &str) -> Self {
        let tokens: Vec<_> = pointer.split('/').skip(1).collect();
        let owner = match tokens[..] {
            ["phases", phase, ref within @ ..] => match (Phase::from_word(phase), within) {
                (Some(phase), ["output" | "errors", ..]) => Owner::Work(phase),
                (Some(phase), [field, ..]) if !PHASE.contains(field) => Owner::Foreign(Some(phase)),
                (phase, _) => Owner::Engine(phase),
            },
            ["metadata", field, ..] if !METADATA.contains(&field) => Owner::Foreign(None),
            ["context", field, ..] if !CONTEXT.contains(&field) => Owner::Foreign(None),
            [field, ..] if !HEAD.contains(&field) => Owner::Foreign(None),
            [..] => Owner::Engine(None),
        };
        Self { pointer: pointer.to_owned(), owner }
    }

    /// What is written together: a phase with all that is in it, else the one field.
    pub(super) fn section(&self) -> String {
        match self.owner.phase() {
            Some(phase) => format!("/phases/{phase}"),
            None => self.pointer.clone(),
        }
    }

    /// Whether what a pointer leads to lies in the same region, or has this place in it.
    pub(super) fn overlaps(&self, pointer: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(pointer, &self.section()) || within(&self.pointer, pointer)
    }
}

/// Every field in which two documents differ.
pub(super) fn differing(old: &Value, new: &Value) -> Vec<Place> {
    let mut places = Vec::new();
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        if old != new {
            places.push(Place { pointer: String::new(), owner: Owner::Engine(None) });
        }
        return places;
    };
    for (name, pointer) in differing_members(old, new, "") {
        match (name, old.get(name), new.get(name)) {
            ("metadata", Some(Value::Object(old)), Some(Value::Object(new))) => {
                fields(old, new, &pointer, &METADATA, &mut places);
            }
            ("context", Some(Value::Object(old)), Some(Value::Object(new))) => {
                fields(old, new, &pointer, &CONTEXT, &mut places);
            }
            ("phases", Some(Value::Object(old)), Some(Value::Object(new))) => {
                phases(old, new, &pointer, &mut places);
            }
            _ => {
                let owner = if HEAD.contains(&name) { Owner::Engine(None) } else { Owner::Foreign(None) };
                places.push(Place { pointer, owner });
            }
        }
    }
    places
}

fn fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    at: &str,
    known: &[&str],
    places: &mut Vec<Place>,
) {
    places.extend(differing_members(old, new, at).map(|(name, pointer)| {
        let owner = if known.contains(&name) { Owner::Engine(None) } else { Owner::Foreign(None) };
        Place { pointer, owner }
    }));
}

fn phases(old: &Map<String, Value>, new: &Map<String, Value>, at: &str, places: &mut Vec<Place>) {
    for (name, pointer) in differing_members(old, new, at) {
        let phase = Phase::from_word(name);
        match (phase, old.get(name), new.get(name)) {
            (Some(phase), Some(Value::Object(old)), Some(Value::Object(new))) => {
                places.extend(differing_members(old, new, &pointer).map(|(name, pointer)| {
                    let owner = match name {
                        "output" | "errors" => Owner::Work(phase),
                        known if PHASE.contains(&known) => Owner::Engine(Some(phase)),
                        _ => Owner::Foreign(Some(phase)),
                    };
                    Place { pointer, owner }
                }));
            }
            // A phase as a whole, or one that does not exist.
            _ => places.push(Place { pointer, owner: Owner::Engine(phase) }),
        }
    }
}

/// The members that are not the same in both, with their pointers, in the order of the first and then of the second.
fn differing_members<'m>(
    old: &'m Map<String, Value>,
    new: &'m Map<String, Value>,
    at: &str,
) -> impl Iterator<Item = (&'m str, String)> {
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    names.filter(|name| old.get(*name) != new.get(*name)).map(move |name| (name.as_str(), member(at, name)))
}

#[cfg(test)]
mod tests;
