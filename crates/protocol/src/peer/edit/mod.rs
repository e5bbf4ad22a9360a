//! Edits of a cycle's document: what agents and people may change in it themselves, and what happens if others were faster.
//!
//! Whoever is at work in a phase may change what that phase has produced so far and add to its errors; whoever is no part
//! of the run may do the same, and change fields that the seed does not know. All else is the engine's.

mod external;
mod sections;

use std::collections::BTreeSet;

use serde_json::Value;

use super::change::{self, Foreign};
use super::document::Position;
use super::document::progress::{lean, with_history};
use super::document::{Document, Event, HistoryEntry, Phase, Second};
use super::transition::{Refusal, check_write};
use crate::check::Violation;
use crate::edit::{EditAuthor, Patch, Uneditable};
pub(super) use external::external_edit;
use sections::{Owner, Place, differing};

/// What a write may not touch has no rule of its own in the seed's lists: it follows from the matrix.
const MATRIX: &str = "matrix";

/// Turns a patch into the operations that lead from the document as it is now to the one its author wants. `based_on` is
/// the document that the author had read; `None` if all is already as the patch wants it.
///
/// If others have written since: what they have already done is done; what they have not touched can still be changed; what
/// they have touched as well is a conflict, and so is a patch that no longer fits.
pub(super) fn edit(
    based_on: &Document,
    current: &Document,
    author: &EditAuthor<Phase>,
    patch: &Patch,
) -> Result<Option<json_patch::Patch>, Uneditable> {
    let as_it_was = tried_on(based_on, patch);
    let as_it_is = tried_on(current, patch);
    let now = Trial::of(&as_it_is, author, patch);
    if based_on == current {
        return Ok(now?.map(Trial::operations));
    }
    if matches!(now, Ok(None)) {
        return Ok(None);
    }
    // What would have been refused then is refused for the same reason now: nobody else is to blame.
    let then = Trial::of(&as_it_was, author, patch)?;
    // Both, for the same patch can touch more of one document than of the other.
    let ours: BTreeSet<String> = then.iter().chain(now.iter().flatten()).flat_map(Trial::sections).collect();
    let theirs = differing(&as_it_was.to_value(), &as_it_is.to_value());
    let sources = patch.sources();
    let copied = sources.iter().find(|source| theirs.iter().any(|place| place.overlaps(source)));
    let both = theirs.iter().map(Place::section).find(|section| ours.contains(section));
    if let Some(both) = copied.cloned().or(both) {
        return Err(Uneditable::Conflict { why: format!("`{both}` has been changed since") });
    }
    match now {
        Ok(trial) => Ok(trial.map(Trial::operations)),
        Err(gone) => {
            Err(Uneditable::Conflict { why: format!("it does not apply any more: {}", spelt_out(&gone)) })
        }
    }
}

/// What of a document the patch has to be tried on.
fn tried_on(document: &Document, patch: &Patch) -> Document {
    if patch.reaches("history") { document.clone() } else { lean(document) }
}

/// Writes an edit into the document, under the name of whoever made it. `None` for an edit of a damaged journal: it does
/// not fit the document, or changes what no edit may.
pub(super) fn apply(
    document: &Document,
    edit: &json_patch::Patch,
    by: String,
    at: Second,
) -> Option<Document> {
    let mut edited = read_with(document, edit)?;
    let mut new = match document.position() {
        Position::Working(phase) if has_moved(&document.phases[phase], &edited.phases[phase]) => {
            let (output, errors) = (edited.phases[phase].output.clone(), edited.phases[phase].errors.clone());
            let mut new = change::touch(document, phase, output, errors, at).ok()?;
            Foreign::of(&edited).put(&mut new);
            new
        }
        Position::Working(_)
        | Position::Initialized
        | Position::Resting(_)
        | Position::Completed
        | Position::Failed(_) => change::set_foreign(document, Foreign::of(&edited), at),
    };
    new.history.last_mut()?.unknown.insert("by".to_owned(), by.into());
    edited.sequence = new.sequence;
    edited.metadata.updated_at = new.metadata.updated_at;
    let history = std::mem::take(&mut new.history);
    let fits = edited == new;
    new.history = history;
    fits.then_some(new)
}

/// The document after these operations, without its history.
fn read_with(document: &Document, edit: &json_patch::Patch) -> Option<Document> {
    let mut edited = with_history(document, Vec::new()).to_value();
    json_patch::patch_unsafe(&mut edited, edit).ok()?;
    serde_json::from_value(edited).ok()
}

fn has_moved(before: &super::PhaseDocument, after: &super::PhaseDocument) -> bool {
    before.output != after.output || before.errors != after.errors
}

/// A patch tried on a document: allowed, and with a result that keeps the rules.
struct Trial {
    old: Value,
    new: Value,
    places: Vec<Place>,
}

impl Trial {
    /// `None` if it changes nothing.
    fn of(
        document: &Document,
        author: &EditAuthor<Phase>,
        patch: &Patch,
    ) -> Result<Option<Self>, Uneditable> {
        let old = document.to_value();
        let working = match document.position() {
            Position::Working(phase) => Some(phase),
            Position::Initialized | Position::Resting(_) | Position::Completed | Position::Failed(_) => None,
        };
        let new = match patch.apply(&old) {
            Ok(new) => new,
            Err(unfit) => {
                // That it may not write there says more than that there is nothing.
                let place = unfit.pointer().map(Place::of);
                refuse_the_engines(document, working, place.as_slice())?;
                return Err(unfit.into());
            }
        };
        let places = differing(&old, &new);
        if places.is_empty() {
            return Ok(None);
        }
        refuse_the_engines(document, working, &places)?;
        refuse_others(author, &places)?;
        let progress = places.iter().any(|place| matches!(place.owner, Owner::Work(_)));
        check(document, new.clone(), working.filter(|_| progress))?;
        Ok(Some(Self { old, new, places }))
    }

    fn operations(self) -> json_patch::Patch {
        json_patch::diff(&self.old, &self.new)
    }

    fn sections(&self) -> impl Iterator<Item = String> {
        self.places.iter().map(Place::section)
    }
}

/// `invalid_transition`: what nobody but the engine may change, and phases that are not in progress.
fn refuse_the_engines(
    document: &Document,
    working: Option<Phase>,
    places: &[Place],
) -> Result<(), Uneditable> {
    let because: Vec<_> = places
        .iter()
        .filter_map(|place| {
            let (message, repair) = match place.owner {
                Owner::Work(phase) if working == Some(phase) => return None,
                Owner::Foreign(_) => return None,
                Owner::Work(phase) => (
                    format!("`{}` cannot be changed: `{phase}` is not in progress", place.pointer),
                    "leave it as it is".to_owned(),
                ),
                Owner::Engine(_) => (
                    format!("`{}` is the engine's to write", place.pointer),
                    "leave it as it is; the engine counts, stamps and moves on".to_owned(),
                ),
            };
            Some(Violation { rule: MATRIX, pointer: place.pointer.clone(), message, repair })
        })
        .collect();
    let Some(first) = because.first() else { return Ok(()) };
    let message = format!("cycle `{}` is at {}: {}", document.cycle_id, document.position(), first.message);
    Err(Uneditable::InvalidTransition { message, because })
}

/// What this hand may not write, though others may.
fn refuse_others(author: &EditAuthor<Phase>, places: &[Place]) -> Result<(), Uneditable> {
    let EditAuthor::Step(own) = author else { return Ok(()) };
    let not_yours = |place: &Place| match place.owner {
        Owner::Work(phase) => phase != *own,
        Owner::Foreign(_) | Owner::Engine(_) => true,
    };
    let Some(place) = places.iter().find(|place| not_yours(place)) else { return Ok(()) };
    let because = format!("from inside, the {} writes `output` and `errors` of `{own}`", own.step());
    Err(Uneditable::NotYours { pointer: place.pointer.clone(), because })
}

/// Holds the document as it would be written against all rules, and the step to it against the matrix.
fn check(document: &Document, mut new: Value, phase: Option<Phase>) -> Result<(), Uneditable> {
    let at = document.metadata.updated_at;
    let entry = HistoryEntry::new(at, phase, Event::Progress, document.sequence + 1);
    new["sequence"] = entry.sequence.into();
    if let Some(history) = new["history"].as_array_mut() {
        history.push(serde_json::to_value(&entry).expect("BUG: an entry is plain data"));
    }
    match check_write(Some(document), &new) {
        Ok(_) => Ok(()),
        Err(Refusal::Violations(violations)) => Err(Uneditable::Violations(violations)),
        Err(Refusal::Invalid(invalid)) => {
            Err(Uneditable::InvalidTransition { message: invalid.to_string(), because: invalid.because })
        }
    }
}

/// An error with what caused it, for a sentence.
fn spelt_out(error: &Uneditable) -> String {
    match error {
        Uneditable::Unpatchable(why) => why.to_string(),
        Uneditable::EngineOnly
        | Uneditable::NotYours { .. }
        | Uneditable::Violations(_)
        | Uneditable::InvalidTransition { .. }
        | Uneditable::Conflict { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
