//! Facts → a document of version 2.
//!
//! The cycle is played again: each phase that is known to be completed starts and completes as any other, at its old
//! times, until one is reached that is not. So the rules hold whatever was found, and the order of phases cannot be other
//! than it is. A phase that is passed over by what follows is a failure, not a gap to be filled.

use serde_json::{Map, Value};

use super::account::{Note, NoteKind};
use super::facts::{Facts, PhaseFacts};
use super::fate::{Failing, Fate, fate};
use super::words::{Standing, text, time};
use crate::peer::change::{self, Opening};
use crate::peer::document::{Document, Mode, Phase, PhaseError, Second, Unknown};
use crate::peer::names::CycleId;

/// Plays the cycle again as far as it came. No time is later than `at`.
pub(super) fn fold(
    cycle: &CycleId,
    facts: &Facts,
    unreadable: Option<&str>,
    at: Second,
    notes: &mut Vec<Note>,
) -> Document {
    let document = opened(cycle, facts, at, notes);
    let mut play = ProtocolChange { facts, at, notes, document };
    for phase in Phase::ALL {
        let shown = facts.phase(phase);
        match fate(facts, phase, unreadable) {
            Fate::Completed => play.complete(shown),
            Fate::Working => {
                play.start(shown);
                play.put_output(shown);
                play.put_errors(shown, &shown.errors);
                return play.document;
            }
            Fate::Waiting => {
                play.wait(phase);
                return play.document;
            }
            Fate::Failed(failing) => {
                play.fail(shown, failing);
                return play.document;
            }
        }
    }
    play.close();
    play.document
}

fn opened(cycle: &CycleId, facts: &Facts, at: Second, notes: &mut Vec<Note>) -> Document {
    let created = facts.created.or_else(|| {
        let earliest = facts.earliest();
        let how = if earliest.is_some() { "the earliest time in it" } else { "now" };
        let message = format!("it does not say when it was created; {how} is written");
        notes.push(Note::new(NoteKind::Guessed, message).at("/metadata/created_at"));
        earliest
    });
    let opening = Opening {
        cycle: cycle.clone(),
        instruction: facts.instruction.clone().unwrap_or_else(|| {
            let note = Note::new(NoteKind::Guessed, "it does not say which instruction it was given");
            notes.push(note.at("/metadata/instruction"));
            "unknown".to_owned()
        }),
        mode: facts.mode.unwrap_or(Mode::New),
        instruction_args: facts.arguments.clone().unwrap_or_default(),
        user_requirements: facts.requirements.clone().unwrap_or_default(),
        continues: None,
    };
    change::initialise(opening, created.unwrap_or(at))
}

struct ProtocolChange<'a> {
    facts: &'a Facts,
    at: Second,
    notes: &'a mut Vec<Note>,
    document: Document,
}

impl ProtocolChange<'_> {
    fn start(&mut self, shown: &PhaseFacts) {
        let at = shown.started.unwrap_or(self.document.metadata.updated_at);
        self.document =
            change::start(&self.document, shown.phase, at).expect("BUG: phases are played in their order");
    }

    fn complete(&mut self, shown: &PhaseFacts) {
        let fitted = shown.output.as_ref().expect("BUG: who completed has an output");
        let phase = shown.phase;
        self.notes.extend(fitted.changed.iter().map(|changed| {
            let message = format!("the output of `{phase}`: {changed}");
            Note::new(NoteKind::Reshaped, message).at(format!("/phases/{phase}/output"))
        }));
        self.start(shown);
        self.put_errors(shown, &shown.errors);
        let at = shown.completed.unwrap_or(self.document.metadata.updated_at);
        self.document = change::complete(&self.document, phase, fitted.output.clone(), at)
            .expect("BUG: its output was made to fit");
    }

    fn fail(&mut self, shown: &PhaseFacts, failing: Failing) {
        let Failing { kind, error, message, said } = failing;
        let phase = shown.phase;
        if !said {
            let note = Note::new(NoteKind::Failed, message.clone());
            self.notes.push(note.at(format!("/phases/{phase}")));
        }
        let began = shown.started.is_some()
            || shown.found.is_some()
            || matches!(shown.status, Some(Standing::Working | Standing::Done));
        if began {
            self.start(shown);
        }
        self.put_output(shown);
        let facts = self.facts;
        let at =
            shown.completed.or(facts.ended).or(facts.updated).unwrap_or(self.document.metadata.updated_at);
        let error = match error {
            Some(error) => self.error(&error, kind, at),
            None => PhaseError { kind: kind.to_owned(), message, timestamp: at, unknown: Unknown::new() },
        };
        // What it failed with comes first, as it did; the matrix would append it.
        let own = if said { shown.errors.get(1..).unwrap_or_default() } else { &shown.errors };
        self.put_errors(shown, own);
        let earlier = self.document.phases[phase].errors.take();
        let at = error.timestamp;
        self.document =
            change::fail_with(&self.document, phase, error, at).expect("BUG: phases fail in their order");
        self.document.phases[phase].errors.get_or_insert_default().extend(earlier.into_iter().flatten());
    }

    fn wait(&mut self, phase: Phase) {
        if phase != Phase::Plan {
            return;
        }
        let says = match self.facts.status.map(|said| said.standing) {
            None => "it does not say how far it came",
            Some(Standing::Working) => "it says that it has begun, and `plan` that it has not",
            Some(Standing::Pending | Standing::Done | Standing::Failed | Standing::Cancelled) => return,
        };
        let note = Note::new(NoteKind::Guessed, format!("{says}; it is entered as initialized"));
        self.notes.push(note.at("/metadata/status"));
    }

    /// After the last phase: what the reviewer added, and the end of the cycle if it came to that.
    fn close(&mut self) {
        self.document.cycle_summary.clone_from(&self.facts.summary);
        self.document.insights.clone_from(&self.facts.insights);
        if self.facts.status.is_none() {
            let message = "all four phases have an output; it is entered as completed";
            self.notes.push(Note::new(NoteKind::Guessed, message).at("/metadata/status"));
        } else if !self.facts.is_over() {
            return;
        }
        let facts = self.facts;
        let at = facts.ended.or(facts.updated).unwrap_or(self.document.metadata.updated_at);
        self.document =
            change::complete_cycle(&self.document, at).expect("BUG: all four phases are completed");
    }

    /// What a phase has produced that is not completed: anything.
    fn put_output(&mut self, shown: &PhaseFacts) {
        if let Some(found) = &shown.found {
            self.document.phases[shown.phase].output = Some(found.clone());
        }
    }

    fn put_errors(&mut self, shown: &PhaseFacts, errors: &[Value]) {
        if !errors.is_empty() {
            let at = shown.completed.or(shown.started).unwrap_or(self.document.metadata.updated_at);
            let errors = errors.iter().map(|error| self.error(error, "error", at)).collect();
            self.document.phases[shown.phase].errors = Some(errors);
        }
    }

    /// An error as text or as an object; what else the object says is kept with it.
    fn error(&self, error: &Value, kind: &str, at: Second) -> PhaseError {
        let mut fields = error.as_object().cloned().unwrap_or_default();
        let among = |fields: &Map<String, Value>, names: &[&str]| {
            names.iter().find_map(|name| fields.get(*name).and_then(text))
        };
        let message = error.as_str().map(str::to_owned);
        let message =
            message.or_else(|| among(&fields, &["message", "error_message", "error", "reason", "details"]));
        let own_kind = if kind == "cancelled" { None } else { among(&fields, &["kind", "type", "code"]) };
        let times = ["timestamp", "failed_at", "at"];
        let timestamp = times.iter().find_map(|name| fields.get(*name).and_then(time)).unwrap_or(at);
        fields.retain(|name, _| !matches!(name.as_str(), "kind" | "message" | "timestamp"));
        PhaseError {
            kind: own_kind.unwrap_or_else(|| kind.to_owned()),
            message: message.unwrap_or_else(|| error.to_string()),
            timestamp: timestamp.min(self.at),
            unknown: fields,
        }
    }
}
