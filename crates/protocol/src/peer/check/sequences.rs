//! S1 to S3: the numbers of writes, in the history and in the phases. That numbers start at 1 (S4) is checked as a field.

use super::parsed::{EntryFacts, Facts, PhaseFacts};
use crate::check::{At, Findings};
use crate::closest;
use crate::peer::document::{CycleStatus, Event, Phase, PhaseStatus};

pub(super) fn check(at: &At, facts: &Facts, findings: &mut Findings) {
    check_growth(at, facts, findings);
    for phase in &facts.phases {
        check_mark(at, facts, phase, &Event::Started, "sequence_at_start", phase.start, findings);
        check_mark(at, facts, phase, &Event::Completed, "sequence_at_complete", phase.complete, findings);
        check_inside(at, phase, findings);
        check_failed(at, facts, phase, findings);
    }
    check_end(at, facts, findings);
}

fn place(at: &At, entry: &EntryFacts) -> At {
    at.field("history").entry(entry.index)
}

/// S1: in the history each number is higher than the one before, and none is higher than the document's.
fn check_growth(at: &At, facts: &Facts, findings: &mut Findings) {
    let mut last = 0;
    for entry in &facts.history {
        if let Some((from, to)) = entry.compacted.filter(|(from, to)| from > to) {
            let message = format!("the entry stands for the writes {from} to {to}, which are none");
            findings.add("S1", &place(at, entry).field("to"), message, "`to` is not lower than `from`");
        }
        let Some(sequence) = entry.sequence else { continue };
        if sequence <= last {
            let at = place(at, entry).field("sequence");
            let message = format!("{} is {sequence}, after an entry with {last}", at.owner);
            findings.add("S1", &at, message, "every write has a higher number than the one before");
        }
        last = last.max(sequence);
    }
    if facts.sequence.is_some_and(|sequence| last > sequence) {
        let message =
            format!("`sequence` of the document is lower than {last}, the last number in its history");
        findings.add("S1", &at.field("sequence"), message, format!("write at least {last}"));
    }
}

/// S2, and of S3 that a start or a completion is not missing: a phase's number and the entry of that event say the same.
fn check_mark(
    at: &At,
    facts: &Facts,
    phase: &PhaseFacts,
    event: &Event,
    field: &str,
    mark: Option<u64>,
    findings: &mut Findings,
) {
    let name = phase.phase;
    let shown =
        At { pointer: at.field("phases").field(name.as_str()).pointer, owner: format!("phase `{name}`") };
    let entries: Vec<_> = facts.entries(Some(name), event.clone()).collect();
    let word = event.as_str();
    let Some(mark) = mark else {
        // A status that wants the number, and has none or a bad one, was reported as such.
        let wanted = phase.is(PhaseStatus::Completed)
            || phase.is(PhaseStatus::InProgress) && *event == Event::Started
            || phase.status.is_none();
        for entry in entries.into_iter().filter(|_| !wanted) {
            let message = format!("the history says that `{name}` {word}, but `{name}` has no `{field}`");
            let repair = "correct the phase, or take the entry out";
            findings.add("S2", &place(at, entry), message, repair);
        }
        return;
    };
    match entries[..] {
        [] if !facts.has_whole_history() => {}
        [] => {
            let message = format!("`{name}` {word} in write {mark}, but the history has no entry for it");
            let repair = format!(
                "add {{\"timestamp\": …, \"phase\": \"{name}\", \"event\": \"{word}\", \"sequence\": {mark}}}"
            );
            findings.add("S3", &shown.field(field), message, repair);
        }
        [entry] => {
            if let Some(sequence) = entry.sequence.filter(|sequence| *sequence != mark) {
                let message = format!("`{name}` {word} in write {mark}, but in the history in {sequence}");
                let repair = format!("write {sequence}, or correct the history");
                findings.add("S2", &shown.field(field), message, repair);
            }
        }
        [_, second, ..] => {
            let message = format!("`{name}` {word} more than once in the history");
            findings.add("S2", &place(at, second), message, "a phase runs once in a cycle");
        }
    }
}

/// Of S3 the order inside a phase.
fn check_inside(at: &At, phase: &PhaseFacts, findings: &mut Findings) {
    if let (Some(start), Some(complete)) = (phase.start, phase.complete)
        && complete <= start
    {
        let at = at.field("phases").field(phase.phase.as_str()).field("sequence_at_complete");
        let message = format!("`{}` completed in write {complete}, but started in {start}", phase.phase);
        findings.add("S3", &at, message, "it completes in a later write");
    }
}

/// Of S3: every phase that failed has its entry, and no other has one.
fn check_failed(at: &At, facts: &Facts, phase: &PhaseFacts, findings: &mut Findings) {
    let Some(status) = phase.status else { return };
    let name = phase.phase;
    let entries: Vec<_> = facts.entries(Some(name), Event::Failed).collect();
    if status != PhaseStatus::Failed {
        for entry in entries {
            let message = format!("the history says that `{name}` failed, but it is {}", status.as_str());
            findings.add("S3", &place(at, entry), message, "correct the phase, or take the entry out");
        }
        return;
    }
    match entries[..] {
        [] if !facts.has_whole_history() => {}
        [] => {
            let at = at.field("phases").field(name.as_str());
            let message = format!("`{name}` has failed, but the history has no entry for it");
            findings.add("S3", &at, message, format!("add an entry with phase `{name}` and event `failed`"));
        }
        [entry] => {
            if let (Some(start), Some(failed)) = (phase.start, entry.sequence)
                && failed <= start
            {
                let message = format!("`{name}` failed in write {failed}, but started in {start}");
                findings.add("S3", &place(at, entry), message, "it fails in a later write");
            }
        }
        [_, second, ..] => {
            let message = format!("`{name}` failed more than once in the history");
            findings.add(
                "S3",
                &place(at, second),
                message,
                "a failed attempt is an entry of `errors`, not of the history",
            );
        }
    }
}

/// Of S3: a cycle is completed by a write of its own, after its review.
fn check_end(at: &At, facts: &Facts, findings: &mut Findings) {
    let Some(status) = facts.status else { return };
    let entries: Vec<_> = facts.entries(None, Event::Completed).collect();
    if status != CycleStatus::Completed {
        for entry in entries {
            let message = format!("the history says that the cycle completed, but it is {}", status.as_str());
            findings.add("S3", &place(at, entry), message, "correct the status, or take the entry out");
        }
        return;
    }
    match entries[..] {
        [] if !facts.has_whole_history() => {}
        [] => {
            let message = "the cycle is completed, but the history has no entry for it".to_owned();
            let repair = "add an entry with phase null and event `completed`";
            findings.add("S3", &at.field("metadata").field("status"), message, repair);
        }
        [entry] => {
            if let (Some(review), Some(closed)) = (facts.phase(Phase::Review).complete, entry.sequence)
                && closed <= review
            {
                let message = format!("the cycle completed in write {closed}, but its review in {review}");
                findings.add("S3", &place(at, entry), message, "it completes in a later write");
            }
        }
        [_, second, ..] => {
            let message = "the cycle completed more than once in the history".to_owned();
            findings.add("S3", &place(at, second), message, "take one of the entries out");
        }
    }
}

/// What only the literal reading of "no sequence gaps in history" minds, and events we do not know.
pub(super) fn doubt(at: &At, facts: &Facts, doubts: &mut Findings) {
    for entry in &facts.history {
        match &entry.event {
            Some(Event::Other(word)) => {
                let at = place(at, entry).field("event");
                let message = format!("{} is `{word}`, an event that is not known here", at.owner);
                let repair = match closest(word, Event::WORDS) {
                    Some(meant) => {
                        format!("did you mean `{meant}`? As it is, it is kept and counts for nothing")
                    }
                    None => "it is kept, and counts for nothing".to_owned(),
                };
                doubts.add("S3", &at, message, repair);
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
    let single = |entry: &EntryFacts| entry.sequence.map(|sequence| (sequence, sequence));
    let mut ranges: Vec<_> = facts.history.iter().filter_map(|entry| Some((single(entry)?, entry))).collect();
    if ranges.len() < facts.history.len() || !ranges.is_sorted_by(|(one, _), (next, _)| one < next) {
        return;
    }
    ranges.extend(facts.history.iter().filter_map(|entry| Some((entry.compacted?, entry))));
    ranges.sort_by_key(|(range, _)| *range);
    let mut next = 1;
    for ((from, to), entry) in ranges {
        if from > next {
            gap(&place(at, entry).field("sequence"), next, from - 1, doubts);
        }
        next = next.max(to.saturating_add(1));
    }
    if let Some(sequence) = facts.sequence.filter(|sequence| *sequence >= next) {
        gap(&at.field("sequence"), next, sequence, doubts);
    }
}

fn gap(at: &At, from: u64, to: u64, doubts: &mut Findings) {
    let writes = if from == to { format!("write {from}") } else { format!("the writes {from} to {to}") };
    let message = format!("the history says nothing of {writes}");
    doubts.add(
        "S3",
        at,
        message,
        "accepted as long as no transition is missing; Callboard itself leaves no gaps",
    );
}
