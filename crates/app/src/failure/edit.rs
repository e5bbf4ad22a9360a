//! Errors of document edits. The `kind` in the JSON is the original's word for the error, where it has one.

use protocol::edit::EditRefusal;
use runner::{EditError, SequenceConflict};
use store::CommitError;

use super::{Code, Exit, Failure};

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Refused(refused) => refused.into(),
            EditError::Conflict(conflict) => sequence_conflict(*conflict),
            EditError::AttemptNotLive { ref attempt, .. } => {
                let attempt = attempt.to_string();
                Self::from_error(Exit::Refused, &error)
                    .code(Code::NotPermitted)
                    .detail("kind", "not_yours")
                    .detail("attempt", attempt)
            }
            EditError::Load(error) => error.into(),
            EditError::Commit(CommitError::TooLarge { size, limit }) => {
                Self::from_error(Exit::Refused, &CommitError::TooLarge { size, limit })
                    .hint("write the large value to a file and store its path; nothing was written")
                    .detail("kind", "state_too_large")
                    .detail("size", size)
                    .detail("limit", limit)
            }
            EditError::Commit(error) => error.into(),
        }
    }
}

impl From<EditRefusal> for Failure {
    fn from(error: EditRefusal) -> Self {
        let failure = Self::from_error(Exit::Refused, &error).detail("kind", error.kind());
        let failure = match error.violations() {
            [] => failure,
            violations => failure.detail("violations", serde_json::json!(violations)),
        };
        match &error {
            EditRefusal::DocumentNotEditable => failure
                .code(Code::NotPermitted)
                .hint("report the result of an attempt with `callboard report`"),
            EditRefusal::NotYours { pointer, .. } => {
                failure.code(Code::NotPermitted).detail("pointer", pointer.as_str())
            }
            EditRefusal::InvalidTransition { .. } => failure.code(Code::NotPermitted),
            EditRefusal::Violations(violations) => {
                let repairs = violations.iter().map(|it| format!("`{}`: {}", it.pointer, it.repair));
                repairs.fold(failure.code(Code::BreaksRules), Failure::hint)
            }
            EditRefusal::Conflict { .. } => failure.code(Code::SequenceConflict),
            EditRefusal::Patch(_) => failure,
        }
    }
}

fn sequence_conflict(conflict: SequenceConflict) -> Failure {
    let mut failure = Failure::new(Exit::Refused, &conflict);
    if let Some(last) = &conflict.last {
        let word = |name: &str| last[name].as_str().map(|word| format!("{word} "));
        let words = [word("phase"), word("event")].into_iter().flatten().collect::<String>();
        let by = last["by"].as_str().map(|by| format!("by {by} ")).unwrap_or_default();
        let at = last["timestamp"].as_str().unwrap_or_default();
        failure.causes.push(format!("the last change is {}: {words}{by}at {at}", last["sequence"]));
    }
    let SequenceConflict { expected, found, expected_revision, found_revision, tries, why, last } = conflict;
    failure
        .code(Code::SequenceConflict)
        .hint(
            "read the document again (`callboard state get KEY --json`) and repeat the change with its new `sequence`",
        )
        .detail("kind", "sequence_conflict")
        .detail("expected", expected)
        .detail("found", found)
        .detail("expected_revision", expected_revision.map(|revision| revision.0))
        .detail("found_revision", found_revision.0)
        .detail("attempts", tries)
        .detail("why", why)
        .detail("last", last)
}
