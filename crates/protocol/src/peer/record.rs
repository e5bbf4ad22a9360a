//! Entry → document: which write of the seed's matrix an entry makes, if it makes one.
//!
//! An entry makes at most one: `sequence` grows by one, or the entry is the engine's own affair and leaves the document
//! alone. Everything is done by [`change`], whose results keep the rules.

use serde_json::Value;

use super::change::{self, ChangeError, Closing, Fault};
use super::decide::Change as ProtocolChange;
use super::definition::Definition;
use super::document::Position;
use super::document::parts;
use super::document::{Document, Second};
use super::edit;
use super::{Peer, output};
use crate::entry::{Author, Entry, Evidence, FailureKind, Input, RecoverySource};
use crate::rules::Unrecordable;
use crate::run::{Change, Exit};

/// Writes the entry into the document; answers the parts that changed.
pub(super) fn record(
    definition: &Definition,
    document: &mut Document,
    entry: &Entry<Peer>,
) -> Result<Vec<String>, Unrecordable> {
    let Some(written) = written(definition, document, entry) else { return Ok(Vec::new()) };
    let new = written.map_err(|error| Unrecordable(error.to_string()))?;
    let old = std::mem::replace(document, new);
    // After these, nothing that a store may hold of an earlier document is to be relied on.
    let whole = matches!(entry.input, Input::Opened { .. } | Input::Recovered { .. });
    Ok(if whole { parts::all(document) } else { parts::changed(&old, document) })
}

fn written(
    definition: &Definition,
    document: &Document,
    entry: &Entry<Peer>,
) -> Option<Result<Document, ChangeError>> {
    let at = Second::from(entry.at);
    match &entry.input {
        Input::Opened { .. } => return Some(Ok(change::initialise(definition.opening(), at))),
        Input::Edited { edit, from } => {
            let by = from.as_ref().map_or_else(|| who(&entry.by), ToString::to_string);
            return edit::apply(document, edit, by, at).map(Ok);
        }
        Input::Recovered {
            source:
                RecoverySource::View { document: found, .. } | RecoverySource::Migrated { document: found, .. },
        } => {
            return serde_json::from_value(found.clone()).ok().map(Ok);
        }
        // Numbers that were lost are never given again.
        Input::Recovered { source: RecoverySource::Journal { gap: Some((last, newest)), .. } } => {
            let highest = document.sequence + newest.0.saturating_sub(last.0);
            return Some(Ok(change::recover(document, highest, last.0, newest.0, at)));
        }
        Input::Recovered {
            source:
                RecoverySource::Document { document: found, restored_from, broken_at, highest_sequence, .. },
        } => {
            let found: Document = serde_json::from_value(found.clone()).ok()?;
            return Some(Ok(change::recover(&found, *highest_sequence, restored_from.0, broken_at.0, at)));
        }
        Input::Recovered {
            source: RecoverySource::Journal { gap: None, .. } | RecoverySource::Archive { .. },
        }
        | Input::Fact { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Deferred => {}
    }
    let evidence = entry.input.evidence();
    entry.changes.iter().find_map(|change| match change {
        Change::Protocol { transition } => record_transition(definition, document, *transition, entry, at),
        // A phase in which somebody was still at work may have been put back: then there is nothing to write it to.
        Change::Ended { attempt, exit: Exit::WillRetry { .. } }
            if document.position() == Position::Working(attempt.step) =>
        {
            Some(change::fail_attempt(document, attempt.step, fault(evidence), at))
        }
        Change::Started { attempt, .. } if document.position().startable() == Some(attempt.step) => {
            Some(change::start(document, attempt.step, at))
        }
        Change::Ended { .. }
        | Change::Started { .. }
        | Change::Status { .. }
        | Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::StopRequested { .. }
        | Change::Dequeued { .. } => None,
    })
}

fn record_transition(
    definition: &Definition,
    document: &Document,
    transition: ProtocolChange,
    entry: &Entry<Peer>,
    at: Second,
) -> Option<Result<Document, ChangeError>> {
    let evidence = entry.input.evidence();
    Some(match transition {
        ProtocolChange::Asked(_) | ProtocolChange::Stands(_) => return None,
        ProtocolChange::Entered(phase) => {
            change::start_as(document, phase, document.context.continues.clone(), at)
        }
        ProtocolChange::Completed(phase) => {
            let output = definition.reused(phase).cloned().unwrap_or_else(|| said(evidence, "output"));
            change::complete(document, phase, output, at)
        }
        ProtocolChange::Reviewed { .. } => {
            let also = |field| Some(said(evidence, field)).filter(|value| !value.is_null());
            let closing =
                Closing { cycle_summary: also(output::CYCLE_SUMMARY), insights: also(output::INSIGHTS) };
            change::complete_review(document, said(evidence, output::OUTPUT), closing, at)
        }
        ProtocolChange::Closed => change::complete_cycle(document, at),
        ProtocolChange::Failed(phase) => change::fail(document, phase, why(entry), at),
    })
}

/// A field of the report beyond those that every report has.
fn said(evidence: Option<&Evidence>, field: &str) -> Value {
    let report = evidence.and_then(|evidence| evidence.report.as_ref());
    report.and_then(|report| report.others.get(field)).cloned().unwrap_or_default()
}

fn fault(evidence: Option<&Evidence>) -> Fault {
    let kind = evidence.and_then(|evidence| evidence.kind).unwrap_or(FailureKind::Interrupted);
    let message = evidence.and_then(|evidence| evidence.error.clone());
    let message = message.unwrap_or_else(|| "The attempt was interrupted too often".to_owned());
    Fault { kind: kind.as_str().to_owned(), message }
}

/// Why the cycle fails: somebody stopped it, or the last attempt failed.
fn why(entry: &Entry<Peer>) -> Fault {
    match &entry.input {
        Input::Request { reason, .. } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let kind = FailureKind::Cancelled.as_str().to_owned();
            Fault { kind, message: format!("Stopped by {}{reason}", who(&entry.by)) }
        }
        Input::Opened { .. }
        | Input::Fact { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => fault(entry.input.evidence()),
    }
}

fn who(author: &Author) -> String {
    match author {
        Author::Engine { .. } => "the engine".to_owned(),
        Author::Person { name, .. } => name.clone(),
        Author::Client { bucket, .. } => format!("another client of the bucket `{bucket}`"),
    }
}
