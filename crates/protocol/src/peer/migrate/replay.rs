//! Replays a peer cycle of an earlier format. `read` has found what is in its keys; the functions of `change`, which make every
//! other write, build the document from it.
//!
//! Each completed phase starts and completes at its old times, until a phase is reached that did not complete. So every rule
//! holds, and the phases are in order. A phase without an output is a failure; nothing is filled in for it.

use serde_json::Value;

use super::migrated_status::{MigratedStatus, PhaseFailure, migrated_status};
use super::read::{OldCycle, text, time};
use super::result::{Note, NoteKind};
use super::status::OldStatus;
use crate::peer::change::{self, NewCycle};
use crate::peer::document::{Document, Mode, Phase, PhaseError, Unknown, WholeSecond};
use crate::peer::names::PeerCycleId;

/// Replays the cycle as far as it got. No time is later than `at`.
pub(super) fn replay(
    cycle: &PeerCycleId,
    old: &OldCycle,
    at: WholeSecond,
    notes: &mut Vec<Note>,
) -> Document {
    let document = open(cycle, old, at, notes);
    let mut replay = Replay { old, at, notes, document };
    for phase in Phase::ALL {
        match migrated_status(old, phase) {
            MigratedStatus::Completed => {
                replay.complete(phase);
                continue;
            }
            MigratedStatus::InProgress => {
                replay.start(phase);
                replay.set_errors(phase, &old.phase(phase).errors);
            }
            MigratedStatus::Pending if phase == Phase::Plan && old.status.is_none() => {
                replay.note(NoteKind::Assumed, "no key gives its status; it became initialized");
            }
            MigratedStatus::Pending => {}
            MigratedStatus::Failed(failure) => replay.fail(phase, failure),
        }
        return replay.document;
    }
    replay.complete_cycle();
    replay.document
}

fn open(cycle: &PeerCycleId, old: &OldCycle, at: WholeSecond, notes: &mut Vec<Note>) -> Document {
    if old.created.is_none() {
        let instead = if old.earliest().is_some() { "its earliest time" } else { "the current time" };
        let message = format!("no key says when it was created; {instead} was used");
        notes.push(Note::new(NoteKind::Assumed, message));
    }
    let new = NewCycle {
        cycle: cycle.clone(),
        instruction: old.instruction.clone().unwrap_or_else(|| {
            notes.push(Note::new(NoteKind::Assumed, "no key names its instruction; it became `unknown`"));
            "unknown".to_owned()
        }),
        mode: old.mode.unwrap_or(Mode::New),
        instruction_args: old.arguments.clone().unwrap_or_default(),
        user_requirements: old.requirements.clone().unwrap_or_default(),
        continues: None,
    };
    change::initialise(new, old.created.or(old.earliest()).unwrap_or(at))
}

struct Replay<'a> {
    old: &'a OldCycle,
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
        let old_phase = self.old.phase(phase);
        let at = old_phase.started.unwrap_or(self.document.metadata.updated_at);
        self.document =
            change::start(&self.document, phase, at).expect("BUG: phases are replayed out of order");
        if old_phase.output.is_some() {
            self.document.phases[phase].output.clone_from(&old_phase.output);
        }
    }

    fn complete(&mut self, phase: Phase) {
        let old_phase = self.old.phase(phase);
        let reshaped = old_phase.reshaped(phase).expect("BUG: a completed phase has no output");
        for change in reshaped.changes {
            self.note(NoteKind::Converted, format!("output of `{phase}`: {change}"));
        }
        self.start(phase);
        self.set_errors(phase, &old_phase.errors);
        let at = old_phase.completed.unwrap_or(self.document.metadata.updated_at);
        self.document = change::complete(&self.document, phase, reshaped.output, at)
            .expect("BUG: a reshaped output is invalid");
    }

    fn fail(&mut self, phase: Phase, failure: PhaseFailure) {
        let PhaseFailure { kind, message, error, stated } = failure;
        let old_phase = self.old.phase(phase);
        let has_started = old_phase.started.is_some()
            || old_phase.output.is_some()
            || matches!(old_phase.status, Some(OldStatus::InProgress | OldStatus::Completed));
        if has_started {
            self.start(phase);
        }
        let old = self.old;
        let at = old_phase.completed.or(old.ended).or(old.updated);
        let at = at.unwrap_or(self.document.metadata.updated_at);
        let error = match error {
            Some(error) => self.convert_error(&error, kind, at),
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
        let earlier = old_phase.errors.len().saturating_sub(usize::from(stated));
        self.set_errors(phase, &old_phase.errors[..earlier]);
        let at = error.timestamp;
        self.document = change::fail_with(&self.document, phase, error, at)
            .expect("BUG: phases are replayed out of order");
    }

    /// Adds what the review left at the root, and completes the cycle if its status says so or is missing.
    fn complete_cycle(&mut self) {
        let old = self.old;
        self.document.cycle_summary.clone_from(&old.summary);
        self.document.insights.clone_from(&old.insights);
        if old.status.is_none() {
            self.note(
                NoteKind::Assumed,
                "no key gives its status; all phases have an output, so it became completed",
            );
        } else if !old.is_completed() {
            return;
        }
        let at = old.ended.or(old.updated).unwrap_or(self.document.metadata.updated_at);
        self.document = change::complete_cycle(&self.document, at).expect("BUG: a phase is not completed");
    }

    fn set_errors(&mut self, phase: Phase, errors: &[Value]) {
        let old_phase = self.old.phase(phase);
        if !errors.is_empty() {
            let at = old_phase.completed.or(old_phase.started).unwrap_or(self.document.metadata.updated_at);
            let errors = errors.iter().map(|error| self.convert_error(error, "error", at)).collect();
            self.document.phases[phase].errors = Some(errors);
        }
    }

    /// Converts an error: a text, or an object whose other fields are kept.
    fn convert_error(&self, error: &Value, kind: &str, at: WholeSecond) -> PhaseError {
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
