//! Edits by other clients of the store. A client writes the whole document as the format requires, with the next
//! sequence, the time and a history entry; or it changes single fields only.

use serde_json::Value;

use super::edit;
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::peer::document::Document;
use crate::peer::transition::{TRANSITION_RULE, Transition, check_write};

/// Turns `found`, the document as a client wrote it, into an edit of the current one. `shown` is what the client could
/// read. The sequence, the time and the history are the engine's: a client may write them as the format requires, and the
/// edit does not contain them. The edit is empty if the client changed nothing else.
pub(in crate::peer) fn external_edit(
    current: &Document,
    shown: &Value,
    found: &Value,
) -> Result<json_patch::Patch, EditRefusal> {
    let old = current.to_value();
    // `shown` has references to blobs in place of large values. The difference has them only if the client changed
    // them.
    let mut wanted = Patch::Operations(json_patch::diff(shown, found)).apply(&old)?;
    if wanted["sequence"].as_u64() == Some(current.sequence + 1) {
        refuse_transitions(current, &wanted)?;
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

/// Refuses a whole write (one with the next sequence) that is not valid, or that changes the status of a phase or of the
/// cycle: only the engine does that.
fn refuse_transitions(current: &Document, wanted: &Value) -> Result<(), EditRefusal> {
    match check_write(Some(current), wanted) {
        Ok((Transition::Progress { .. } | Transition::UnknownFields | Transition::Unchanged, _)) => Ok(()),
        Ok((transition, _)) => {
            let message = format!("only the engine writes `{transition}`");
            let repair = "leave it to the engine".to_owned();
            let because = vec![Violation { rule: TRANSITION_RULE, pointer: String::new(), message, repair }];
            let message = format!(
                "cycle `{}` is at {}: {}",
                current.cycle_id,
                current.status_with_phase(),
                because[0].message
            );
            Err(EditRefusal::InvalidTransition { message, violations: because })
        }
        Err(refusal) => Err(refusal.into()),
    }
}

#[cfg(test)]
mod tests;
