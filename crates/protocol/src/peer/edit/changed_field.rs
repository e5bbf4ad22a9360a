//! The fields in which two documents differ, and who may write them.
//!
//! Works on JSON, because a patched document may not be valid.

use serde_json::{Map, Value};

use crate::check::member_pointer;
use crate::peer::document::Phase;

/// The fields of the format, by the object that has them. All others are unknown.
const TOP_LEVEL: [&str; 9] = [
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

/// A field in which two documents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedField {
    pub(super) pointer: String,
    pub(super) owner: Owner,
}

/// Who may write a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The agent of the phase, and clients outside the run: `output` or `errors` of the phase.
    Agent(Phase),
    /// Any client outside the run: an unknown field, of a phase or of none.
    Anyone(Option<Phase>),
    /// Only the engine: every other field of the format, of a phase or of none; also a phase as a whole.
    Engine(Option<Phase>),
}

impl Owner {
    fn phase(self) -> Option<Phase> {
        match self {
            Self::Agent(phase) => Some(phase),
            Self::Anyone(phase) | Self::Engine(phase) => phase,
        }
    }
}

impl ChangedField {
    /// The field that a pointer refers to, or points into.
    pub(super) fn at(pointer: &str) -> Self {
        let tokens: Vec<_> = pointer.split('/').skip(1).collect();
        let owner = match tokens[..] {
            ["phases", phase, ref within @ ..] => match (Phase::parse(phase), within) {
                (Some(phase), ["output" | "errors", ..]) => Owner::Agent(phase),
                (Some(phase), [field, ..]) if !PHASE.contains(field) => Owner::Anyone(Some(phase)),
                (phase, _) => Owner::Engine(phase),
            },
            ["metadata", field, ..] if !METADATA.contains(&field) => Owner::Anyone(None),
            ["context", field, ..] if !CONTEXT.contains(&field) => Owner::Anyone(None),
            [field, ..] if !TOP_LEVEL.contains(&field) => Owner::Anyone(None),
            [..] => Owner::Engine(None),
        };
        Self { pointer: pointer.to_owned(), owner }
    }

    /// Returns the unit of conflict: the whole phase of the field, or the field itself outside the phases.
    pub(super) fn section(&self) -> String {
        match self.owner.phase() {
            Some(phase) => format!("/phases/{phase}"),
            None => self.pointer.clone(),
        }
    }

    /// Whether a pointer points into the same section, or to an object that contains this field.
    pub(super) fn overlaps(&self, pointer: &str) -> bool {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(pointer, &self.section()) || within(&self.pointer, pointer)
    }
}

/// Returns every field in which two documents differ.
pub(super) fn changed_fields(old: &Value, new: &Value) -> Vec<ChangedField> {
    let mut changed = Vec::new();
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        if old != new {
            changed.push(ChangedField { pointer: String::new(), owner: Owner::Engine(None) });
        }
        return changed;
    };
    for (name, pointer) in differing_members(old, new, "") {
        match (name, old.get(name), new.get(name)) {
            ("metadata", Some(Value::Object(old)), Some(Value::Object(new))) => {
                collect_changed_fields(old, new, &pointer, &METADATA, &mut changed);
            }
            ("context", Some(Value::Object(old)), Some(Value::Object(new))) => {
                collect_changed_fields(old, new, &pointer, &CONTEXT, &mut changed);
            }
            ("phases", Some(Value::Object(old)), Some(Value::Object(new))) => {
                collect_changed_phases(old, new, &pointer, &mut changed);
            }
            _ => {
                let owner = if TOP_LEVEL.contains(&name) { Owner::Engine(None) } else { Owner::Anyone(None) };
                changed.push(ChangedField { pointer, owner });
            }
        }
    }
    changed
}

fn collect_changed_fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    at: &str,
    known: &[&str],
    changed: &mut Vec<ChangedField>,
) {
    changed.extend(differing_members(old, new, at).map(|(name, pointer)| {
        let owner = if known.contains(&name) { Owner::Engine(None) } else { Owner::Anyone(None) };
        ChangedField { pointer, owner }
    }));
}

fn collect_changed_phases(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    at: &str,
    changed: &mut Vec<ChangedField>,
) {
    for (name, pointer) in differing_members(old, new, at) {
        let phase = Phase::parse(name);
        match (phase, old.get(name), new.get(name)) {
            (Some(phase), Some(Value::Object(old)), Some(Value::Object(new))) => {
                changed.extend(differing_members(old, new, &pointer).map(|(name, pointer)| {
                    let owner = match name {
                        "output" | "errors" => Owner::Agent(phase),
                        known if PHASE.contains(&known) => Owner::Engine(Some(phase)),
                        _ => Owner::Anyone(Some(phase)),
                    };
                    ChangedField { pointer, owner }
                }));
            }
            // A phase as a whole, or one that does not exist.
            _ => changed.push(ChangedField { pointer, owner: Owner::Engine(phase) }),
        }
    }
}

/// The members that differ, with their pointers, in the order of the first object and then of the second.
fn differing_members<'m>(
    old: &'m Map<String, Value>,
    new: &'m Map<String, Value>,
    at: &str,
) -> impl Iterator<Item = (&'m str, String)> {
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    names
        .filter(|name| old.get(*name) != new.get(*name))
        .map(move |name| (name.as_str(), member_pointer(at, name)))
}

#[cfg(test)]
mod tests;
