//! Which old keys there were: a key → what is kept under it.
//!
//! Dots and colons both occurred as separators, and a spec's name may contain either. So names end where, read from the
//! right, something begins that can follow a name; `archive` before that belongs to the key, not to the name.

use std::fmt;

use super::words::phase_word;
use crate::peer::document::Phase;
use crate::peer::names::{LARGEST, SpecName};

/// What stands before `meta` or `cycle` in a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Prefix {
    Spec(SpecName),
    Global,
    /// What `global` was called first: one counter per instruction.
    Instruction(String),
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// What was known of all cycles of a prefix.
    Meta(Prefix),
    Cycle(CycleKey),
    /// A file through which the scripts of old told each other what they were doing.
    Temp(TempFile),
    /// Nothing that a cycle consists of, and why.
    Nothing(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CycleKey {
    pub(super) prefix: Prefix,
    pub(super) number: u64,
    /// A copy that was set aside; the cycle's own keys count more.
    pub(super) archived: bool,
    pub(super) piece: Piece,
    /// There is another way to tell the name from the rest.
    pub(super) doubtful: bool,
}

/// Which piece of a cycle a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Whole,
    Metadata,
    Spec,
    Instruction,
    Mode,
    PhasesCompleted,
    Output(Phase),
    Status,
    State,
    CompletedAt,
    FailedAt,
    Error,
    Context,
    PhaseStatus(Phase),
    /// Something about the cycle for which version 2 has no place.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TempFile {
    Arguments,
    Context,
    Cycle,
    SpecName,
}

impl TempFile {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "peer_args.txt" => Some(Self::Arguments),
            "peer_context.txt" => Some(Self::Context),
            "peer_cycle.txt" => Some(Self::Cycle),
            "determined_spec_name.txt" => Some(Self::SpecName),
            _ => None,
        }
    }
}

/// What can follow a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Meta,
    Pointer,
    Cycle(u64, Piece),
}

/// Says what is kept under a key.
pub(super) fn recognise(key: &str) -> Kept {
    if let Some(file) = TempFile::named(key) {
        return Kept::Temp(file);
    }
    let Some(after) = key.strip_prefix("peer").and_then(|rest| rest.strip_prefix(SEPARATORS)) else {
        return Kept::Nothing("it is no key of a cycle".to_owned());
    };
    let (head, rest) = after.split_once(SEPARATORS).unwrap_or((after, ""));
    match head {
        "spec" => named(rest, |name| {
            SpecName::typed(name).map(Prefix::Spec).map_err(|bad| format!("`{name}` cannot be a spec: {bad}"))
        }),
        "instruction" => named(rest, |name| Ok(Prefix::Instruction(name.to_owned()))),
        "global" => {
            let (archived, rest) = match rest.strip_prefix("archive").and_then(|r| r.strip_prefix(SEPARATORS))
            {
                Some(inner) => (true, inner),
                None => (false, rest),
            };
            match follows(rest) {
                Some(rest) => found(Prefix::Global, rest, archived, false),
                None if rest == "next_cycle" => {
                    nothing("it counted cycles; the next number is found by looking")
                }
                None => unknown(),
            }
        }
        "context" => nothing("it was there only while a cycle ran"),
        "locks" => nothing("it was a lock"),
        "commit" => nothing("it is the plan of a commit, not a cycle"),
        "events" => nothing("it is an event; what it tells is in the documents"),
        _ => unknown(),
    }
}

const SEPARATORS: [char; 2] = ['.', ':'];

fn nothing(why: &str) -> Kept {
    Kept::Nothing(why.to_owned())
}

fn unknown() -> Kept {
    nothing("no version of the format has such a key")
}

/// A key with a name in it: tries every place where the name may end, the rightmost first.
fn named(rest: &str, prefix: impl Fn(&str) -> Result<Prefix, String>) -> Kept {
    let ends = rest.rmatch_indices(SEPARATORS).map(|(end, _)| end);
    let mut readings: Vec<_> =
        ends.filter_map(|end| Some((&rest[..end], follows(&rest[end + 1..])?))).collect();
    // What we know is believed before what merely looks like a cycle.
    readings.sort_by_key(|(_, rest)| matches!(rest, Rest::Cycle(_, Piece::Other)));
    let Some((name, what)) = readings.first().copied() else { return unknown() };
    let archived = SEPARATORS.iter().find_map(|separator| name.strip_suffix(&format!("{separator}archive")));
    match prefix(archived.unwrap_or(name)) {
        Ok(prefix) => found(prefix, what, archived.is_some(), readings.len() > 1),
        Err(why) => Kept::Nothing(why),
    }
}

fn found(prefix: Prefix, rest: Rest, archived: bool, doubtful: bool) -> Kept {
    match rest {
        Rest::Meta => Kept::Meta(prefix),
        Rest::Pointer => nothing("it pointed to the newest cycle; that is found by looking"),
        Rest::Cycle(number, piece) => Kept::Cycle(CycleKey { prefix, number, archived, piece, doubtful }),
    }
}

/// Reads what can follow a prefix.
fn follows(rest: &str) -> Option<Rest> {
    let tokens: Vec<_> = rest.split(SEPARATORS).collect();
    match tokens[..] {
        ["meta"] => Some(Rest::Meta),
        ["cycle", "current"] => Some(Rest::Pointer),
        ["cycle", number, ref piece @ ..] => {
            let number = number.parse().ok().filter(|number| (1..=LARGEST).contains(number))?;
            Some(Rest::Cycle(number, piece_of(piece)))
        }
        _ => None,
    }
}

fn piece_of(tokens: &[&str]) -> Piece {
    match tokens {
        [] => Piece::Whole,
        ["metadata"] => Piece::Metadata,
        ["metadata", "spec"] | ["context", "spec_name" | "determined_spec_name"] => Piece::Spec,
        ["metadata", "phases_completed"] | ["phases_completed"] => Piece::PhasesCompleted,
        ["context"] => Piece::Context,
        ["context", "peer_mode"] => Piece::Mode,
        ["context", "instruction_name"] => Piece::Instruction,
        ["status"] => Piece::Status,
        ["state"] => Piece::State,
        ["completed_at"] => Piece::CompletedAt,
        ["failed_at"] => Piece::FailedAt,
        ["error"] => Piece::Error,
        ["phases", word] => phase_word(word).map_or(Piece::Other, Piece::PhaseStatus),
        [word] => phase_word(word).map_or(Piece::Other, Piece::Output),
        _ => Piece::Other,
    }
}

/// Reads a prefix that stands alone, as documents and temp files have it.
pub(super) fn prefix(text: &str) -> Option<Prefix> {
    match recognise(&format!("{text}.meta")) {
        Kept::Meta(prefix) => Some(prefix),
        Kept::Cycle(_) | Kept::Temp(_) | Kept::Nothing(_) => None,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(name) => write!(f, "peer:spec:{name}"),
            Self::Global => f.write_str("peer:global"),
            Self::Instruction(name) => write!(f, "peer:instruction:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: &str) -> String {
        match recognise(key) {
            Kept::Meta(prefix) => format!("{prefix} meta"),
            Kept::Cycle(CycleKey { prefix, number, archived, piece, doubtful }) => {
                let archived = if archived { " archived" } else { "" };
                let doubtful = if doubtful { " ?" } else { "" };
                format!("{prefix} {number} {piece:?}{archived}{doubtful}")
            }
            Kept::Temp(file) => format!("{file:?}"),
            Kept::Nothing(why) => why,
        }
    }

    #[test]
    fn every_key_of_old_is_recognised_with_either_separator() {
        for (key, expected) in [
            ("peer.spec.a.meta", "peer:spec:a meta"),
            ("peer.spec.a.cycle.1", "peer:spec:a 1 Whole"),
            ("peer.global.cycle.12", "peer:global 12 Whole"),
            ("peer.instruction.plan-product.cycle.2", "peer:instruction:plan-product 2 Whole"),
            ("peer.spec.a.cycle.1.metadata", "peer:spec:a 1 Metadata"),
            ("peer.spec.a.cycle.1.metadata.spec", "peer:spec:a 1 Spec"),
            ("peer.spec.a.cycle.1.metadata.phases_completed", "peer:spec:a 1 PhasesCompleted"),
            ("peer.spec.a.cycle.1.plan", "peer:spec:a 1 Output(Plan)"),
            ("peer.spec.a.cycle.1.execution", "peer:spec:a 1 Output(Execute)"),
            ("peer.spec.a.cycle.1.express_metrics", "peer:spec:a 1 Other"),
            ("peer.spec.a.cycle.1.status", "peer:spec:a 1 Status"),
            ("peer.spec.a.cycle.1.phases.planning", "peer:spec:a 1 PhaseStatus(Plan)"),
            ("peer.spec.a.cycle.1.context.peer_mode", "peer:spec:a 1 Mode"),
            ("peer.spec.a.cycle.1.context.determined_spec_name", "peer:spec:a 1 Spec"),
            ("peer.spec.a.archive.cycle.1", "peer:spec:a 1 Whole archived"),
            ("peer.spec.a.archive.cycle.1.plan", "peer:spec:a 1 Output(Plan) archived"),
            ("peer.global.archive.cycle.1", "peer:global 1 Whole archived"),
            ("peer.spec.a.cycle.current", "it pointed to the newest cycle; that is found by looking"),
            ("peer.global.next_cycle", "it counted cycles; the next number is found by looking"),
            ("peer.context.current_execution.x", "it was there only while a cycle ran"),
            ("peer.locks.create-spec.a", "it was a lock"),
            ("peer.commit.2025.08.13.19.00", "it is the plan of a commit, not a cycle"),
            ("peer.events.peer.spec.a.cycle.1", "it is an event; what it tells is in the documents"),
            ("peer.spec.a.cycle.0", "no version of the format has such a key"),
            ("peer.spec.a", "no version of the format has such a key"),
        ] {
            assert_eq!(shown(key), expected, "{key}");
            assert_eq!(shown(&key.replace('.', ":")), expected, "{key}");
        }
        assert_eq!(shown("README"), "it is no key of a cycle");
        assert_eq!(shown("peers.spec.a.cycle.1"), "it is no key of a cycle");
        assert_eq!(shown("peer_args.txt"), "Arguments");
    }

    #[test]
    fn names_with_separators_in_them_are_told_apart_from_the_right() {
        for (key, expected) in [
            ("peer.spec.v1.2.cycle.3", "peer:spec:v1.2 3 Whole"),
            ("peer:spec:v1.2:cycle:3:plan", "peer:spec:v1.2 3 Output(Plan)"),
            ("peer.spec.a:b.cycle.3", "peer:spec:a:b 3 Whole"),
            ("peer.spec.a:cycle:3", "peer:spec:a 3 Whole"),
            ("peer.spec.a.cycle.9.cycle.1", "peer:spec:a.cycle.9 1 Whole ?"),
            ("peer.spec.a.cycle.9.cycle.1.notes", "peer:spec:a.cycle.9 1 Other ?"),
            ("peer.spec.a.cycle.9.meta", "peer:spec:a.cycle.9 meta"),
            ("peer.spec.a.cycle.9.notes", "peer:spec:a 9 Other"),
            ("peer.spec.日本.cycle.1", "peer:spec:日本 1 Whole"),
            ("peer.spec.archive.cycle.1", "peer:spec:archive 1 Whole"),
        ] {
            assert_eq!(shown(key), expected, "{key}");
        }
        let long = format!("peer.spec.{}.cycle.1", "x".repeat(300));
        assert!(shown(&long).contains("cannot be a spec"), "{}", shown(&long));
    }
}
