//! Replays a cycle of an earlier format, as the keys of its bucket tell it, with the functions that make every other write.
//!
//! Each completed phase starts and completes at its old times, until a phase is reached that did not complete. So every rule
//! holds, and the phases are in order. A phase without an output is a failure; nothing is filled in for it.

use serde_json::Value;

use super::outcome::{Outcome, PhaseFailure, outcome};
use super::read::{Facts, text, time};
use super::report::{Note, NoteKind};
use super::status::OldStatus;
use crate::peer::change::{self, NewCycle};
use crate::peer::document::{Document, Mode, Phase, PhaseError, Unknown, WholeSecond};
use crate::peer::names::CycleId;

/// Replays the cycle as far as it got. No time is later than `at`.
pub(super) fn replay(cycle: &CycleId, facts: &Facts, at: WholeSecond, notes: &mut Vec<Note>) -> Document {
    let document = open(cycle, facts, at, notes);
    let mut replay = Replay { facts, at, notes, document };
    for phase in Phase::ALL {
        match outcome(facts, phase) {
            Outcome::Completed => {
                replay.complete(phase);
                continue;
            }
            Outcome::InProgress => {
                replay.start(phase);
                replay.put_errors(phase, &facts.phase(phase).errors);
            }
            Outcome::Pending if phase == Phase::Plan && facts.status.is_none() => {
                replay.note(NoteKind::Assumed, "no key gives its status; it became initialized");
            }
            Outcome::Pending => {}
            Outcome::Failed(failure) => replay.fail(phase, failure),
        }
        return replay.document;
    }
    replay.close();
    replay.document
}

fn open(cycle: &CycleId, facts: &Facts, at: WholeSecond, notes: &mut Vec<Note>) -> Document {
    if facts.created.is_none() {
        let instead = if facts.earliest().is_some() { "its earliest time" } else { "the current time" };
        let message = format!("no key says when it was created; {instead} was used");
        notes.push(Note::new(NoteKind::Assumed, message));
    }
    let opening = NewCycle {
        cycle: cycle.clone(),
        instruction: facts.instruction.clone().unwrap_or_else(|| {
            notes.push(Note::new(NoteKind::Assumed, "no key names its instruction; it became `unknown`"));
            "unknown".to_owned()
        }),
        mode: facts.mode.unwrap_or(Mode::New),
        instruction_args: facts.arguments.clone().unwrap_or_default(),
        user_requirements: facts.requirements.clone().unwrap_or_default(),
        continues: None,
    };
    change::initialise(opening, facts.created.or(facts.earliest()).unwrap_or(at))
}

struct Replay<'a> {
    facts: &'a Facts,
    at: WholeSecond,
    notes: &'a mut Vec<Note>,
    document: Document,
}

impl Replay<'_> {
    fn note(&mut self, kind: NoteKind, message: impl Into<String>) {
        self.notes.push(Note::new(kind, message));
    }

    /// Starts a phase, with the output it has so far.
    fn start(&mut self, phase: Phase) {
        let phase_facts = self.facts.phase(phase);
        let at = phase_facts.started.unwrap_or(self.document.metadata.updated_at);
        self.document =
            change::start(&self.document, phase, at).expect("BUG: phases are replayed out of order");
        if phase_facts.output.is_some() {
            self.document.phases[phase].output.clone_from(&phase_facts.output);
        }
    }

    fn complete(&mut self, phase: Phase) {
        let phase_facts = self.facts.phase(phase);
        let reshaped = phase_facts.reshaped(phase).expect("BUG: a completed phase has no output");
        for change in reshaped.changes {
            self.note(NoteKind::Converted, format!("output of `{phase}`: {change}"));
        }
        self.start(phase);
        self.put_errors(phase, &phase_facts.errors);
        let at = phase_facts.completed.unwrap_or(self.document.metadata.updated_at);
        self.document = change::complete(&self.document, phase, reshaped.output, at)
            .expect("BUG: a reshaped output is invalid");
    }

    fn fail(&mut self, phase: Phase, failure: PhaseFailure) {
        let PhaseFailure { kind, message, error, stated } = failure;
        let phase_facts = self.facts.phase(phase);
        let has_started = phase_facts.started.is_some()
            || phase_facts.output.is_some()
            || matches!(phase_facts.status, Some(OldStatus::InProgress | OldStatus::Completed));
        if has_started {
            self.start(phase);
        }
        let facts = self.facts;
        let at = phase_facts.completed.or(facts.ended).or(facts.updated);
        let at = at.unwrap_or(self.document.metadata.updated_at);
        let error = match error {
            Some(error) => self.error(&error, kind, at),
            None => PhaseError {
                kind: kind.to_owned(),
                message: message.clone(),
                timestamp: at,
                unknown: Unknown::new(),
            },
        };
        if !stated {
            self.note(NoteKind::Failed, message);
        }
        let earlier = phase_facts.errors.len().saturating_sub(usize::from(stated));
        self.put_errors(phase, &phase_facts.errors[..earlier]);
        let at = error.timestamp;
        self.document = change::fail_with(&self.document, phase, error, at)
            .expect("BUG: phases are replayed out of order");
    }

    /// Adds what the review left at the root, and closes the cycle if it was closed.
    fn close(&mut self) {
        let facts = self.facts;
        self.document.cycle_summary.clone_from(&facts.summary);
        self.document.insights.clone_from(&facts.insights);
        if facts.status.is_none() {
            self.note(
                NoteKind::Assumed,
                "no key gives its status; all phases have an output, so it became completed",
            );
        } else if !facts.is_completed() {
            return;
        }
        let at = facts.ended.or(facts.updated).unwrap_or(self.document.metadata.updated_at);
        self.document = change::complete_cycle(&self.document, at).expect("BUG: a phase is not completed");
    }

    fn put_errors(&mut self, phase: Phase, errors: &[Value]) {
        let phase_facts = self.facts.phase(phase);
        if !errors.is_empty() {
            let at =
                phase_facts.completed.or(phase_facts.started).unwrap_or(self.document.metadata.updated_at);
            let errors = errors.iter().map(|error| self.error(error, "error", at)).collect();
            self.document.phases[phase].errors = Some(errors);
        }
    }

    /// Converts an error: a text, or an object whose other fields are kept.
    fn error(&self, error: &Value, kind: &str, at: WholeSecond) -> PhaseError {
        let mut fields = error.as_object().cloned().unwrap_or_default();
        let message = text(error).or_else(|| fields.get("message").and_then(text));
        let own_kind =
            fields.get("type").or(fields.get("kind")).and_then(text).filter(|own| !own.trim().is_empty());
        let timestamp = fields.get("timestamp").and_then(time).unwrap_or(at);
        fields.retain(|name, _| !matches!(name.as_str(), "kind" | "message" | "timestamp"));
        PhaseError {
            kind: own_kind.filter(|_| kind != "cancelled").unwrap_or_else(|| kind.to_owned()),
            message: message.unwrap_or_else(|| error.to_string()),
            timestamp: timestamp.min(self.at),
            unknown: fields,
        }
    }
}
