//! Checks the fields outside of `phases` (top level, `metadata`, `context`, history) by the rules F2 to F5, F7 and S4 of
//! `docs/peer.md`.

use serde_json::{Map, Value};

use super::parsed::ParsedDocument;
use crate::check::{Location, ViolationCollector};
use crate::closest;
use crate::peer::document::{BadWholeSecond, Mode, PeerCycleStatus, Phase, PhaseStatus, WholeSecond};
use crate::peer::names::{BadId, MAX_SAFE_INTEGER, PeerCycleId, Scope, SpecName};

pub(super) type Object = Map<String, Value>;

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldType {
    NonBlankText,
    Text,
    Flag,
    Time,
    /// A whole number from 1 to [`MAX_SAFE_INTEGER`].
    Count,
    PeerCycleId,
    /// The cycle id without its number.
    KeyPrefix,
    SpecName,
    PeerCycleStatus,
    PhaseStatus,
    Phase,
    /// A phase, or null for the cycle.
    PhaseOrNull,
    Mode,
    Object,
    List,
}

/// A field and its rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    kind: FieldType,
    rule: &'static str,
    required: bool,
}

pub(super) const fn required(name: &'static str, kind: FieldType, rule: &'static str) -> Field {
    Field { name, kind, rule, required: true }
}

pub(super) const fn optional(name: &'static str, kind: FieldType, rule: &'static str) -> Field {
    Field { name, kind, rule, required: false }
}

const TOP_LEVEL: [Field; 6] = [
    required("cycle_id", FieldType::PeerCycleId, "F2"),
    required("sequence", FieldType::Count, "F3"),
    required("metadata", FieldType::Object, "F5"),
    required("context", FieldType::Object, "F5"),
    required("phases", FieldType::Object, "F5"),
    required("history", FieldType::List, "F5"),
];

const METADATA: [Field; 8] = [
    required("instruction", FieldType::NonBlankText, "F5"),
    optional("spec_name", FieldType::SpecName, "F5"),
    required("key_prefix", FieldType::KeyPrefix, "F5"),
    required("cycle_number", FieldType::Count, "F5"),
    required("created_at", FieldType::Time, "F5"),
    required("updated_at", FieldType::Time, "F5"),
    required("status", FieldType::PeerCycleStatus, "F4"),
    required("current_phase", FieldType::Phase, "F5"),
];

const CONTEXT: [Field; 5] = [
    required("peer_mode", FieldType::Mode, "F5"),
    required("spec_aware", FieldType::Flag, "F5"),
    required("instruction_args", FieldType::Text, "F5"),
    required("user_requirements", FieldType::Text, "F5"),
    optional("continues", FieldType::PeerCycleId, "F5"),
];

/// The fields of a history entry.
const ENTRY: [Field; 4] = [
    required("timestamp", FieldType::Time, "F5"),
    required("phase", FieldType::PhaseOrNull, "F5"),
    required("event", FieldType::NonBlankText, "F5"),
    required("sequence", FieldType::Count, "S4"),
];

/// The fields of an entry that replaces the entries of the writes `from` to `to`.
const COMPACTED: [Field; 2] =
    [required("from", FieldType::Count, "F5"), required("to", FieldType::Count, "F5")];

/// Checks each field alone: its presence, type and form.
pub(super) fn check(at: &Location, document: &Object, findings: &mut ViolationCollector) {
    check_fields(at, document, &TOP_LEVEL, findings);
    if let Some(metadata) = document.get("metadata").and_then(Value::as_object) {
        let at = at.field("metadata");
        check_fields(&at, metadata, &METADATA, findings);
        check_times(&at, metadata, "created_at", "updated_at", findings);
    }
    if let Some(context) = document.get("context").and_then(Value::as_object) {
        check_fields(&at.field("context"), context, &CONTEXT, findings);
    }
    let history = document.get("history").and_then(Value::as_array);
    for (index, entry) in history.into_iter().flatten().enumerate() {
        let at = at.field("history").entry(index);
        match entry.as_object() {
            None => findings.wrong_type_for_rule(
                "F5",
                &at,
                entry,
                "an object",
                "write `timestamp`, `phase`, `event`, `sequence`",
            ),
            Some(fields) => {
                check_fields(&at, fields, &ENTRY, findings);
                if entry["event"] == "compacted" {
                    check_fields(&at, fields, &COMPACTED, findings);
                }
            }
        }
    }
}

/// F2 and F5: the fields that name the cycle agree.
pub(super) fn check_identity(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    let metadata = at.field("metadata");
    if let (Some(cycle), Some(scope)) = (&document.cycle, &document.scope)
        && cycle.scope != *scope
    {
        let at = metadata.field("key_prefix");
        let message = format!("{} is `{scope}`, but the cycle is `{cycle}`", at.name);
        findings.add("F2", &at, message, format!("write `{}`", cycle.scope));
    }
    if let (Some(cycle), Some(number)) = (&document.cycle, document.number)
        && cycle.number != number
    {
        let at = metadata.field("cycle_number");
        let message = format!("{} is {number}, but the cycle is `{cycle}`", at.name);
        findings.add("F2", &at, message, format!("write `{}`", cycle.number));
    }
    let Some(cycle) = &document.cycle else { return };
    match (cycle.scope.spec(), &document.spec) {
        (Some(name), None) => {
            let message = format!("{} has no `spec_name`, but the cycle is `{cycle}`", metadata.name);
            findings.add("F5", &metadata, message, format!("add `\"spec_name\": \"{name}\"`"));
        }
        (Some(name), Some(spec)) if spec != name.as_str() => {
            let at = metadata.field("spec_name");
            let message = format!("{} is `{spec}`, but the cycle is `{cycle}`", at.name);
            findings.add("F2", &at, message, format!("write `{name}`"));
        }
        (None, Some(spec)) => {
            let at = metadata.field("spec_name");
            let message = format!("{} is `{spec}`, but the cycle `{cycle}` has no spec", at.name);
            findings.add("F2", &at, message, "leave it out");
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
    let has_spec = cycle.scope.spec().is_some();
    if document.spec_aware.is_some_and(|found| found != has_spec) {
        let at = at.field("context").field("spec_aware");
        let message = format!("{} is {}, but the cycle is `{cycle}`", at.name, !has_spec);
        findings.add("F2", &at, message, format!("write `{has_spec}`"));
    }
}

pub(super) fn check_fields(
    at: &Location,
    fields: &Object,
    known: &[Field],
    findings: &mut ViolationCollector,
) {
    for field in known {
        match fields.get(field.name) {
            Some(value) => check_value(&at.field(field.name), field, value, findings),
            None if field.required => add_missing_field(at, fields, field, known, findings),
            None => {}
        }
    }
}

fn add_missing_field(
    at: &Location,
    fields: &Object,
    field: &Field,
    known: &[Field],
    findings: &mut ViolationCollector,
) {
    let Field { name, rule, .. } = field;
    let unknown = fields.keys().map(String::as_str);
    let unknown = unknown.filter(|key| !known.iter().any(|field| field.name == *key));
    let repair = match closest(name, unknown) {
        Some(typo) => format!("rename `{typo}` to `{name}`"),
        None => format!("add `\"{name}\": {}`", example(field.kind)),
    };
    findings.add(rule, at, format!("{} has no `{name}`", at.name), repair);
}

/// Returns an example of a valid value, for messages.
pub(super) fn example(kind: FieldType) -> &'static str {
    match kind {
        FieldType::NonBlankText | FieldType::Text | FieldType::SpecName => "\"…\"",
        FieldType::Flag => "true",
        FieldType::Time => "\"2025-08-05T10:00:00Z\"",
        FieldType::Count => "1",
        FieldType::PeerCycleId => "\"peer:spec:…:cycle:1\"",
        FieldType::KeyPrefix => "\"peer:spec:…\"",
        FieldType::PeerCycleStatus => "\"initialized\"",
        FieldType::PhaseStatus => "\"pending\"",
        FieldType::Phase | FieldType::PhaseOrNull => "\"plan\"",
        FieldType::Mode => "\"new\"",
        FieldType::Object => "{}",
        FieldType::List => "[]",
    }
}

fn check_value(at: &Location, field: &Field, value: &Value, findings: &mut ViolationCollector) {
    let rule = field.rule;
    let expected = match field.kind {
        FieldType::Count => return check_count(at, rule, value, findings),
        FieldType::Flag if value.is_boolean() => return,
        FieldType::Object if value.is_object() => return,
        FieldType::List if value.is_array() => return,
        FieldType::PhaseOrNull if value.is_null() => return,
        FieldType::Flag => "true or false",
        FieldType::Object => "an object",
        FieldType::List => "a list",
        FieldType::PhaseOrNull => "a string or null",
        FieldType::NonBlankText
        | FieldType::Text
        | FieldType::SpecName
        | FieldType::PeerCycleId
        | FieldType::KeyPrefix => "a string",
        FieldType::Time
        | FieldType::PeerCycleStatus
        | FieldType::PhaseStatus
        | FieldType::Phase
        | FieldType::Mode => "a string",
    };
    match value.as_str() {
        Some(text) if expected.starts_with("a string") => check_text(at, field, text, findings),
        Some(_) | None => {
            let repair = if value.is_null() && !field.required {
                "leave it out until there is one".to_owned()
            } else {
                format!("write `{}`", example(field.kind))
            };
            findings.wrong_type_for_rule(rule, at, value, expected, repair);
        }
    }
}

fn check_count(at: &Location, rule: &'static str, value: &Value, findings: &mut ViolationCollector) {
    if !value.as_u64().is_some_and(|number| (1..=MAX_SAFE_INTEGER).contains(&number)) {
        let message =
            format!("{} is {value}; it must be a whole number from 1 to {MAX_SAFE_INTEGER}", at.name);
        findings.add(rule, at, message, "write a number from 1");
    }
}

fn check_text(at: &Location, field: &Field, text: &str, findings: &mut ViolationCollector) {
    let rule = field.rule;
    let invalid_id = |reason: BadId, rule, findings: &mut ViolationCollector| {
        let message = format!("{} is `{text}`: {reason}", at.name);
        findings.add(rule, at, message, format!("write it as `{}`", example(field.kind)));
    };
    match field.kind {
        FieldType::NonBlankText if text.trim().is_empty() => {
            findings.add(rule, at, format!("{} is empty", at.name), "write a string");
        }
        FieldType::Time => {
            if let Err(reason @ BadWholeSecond) = text.parse::<WholeSecond>() {
                let message = format!("{} is `{text}`: {reason}", at.name);
                findings.add("F7", at, message, format!("write it as `{}`", example(field.kind)));
            }
        }
        FieldType::PeerCycleId => {
            if let Err(reason) = text.parse::<PeerCycleId>() {
                invalid_id(reason, rule, findings);
            }
        }
        FieldType::KeyPrefix => {
            if let Err(reason) = text.parse::<Scope>() {
                invalid_id(reason, "F2", findings);
            }
        }
        FieldType::SpecName => {
            if let Err(reason) = SpecName::new(text) {
                let message = format!("{} is `{text}`, which is not a valid name: {reason}", at.name);
                findings.add("F2", at, message, "write the name as it is in `cycle_id`");
            }
        }
        FieldType::PeerCycleStatus => {
            check_word(at, rule, text, &PeerCycleStatus::ALL.map(PeerCycleStatus::as_str), findings);
        }
        FieldType::PhaseStatus => {
            check_word(at, rule, text, &PhaseStatus::ALL.map(PhaseStatus::as_str), findings);
        }
        FieldType::Phase | FieldType::PhaseOrNull => {
            check_word(at, rule, text, &Phase::ALL.map(Phase::as_str), findings);
        }
        FieldType::Mode => check_word(at, rule, text, &Mode::ALL.map(Mode::as_str), findings),
        // Any text is valid; the other types are not texts.
        FieldType::NonBlankText
        | FieldType::Text
        | FieldType::Flag
        | FieldType::Count
        | FieldType::Object
        | FieldType::List => {}
    }
}

fn check_word(
    at: &Location,
    rule: &'static str,
    text: &str,
    words: &[&str],
    findings: &mut ViolationCollector,
) {
    if !words.contains(&text) {
        let repair = match closest(text, words.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("use one of {}", words.join(", ")),
        };
        findings.add(rule, at, format!("{} is `{text}`, which is not a valid value", at.name), repair);
    }
}

/// F7: the first time is not after the second. They may be equal, since two writes may fall into one second.
pub(super) fn check_times(
    at: &Location,
    fields: &Object,
    first: &str,
    second: &str,
    findings: &mut ViolationCollector,
) {
    let time = |name: &str| {
        fields.get(name).and_then(Value::as_str).and_then(|text| text.parse::<WholeSecond>().ok())
    };
    if let (Some(earlier), Some(later)) = (time(first), time(second))
        && later < earlier
    {
        let at = at.field(second);
        let message = format!("{} is {later}, before `{first}` ({earlier})", at.name);
        findings.add("F7", &at, message, format!("write a time that is not before `{first}`"));
    }
}
