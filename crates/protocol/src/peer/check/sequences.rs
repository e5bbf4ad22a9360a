//! S1 to S3: the sequence numbers in the history and in the phases. `fields.rs` checks S4.
//!
//! A sequence number is the value that `sequence` of the document had in a write. The history and the phases record it.
//! `docs/peer.md` lists the rules.

use super::parsed::{ParsedDocument, ParsedEntry, ParsedPhase};
use crate::check::{Location, ViolationCollector};
use crate::closest;
use crate::peer::document::{Event, PeerCycleStatus, Phase, PhaseStatus};

pub(super) fn check(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    check_monotonic(at, document, findings);
    for phase in &document.phases {
        check_recorded_sequence(
            at,
            document,
            phase,
            &Event::Started,
            "sequence_at_start",
            phase.start,
            findings,
        );
        check_recorded_sequence(
            at,
            document,
            phase,
            &Event::Completed,
            "sequence_at_complete",
            phase.complete,
            findings,
        );
        check_phase_order(at, phase, findings);
        check_failed(at, document, phase, findings);
    }
    check_cycle_completed(at, document, findings);
}

fn entry_at(at: &Location, entry: &ParsedEntry) -> Location {
    at.field("history").entry(entry.index)
}

/// S1: in the history each number is higher than the one before, and none is higher than the document's.
fn check_monotonic(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    let mut last = 0;
    for entry in &document.history {
        if let Some((from, to)) = entry.compacted.filter(|(from, to)| from > to) {
            let message = format!("the entry replaces the writes {from} to {to}, an empty range");
            findings.add("S1", &entry_at(at, entry).field("to"), message, "write `to` not lower than `from`");
        }
        let Some(sequence) = entry.sequence else { continue };
        if sequence <= last {
            let at = entry_at(at, entry).field("sequence");
            let message = format!("{} is {sequence}, after an entry with {last}", at.name);
            findings.add("S1", &at, message, "every write has a higher number than the one before");
        }
        last = last.max(sequence);
    }
    if document.sequence.is_some_and(|sequence| last > sequence) {
        let message =
            format!("`sequence` of the document is lower than {last}, the last number in its history");
        findings.add("S1", &at.field("sequence"), message, format!("write at least {last}"));
    }
}

/// S2, and S3 for starts and completions: the number in the phase and the history entry of the event agree.
fn check_recorded_sequence(
    at: &Location,
    document: &ParsedDocument,
    phase: &ParsedPhase,
    event: &Event,
    field: &str,
    recorded_sequence: Option<u64>,
    findings: &mut ViolationCollector,
) {
    let name = phase.phase;
    let phase_at = Location {
        pointer: at.field("phases").field(name.as_str()).pointer,
        name: format!("phase `{name}`"),
    };
    let entries: Vec<_> = document.entries(Some(name), event.clone()).collect();
    let word = event.as_str();
    let Some(recorded) = recorded_sequence else {
        // F6 has already reported the missing number of a phase with these statuses, and a status that cannot be parsed.
        let is_reported = phase.is(PhaseStatus::Completed)
            || phase.is(PhaseStatus::InProgress) && *event == Event::Started
            || phase.status.is_none();
        for entry in entries.into_iter().filter(|_| !is_reported) {
            let message = format!("the history says that `{name}` {word}, but `{name}` has no `{field}`");
            let repair = "correct the phase, or remove the entry";
            findings.add("S2", &entry_at(at, entry), message, repair);
        }
        return;
    };
    match entries[..] {
        [] if !document.every_entry_is_readable() => {}
        [] => {
            let message = format!("`{name}` {word} in write {recorded}, but the history has no entry for it");
            let repair = format!(
                "add {{\"timestamp\": …, \"phase\": \"{name}\", \"event\": \"{word}\", \"sequence\": {recorded}}}"
            );
            findings.add("S3", &phase_at.field(field), message, repair);
        }
        [entry] => {
            if let Some(sequence) = entry.sequence.filter(|sequence| *sequence != recorded) {
                let message =
                    format!("`{name}` {word} in write {recorded}, but the history says write {sequence}");
                let repair = format!("write {sequence}, or correct the history");
                findings.add("S2", &phase_at.field(field), message, repair);
            }
        }
        [_, second, ..] => {
            let message = format!("`{name}` {word} more than once in the history");
            findings.add("S2", &entry_at(at, second), message, "a phase runs once in a cycle");
        }
    }
}

/// S3: a phase completes after its start.
fn check_phase_order(at: &Location, phase: &ParsedPhase, findings: &mut ViolationCollector) {
    if let (Some(start), Some(complete)) = (phase.start, phase.complete)
        && complete <= start
    {
        let at = at.field("phases").field(phase.phase.as_str()).field("sequence_at_complete");
        let message =
            format!("`{}` completed in write {complete}, but started in write {start}", phase.phase);
        findings.add("S3", &at, message, "it completes in a later write");
    }
}

/// S3: every failed phase has one `failed` entry, and no other phase has one.
fn check_failed(
    at: &Location,
    document: &ParsedDocument,
    phase: &ParsedPhase,
    findings: &mut ViolationCollector,
) {
    let Some(status) = phase.status else { return };
    let name = phase.phase;
    let entries: Vec<_> = document.entries(Some(name), Event::Failed).collect();
    if status != PhaseStatus::Failed {
        for entry in entries {
            let message = format!("the history says that `{name}` failed, but it is {}", status.as_str());
            findings.add("S3", &entry_at(at, entry), message, "correct the phase, or remove the entry");
        }
        return;
    }
    match entries[..] {
        [] if !document.every_entry_is_readable() => {}
        [] => {
            let at = at.field("phases").field(name.as_str());
            let message = format!("`{name}` has failed, but the history has no entry for it");
            findings.add("S3", &at, message, format!("add an entry with phase `{name}` and event `failed`"));
        }
        [entry] => {
            if let (Some(start), Some(failed)) = (phase.start, entry.sequence)
                && failed <= start
            {
                let message = format!("`{name}` failed in write {failed}, but started in write {start}");
                findings.add("S3", &entry_at(at, entry), message, "it fails in a later write");
            }
        }
        [_, second, ..] => {
            let message = format!("`{name}` failed more than once in the history");
            findings.add(
                "S3",
                &entry_at(at, second),
                message,
                "a failed attempt is an entry of `errors`, not of the history",
            );
        }
    }
}

/// S3: a completed cycle has one `completed` entry of its own, after its review.
fn check_cycle_completed(at: &Location, document: &ParsedDocument, findings: &mut ViolationCollector) {
    let Some(status) = document.status else { return };
    let entries: Vec<_> = document.entries(None, Event::Completed).collect();
    if status != PeerCycleStatus::Completed {
        for entry in entries {
            let message = format!("the history says that the cycle completed, but it is {}", status.as_str());
            findings.add("S3", &entry_at(at, entry), message, "correct the status, or remove the entry");
        }
        return;
    }
    match entries[..] {
        [] if !document.every_entry_is_readable() => {}
        [] => {
            let message = "the cycle is completed, but the history has no entry for it".to_owned();
            let repair = "add an entry with phase null and event `completed`";
            findings.add("S3", &at.field("metadata").field("status"), message, repair);
        }
        [entry] => {
            if let (Some(review), Some(closed)) = (document.phase(Phase::Review).complete, entry.sequence)
                && closed <= review
            {
                let message =
                    format!("the cycle completed in write {closed}, but its review only in write {review}");
                findings.add("S3", &entry_at(at, entry), message, "it completes in a later write");
            }
        }
        [_, second, ..] => {
            let message = "the cycle completed more than once in the history".to_owned();
            findings.add("S3", &entry_at(at, second), message, "remove one of the entries");
        }
    }
}

/// Warns about gaps in the history and about unknown events. The original's "no sequence gaps" is read as "no
/// transition is missing", so a gap alone is no violation.
pub(super) fn warn(at: &Location, document: &ParsedDocument, warnings: &mut ViolationCollector) {
    for entry in &document.history {
        match &entry.event {
            Some(Event::Other(word)) => {
                let at = entry_at(at, entry).field("event");
                let message = format!("{} is `{word}`, an unknown event", at.name);
                let repair = match closest(word, Event::KNOWN) {
                    Some(meant) => {
                        format!("did you mean `{meant}`? Unknown events are kept and ignored")
                    }
                    None => "unknown events are kept and ignored".to_owned(),
                };
                warnings.add("S3", &at, message, repair);
            }
            Some(
                Event::Initialized
                | Event::Started
                | Event::Progress
                | Event::Completed
                | Event::Failed
                | Event::Recovered
                | Event::Migrated
                | Event::Compacted,
            )
            | None => {}
        }
    }
    let single = |entry: &ParsedEntry| entry.sequence.map(|sequence| (sequence, sequence));
    let mut ranges: Vec<_> =
        document.history.iter().filter_map(|entry| Some((single(entry)?, entry))).collect();
    if ranges.len() < document.history.len() || !ranges.is_sorted_by(|(one, _), (next, _)| one < next) {
        return;
    }
    ranges.extend(document.history.iter().filter_map(|entry| Some((entry.compacted?, entry))));
    ranges.sort_by_key(|(range, _)| *range);
    let mut next = 1;
    for ((from, to), entry) in ranges {
        if from > next {
            add_gap(&entry_at(at, entry).field("sequence"), next, from - 1, warnings);
        }
        next = next.max(to.saturating_add(1));
    }
    if let Some(sequence) = document.sequence.filter(|sequence| *sequence >= next) {
        add_gap(&at.field("sequence"), next, sequence, warnings);
    }
}

fn add_gap(at: &Location, from: u64, to: u64, warnings: &mut ViolationCollector) {
    let writes = if from == to { format!("write {from}") } else { format!("the writes {from} to {to}") };
    let message = format!("the history has no entry for {writes}");
    warnings.add(
        "S3",
        at,
        message,
        "allowed if no start, completion or failure is missing; Callboard itself leaves no gaps",
    );
}
