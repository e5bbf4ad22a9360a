//! Edits by other clients of the store, who write the whole document as the seed tells them to: with the next number, the time
//! and an entry of the history; or who change only what they are about.

use serde_json::Value;

use super::{MATRIX, edit};
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::peer::document::Document;
use crate::peer::transition::{Refusal, Transition, check_write};

/// Turns what a client made of the document, as it could read it, into an edit of the document as it is. What every write
/// does is ours to do: it may be there, if it is right, and is not taken over. An edit without operations is a write that
/// only counts.
pub(in crate::peer) fn external_edit(
    current: &Document,
    shown: &Value,
    found: &Value,
) -> Result<json_patch::Patch, EditRefusal> {
    let old = current.to_value();
    // What stood there as a blob is not in the difference, unless it was changed.
    let mut wanted = Patch::Operations(json_patch::diff(shown, found)).apply(&old)?;
    if wanted["sequence"].as_u64() == Some(current.sequence + 1) {
        refuse_steps(current, &wanted)?;
        for field in ["sequence", "history"] {
            wanted[field].clone_from(&old[field]);
        }
    }
    if let Some(updated_at) = wanted.pointer_mut("/metadata/updated_at") {
        updated_at.clone_from(&old["metadata"]["updated_at"]);
    }
    let patch = Patch::Operations(json_patch::diff(&old, &wanted));
    Ok(edit(current, current, &EditAuthor::Outside, &patch)?.unwrap_or_default())
}

/// A whole write must be one of the seed's, and one that anybody may make: the steps from phase to phase are the engine's.
fn refuse_steps(current: &Document, wanted: &Value) -> Result<(), EditRefusal> {
    match check_write(Some(current), wanted) {
        Ok((Transition::Progress { .. } | Transition::Foreign | Transition::Unchanged, _)) => Ok(()),
        Ok((step, _)) => {
            let message = format!("`{step}` is the engine's to write");
            let repair = "leave it to the engine".to_owned();
            let because = vec![Violation { rule: MATRIX, pointer: String::new(), message, repair }];
            let message =
                format!("cycle `{}` is at {}: {}", current.cycle_id, current.position(), because[0].message);
            Err(EditRefusal::InvalidTransition { message, because })
        }
        Err(Refusal::Violations(violations)) => Err(EditRefusal::Violations(violations)),
        Err(Refusal::Invalid(invalid)) => {
            Err(EditRefusal::InvalidTransition { message: invalid.to_string(), because: invalid.because })
        }
    }
}

#[cfg(test)]
mod tests;
