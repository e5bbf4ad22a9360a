//! Edits of a cycle's document by agents and other clients, and how concurrent edits are merged.
//!
//! The agent of the phase in progress may change the output of the phase and add to its errors. A client outside the run may do
//! the same, and may change unknown fields. Only the engine writes the rest.

mod changed_field;
mod external;

use std::collections::BTreeSet;

use serde_json::Value;

use super::change::{self, UnknownFields};
use super::document::progress_entries::{with_history, without_progress};
use super::document::{Document, Event, HistoryEntry, Phase, PhaseDocument, StatusWithPhase, WholeSecond};
use super::transition::{TRANSITION_RULE, WriteRefusal, check_write};
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use changed_field::{ChangedField, Owner, changed_fields};
pub(super) use external::external_edit;

/// Turns a patch into the operations that lead from the current document to the one that the author wants. `based_on` is the
/// document that the author read. Returns `None` if the document already is as the patch wants it.
///
/// If other writes came in between, a patch of other sections still applies. A section is a whole phase, or a single
/// field outside the phases. A patch of the same section is a conflict, and so is one that can no longer be applied.
pub(super) fn edit(
    based_on: &Document,
    current: &Document,
    author: &EditAuthor<Phase>,
    patch: &Patch,
) -> Result<Option<json_patch::Patch>, EditRefusal> {
    let based_on_short = shortened_for(based_on, patch);
    let current_short = shortened_for(current, patch);
    let applied_to_current = AppliedPatch::new(&current_short, author, patch);
    if based_on == current {
        return Ok(applied_to_current?.map(AppliedPatch::operations));
    }
    if matches!(applied_to_current, Ok(None)) {
        return Ok(None);
    }
    // A patch that was invalid from the start is no conflict.
    let applied_to_based_on = AppliedPatch::new(&based_on_short, author, patch)?;
    // The same patch can touch more of one document than of the other.
    let patched_sections: BTreeSet<String> = applied_to_based_on
        .iter()
        .chain(applied_to_current.iter().flatten())
        .flat_map(AppliedPatch::sections)
        .collect();
    let changed_since = changed_fields(&based_on_short.to_value(), &current_short.to_value());
    let sources = patch.sources();
    let copied = sources.iter().find(|source| changed_since.iter().any(|field| field.overlaps(source)));
    let conflicting =
        changed_since.iter().map(ChangedField::section).find(|section| patched_sections.contains(section));
    if let Some(conflicting) = copied.cloned().or(conflicting) {
        return Err(EditRefusal::Conflict { why: format!("`{conflicting}` has been changed since") });
    }
    match applied_to_current {
        Ok(applied) => Ok(applied.map(AppliedPatch::operations)),
        Err(error) => Err(EditRefusal::Conflict {
            why: format!("it can no longer be applied: {}", cause_message(&error)),
        }),
    }
}

/// Returns the document without its many progress entries (writes that changed no status), unless the patch refers to the
/// history.
fn shortened_for(document: &Document, patch: &Patch) -> Document {
    if patch.reaches("history") { document.clone() } else { without_progress(document) }
}

/// Applies a committed edit to the document, under the name of its author. `None` if the edit cannot be applied, or changes a
/// field that no edit may change: then the journal is damaged.
pub(super) fn apply(
    document: &Document,
    edit: &json_patch::Patch,
    by: String,
    at: WholeSecond,
) -> Option<Document> {
    let mut edited = patched(document, edit)?;
    let mut new = match document.status_with_phase() {
        StatusWithPhase::InProgress(phase)
            if has_progressed(&document.phases[phase], &edited.phases[phase]) =>
        {
            let (output, errors) = (edited.phases[phase].output.clone(), edited.phases[phase].errors.clone());
            let mut new = change::update_phase(document, phase, output, errors, at).ok()?;
            UnknownFields::of(&edited).put(&mut new);
            new
        }
        StatusWithPhase::InProgress(_)
        | StatusWithPhase::Initialized
        | StatusWithPhase::PhaseCompleted(_)
        | StatusWithPhase::Completed
        | StatusWithPhase::Failed(_) => change::set_unknown_fields(document, UnknownFields::of(&edited), at),
    };
    new.history.last_mut()?.unknown.insert("by".to_owned(), by.into());
    edited.sequence = new.sequence;
    edited.metadata.updated_at = new.metadata.updated_at;
    let history = std::mem::take(&mut new.history);
    let is_allowed = edited == new;
    new.history = history;
    is_allowed.then_some(new)
}

/// The document after these operations, without its history.
fn patched(document: &Document, edit: &json_patch::Patch) -> Option<Document> {
    let mut edited = with_history(document, Vec::new()).to_value();
    json_patch::patch_unsafe(&mut edited, edit).ok()?;
    serde_json::from_value(edited).ok()
}

fn has_progressed(before: &PhaseDocument, after: &PhaseDocument) -> bool {
    before.output != after.output || before.errors != after.errors
}

/// A patch that was applied to a document: its author may make it, and the result keeps the rules.
struct AppliedPatch {
    old: Value,
    new: Value,
    fields: Vec<ChangedField>,
}

impl AppliedPatch {
    /// Applies a patch. Returns `None` if it changes nothing.
    fn new(
        document: &Document,
        author: &EditAuthor<Phase>,
        patch: &Patch,
    ) -> Result<Option<Self>, EditRefusal> {
        let old = document.to_value();
        let in_progress = match document.status_with_phase() {
            StatusWithPhase::InProgress(phase) => Some(phase),
            StatusWithPhase::Initialized
            | StatusWithPhase::PhaseCompleted(_)
            | StatusWithPhase::Completed
            | StatusWithPhase::Failed(_) => None,
        };
        let new = match patch.apply(&old) {
            Ok(new) => new,
            Err(error) => {
                // If only the engine may write at that place, say so: it is the better reason.
                let field = error.pointer().map(ChangedField::at);
                refuse_engine_fields(document, in_progress, field.as_slice())?;
                return Err(error.into());
            }
        };
        let fields = changed_fields(&old, &new);
        if fields.is_empty() {
            return Ok(None);
        }
        refuse_engine_fields(document, in_progress, &fields)?;
        refuse_fields_of_others(author, &fields)?;
        let is_progress = fields.iter().any(|field| matches!(field.owner, Owner::Agent(_)));
        check(document, new.clone(), in_progress.filter(|_| is_progress))?;
        Ok(Some(Self { old, new, fields }))
    }

    fn operations(self) -> json_patch::Patch {
        json_patch::diff(&self.old, &self.new)
    }

    fn sections(&self) -> impl Iterator<Item = String> {
        self.fields.iter().map(ChangedField::section)
    }
}

/// Refuses fields that only the engine writes, and phases that are not in progress. The error is `invalid_transition`.
fn refuse_engine_fields(
    document: &Document,
    in_progress: Option<Phase>,
    fields: &[ChangedField],
) -> Result<(), EditRefusal> {
    let because: Vec<_> = fields
        .iter()
        .filter_map(|field| {
            let (message, repair) = match field.owner {
                Owner::Agent(phase) if in_progress == Some(phase) => return None,
                Owner::Anyone(_) => return None,
                Owner::Agent(phase) => (
                    format!("`{}` cannot be changed: `{phase}` is not in progress", field.pointer),
                    "leave it as it is".to_owned(),
                ),
                Owner::Engine(_) => {
                    (format!("only the engine writes `{}`", field.pointer), "leave it as it is".to_owned())
                }
            };
            Some(Violation { rule: TRANSITION_RULE, pointer: field.pointer.clone(), message, repair })
        })
        .collect();
    let Some(first) = because.first() else { return Ok(()) };
    let message =
        format!("cycle `{}` is at {}: {}", document.cycle_id, document.status_with_phase(), first.message);
    Err(EditRefusal::InvalidTransition { message, violations: because })
}

/// Refuses, for an agent, every field that is not its own.
fn refuse_fields_of_others(author: &EditAuthor<Phase>, fields: &[ChangedField]) -> Result<(), EditRefusal> {
    let EditAuthor::Step(own) = author else { return Ok(()) };
    let is_not_own = |field: &&ChangedField| match field.owner {
        Owner::Agent(phase) => phase != *own,
        Owner::Anyone(_) | Owner::Engine(_) => true,
    };
    let Some(field) = fields.iter().find(is_not_own) else { return Ok(()) };
    let because = format!("the {} may write only `output` and `errors` of `{own}`", own.agent());
    Err(EditRefusal::NotYours { pointer: field.pointer.clone(), because })
}

/// Checks the document as it would be written, and the transition to it.
fn check(document: &Document, mut new: Value, phase: Option<Phase>) -> Result<(), EditRefusal> {
    let at = document.metadata.updated_at;
    let entry = HistoryEntry::new(at, phase, Event::Progress, document.sequence + 1);
    new["sequence"] = entry.sequence.into();
    if let Some(history) = new["history"].as_array_mut() {
        history.push(serde_json::to_value(&entry).expect("BUG: an entry cannot be serialized"));
    }
    check_write(Some(document), &new)?;
    Ok(())
}

impl From<WriteRefusal> for EditRefusal {
    fn from(refusal: WriteRefusal) -> Self {
        match refusal {
            WriteRefusal::Violations(violations) => Self::Violations(violations),
            WriteRefusal::Invalid(invalid) => {
                Self::InvalidTransition { message: invalid.to_string(), violations: invalid.violations }
            }
        }
    }
}

/// The message of a failed patch's cause; of any other refusal, its own message.
fn cause_message(error: &EditRefusal) -> String {
    match error {
        EditRefusal::Patch(why) => why.to_string(),
        EditRefusal::DocumentNotEditable
        | EditRefusal::NotYours { .. }
        | EditRefusal::Violations(_)
        | EditRefusal::InvalidTransition { .. }
        | EditRefusal::Conflict { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
