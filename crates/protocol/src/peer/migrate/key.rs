//! Parses the keys of earlier formats.
//!
//! Dots and colons both occurred as separators, and the name of a spec may contain either. A name therefore ends at the
//! rightmost separator that is followed by a known suffix.

use super::status::parse_phase_name;
use crate::peer::document::Phase;
use crate::peer::names::{MAX_SAFE_INTEGER, SpecName};

/// What precedes `meta` or `cycle` in a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Prefix {
    Spec(SpecName),
    Global,
    /// Before `global` existed, cycles were numbered per instruction.
    Instruction(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// What is known about all cycles of a prefix.
    Meta(Prefix),
    Cycle(CycleKey),
    /// A key that is not migrated, and why.
    Ignored(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CycleKey {
    pub(super) prefix: Prefix,
    pub(super) number: u64,
    /// From `….archive.cycle.N`; used only if the cycle has no other keys.
    pub(super) archived: bool,
    pub(super) content: KeyContent,
}

/// The content of a cycle that a key holds. If two keys have a value for the same field, the first in this order takes
/// precedence: it was written later, or holds that value only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyContent {
    /// The whole cycle.
    Document,
    /// The entry about the cycle in the key `meta`, which lists all cycles of a prefix.
    MetaEntry,
    Output(Phase),
    PhaseStatus(Phase),
    Status,
    Error,
    CompletedAt,
    FailedAt,
    State,
    PhasesCompleted,
    Instruction,
    Mode,
    Context,
    Metadata,
    /// Summaries and metrics, which the present format (version 2) has no field for, and the spec, which the key names.
    Other,
}

#[derive(Debug, Clone, Copy)]
enum Suffix {
    MetaEntry,
    CurrentCycle,
    Cycle(u64, KeyContent),
}

const SEPARATORS: [char; 2] = ['.', ':'];

/// Parses a key of a dump.
pub(super) fn parse(key: &str) -> Key {
    let ignored = |why: &str| Key::Ignored(why.to_owned());
    let unknown = || ignored("no format has such a key");
    let Some(rest) = key.strip_prefix("peer").and_then(|rest| rest.strip_prefix(SEPARATORS)) else {
        return ignored("not a key of a cycle");
    };
    let (head, rest) = rest.split_once(SEPARATORS).unwrap_or((rest, ""));
    match head {
        "global" if rest == "next_cycle" => {
            ignored("a counter; the next number is found by listing the cycles")
        }
        // `split_suffix` expects a separator before the suffix.
        "global" => split_suffix(&format!(".{rest}"), |name| match name {
            "" => Ok(Prefix::Global),
            _ => Err("no format has such a key".to_owned()),
        })
        .unwrap_or_else(unknown),
        "spec" => split_suffix(rest, |name| {
            SpecName::normalized(name)
                .map(Prefix::Spec)
                .map_err(|bad| format!("`{name}` cannot name a spec: {bad}"))
        })
        .unwrap_or_else(unknown),
        "instruction" => {
            split_suffix(rest, |name| Ok(Prefix::Instruction(name.to_owned()))).unwrap_or_else(unknown)
        }
        "context" => ignored("existed only while a cycle ran"),
        "locks" => ignored("a lock"),
        "commit" => ignored("the plan of a commit, not a cycle"),
        "events" => ignored("an event; the documents have its content"),
        _ => unknown(),
    }
}

/// Splits a name from the rightmost known suffix.
fn split_suffix(rest: &str, prefix: impl Fn(&str) -> Result<Prefix, String>) -> Option<Key> {
    let mut ends = rest.rmatch_indices(SEPARATORS).map(|(end, _)| end);
    let (name, suffix) = ends.find_map(|end| Some((&rest[..end], parse_suffix(&rest[end + 1..])?)))?;
    let archived_name =
        SEPARATORS.iter().find_map(|separator| name.strip_suffix(&format!("{separator}archive")));
    Some(match (prefix(archived_name.unwrap_or(name)), suffix) {
        (Err(why), _) => Key::Ignored(why),
        (Ok(prefix), Suffix::MetaEntry) => Key::Meta(prefix),
        (Ok(_), Suffix::CurrentCycle) => {
            Key::Ignored("a pointer to the newest cycle, which is found by listing them".to_owned())
        }
        (Ok(prefix), Suffix::Cycle(number, content)) => {
            Key::Cycle(CycleKey { prefix, number, archived: archived_name.is_some(), content })
        }
    })
}

fn parse_suffix(text: &str) -> Option<Suffix> {
    let tokens: Vec<_> = text.split(SEPARATORS).collect();
    match tokens[..] {
        ["meta"] => Some(Suffix::MetaEntry),
        ["cycle", "current"] => Some(Suffix::CurrentCycle),
        ["cycle", number, ref content @ ..] => {
            let number = number.parse().ok().filter(|number| (1..=MAX_SAFE_INTEGER).contains(number))?;
            Some(Suffix::Cycle(number, parse_content(content)?))
        }
        _ => None,
    }
}

/// Parses what follows the number of the cycle.
fn parse_content(tokens: &[&str]) -> Option<KeyContent> {
    Some(match tokens {
        [] => KeyContent::Document,
        ["metadata"] => KeyContent::Metadata,
        ["metadata", "spec"] | ["context", "spec_name" | "determined_spec_name"] => KeyContent::Other,
        ["metadata", "phases_completed"] | ["phases_completed"] => KeyContent::PhasesCompleted,
        ["context"] => KeyContent::Context,
        ["context", "peer_mode"] => KeyContent::Mode,
        ["context", "instruction_name"] => KeyContent::Instruction,
        ["status"] => KeyContent::Status,
        ["state"] => KeyContent::State,
        ["completed_at"] => KeyContent::CompletedAt,
        ["failed_at"] => KeyContent::FailedAt,
        ["error"] => KeyContent::Error,
        ["plan_summary" | "execution_summary" | "express_summary" | "review_summary"]
        | ["deliverables" | "express_metrics" | "improvements"] => KeyContent::Other,
        ["phases", word] => KeyContent::PhaseStatus(parse_phase_name(word)?),
        [word] => KeyContent::Output(parse_phase_name(word)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(key: &str) -> String {
        match parse(key) {
            Key::Meta(prefix) => format!("{prefix:?} meta"),
            Key::Cycle(CycleKey { prefix, number, archived, content }) => {
                let archived = if archived { " archived" } else { "" };
                format!("{prefix:?} {number} {content:?}{archived}")
            }
            Key::Ignored(why) => why,
        }
    }

    /// One row for each form of a key in the earlier formats.
    #[test]
    fn every_old_key_is_parsed_with_either_separator() {
        for (key, expected) in [
            ("peer.spec.a.meta", "Spec(`a`) meta"),
            ("peer.spec.a.cycle.1", "Spec(`a`) 1 Document"),
            ("peer.global.cycle.12", "Global 12 Document"),
            ("peer.instruction.plan-product.cycle.2", "Instruction(\"plan-product\") 2 Document"),
            ("peer.spec.a.cycle.1.metadata", "Spec(`a`) 1 Metadata"),
            ("peer.spec.a.cycle.1.metadata.spec", "Spec(`a`) 1 Other"),
            ("peer.spec.a.cycle.1.metadata.phases_completed", "Spec(`a`) 1 PhasesCompleted"),
            ("peer.spec.a.cycle.1.plan", "Spec(`a`) 1 Output(Plan)"),
            ("peer.spec.a.cycle.1.execution", "Spec(`a`) 1 Output(Execute)"),
            ("peer.spec.a.cycle.1.express_metrics", "Spec(`a`) 1 Other"),
            ("peer.spec.a.cycle.1.status", "Spec(`a`) 1 Status"),
            ("peer.spec.a.cycle.1.phases.planning", "Spec(`a`) 1 PhaseStatus(Plan)"),
            ("peer.spec.a.cycle.1.context.peer_mode", "Spec(`a`) 1 Mode"),
            ("peer.spec.a.archive.cycle.1", "Spec(`a`) 1 Document archived"),
            ("peer.global.archive.cycle.1", "Global 1 Document archived"),
            ("peer.spec.a.cycle.current", "a pointer to the newest cycle, which is found by listing them"),
            ("peer.global.next_cycle", "a counter; the next number is found by listing the cycles"),
            ("peer.context.current_execution.x", "existed only while a cycle ran"),
            ("peer.locks.create-spec.a", "a lock"),
            ("peer.commit.2025.08.13.19.00", "the plan of a commit, not a cycle"),
            ("peer.events.peer.spec.a.cycle.1", "an event; the documents have its content"),
            ("peer.global.junk.cycle.1", "no format has such a key"),
            ("peer.spec.a.cycle.0", "no format has such a key"),
            ("peer.spec.a.cycle.1.strange.content", "no format has such a key"),
            ("peers.spec.a.cycle.1", "not a key of a cycle"),
        ] {
            assert_eq!(describe(key), expected, "{key}");
            assert_eq!(describe(&key.replace('.', ":")), expected, "{key}");
        }
    }

    #[test]
    fn a_name_with_separators_ends_at_the_rightmost_suffix() {
        for (key, expected) in [
            ("peer.spec.v1.2.cycle.3", "Spec(`v1.2`) 3 Document"),
            ("peer:spec:v1.2:cycle:3:plan", "Spec(`v1.2`) 3 Output(Plan)"),
            ("peer.spec.a:cycle:3", "Spec(`a`) 3 Document"),
            ("peer.spec.a.cycle.9.cycle.1", "Spec(`a.cycle.9`) 1 Document"),
            ("peer.spec.日本.cycle.1", "Spec(`日本`) 1 Document"),
            ("peer.spec.archive.cycle.1", "Spec(`archive`) 1 Document"),
        ] {
            assert_eq!(describe(key), expected, "{key}");
        }
        let long = format!("peer.spec.{}.cycle.1", "x".repeat(300));
        assert!(describe(&long).contains("cannot name a spec"), "{}", describe(&long));
    }
}
