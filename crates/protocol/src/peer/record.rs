//! Records an entry in the document.
//!
//! An entry makes at most one write of the transition matrix, the table "Transitions" in `docs/peer.md`. Other entries
//! concern only the engine and leave the document unchanged. [`change`] makes the writes, so the result keeps the
//! rules of the format.

use serde_json::Value;

use super::change::{self, ChangeError, ErrorDetail, ReviewFields};
use super::decide::Change as ProtocolChange;
use super::definition::Definition;
use super::document::StatusWithPhase;
use super::document::parts;
use super::document::{Document, Phase, WholeSecond};
use super::edit;
use super::{Peer, output};
use crate::entry::{Author, Entry, Evidence, FailureKind, Input, RecoverySource};
use crate::protocol_trait::RecordError;
use crate::run::{AttemptConsequence, Change};

/// Records the entry in the document. Returns the parts that changed.
pub(super) fn record(
    definition: &Definition,
    document: &mut Document,
    entry: &Entry<Peer>,
) -> Result<Vec<String>, RecordError> {
    let Some(written) = write(definition, document, entry) else { return Ok(Vec::new()) };
    let new = written.map_err(|error| RecordError(error.to_string()))?;
    let old = std::mem::replace(document, new);
    // The store may have parts of an earlier document, so every part of a new or recovered one is written.
    let is_whole = matches!(entry.input, Input::Opened { .. } | Input::Recovered { .. });
    Ok(if is_whole { parts::all(document) } else { parts::changed(&old, document) })
}

/// Returns the document after the entry; `None` if the entry does not write.
fn write(
    definition: &Definition,
    document: &Document,
    entry: &Entry<Peer>,
) -> Option<Result<Document, ChangeError>> {
    let at = WholeSecond::from(entry.at);
    match &entry.input {
        Input::Opened { .. } => return Some(Ok(change::initialise(definition.new_cycle(), at))),
        Input::Edited { edit, from } => {
            let by = from.as_ref().map_or_else(|| author_name(&entry.by), ToString::to_string);
            return edit::apply(document, edit, by, at).map(Ok);
        }
        Input::Recovered {
            source:
                RecoverySource::View { document: found, .. } | RecoverySource::Migrated { document: found, .. },
        } => {
            return serde_json::from_value(found.clone()).ok().map(Ok);
        }
        // A client may have read a document whose entry is lost. Each lost entry made at most one write, so `highest` is at
        // least its sequence.
        Input::Recovered { source: RecoverySource::Journal { gap: Some((last_readable, newest)), .. } } => {
            let highest = document.sequence + newest.0.saturating_sub(last_readable.0);
            return Some(Ok(change::recover(document, highest, last_readable.0, newest.0, at)));
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
        // The end and the start of an attempt write nothing if the phase has another status, because a recovery has put the
        // document back.
        Change::Ended { attempt, consequence: AttemptConsequence::WillRetry { .. }, .. } => {
            let phase = Phase::parse(attempt.step.as_str())?;
            (document.status_with_phase() == StatusWithPhase::InProgress(phase))
                .then(|| change::fail_attempt(document, phase, error_detail(evidence), at))
        }
        Change::Started { attempt, .. } => {
            let phase = Phase::parse(attempt.step.as_str())?;
            (document.status_with_phase().startable() == Some(phase))
                .then(|| change::start(document, phase, at))
        }
        Change::Ended { .. }
        | Change::Status { .. }
        | Change::Queued { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
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
    at: WholeSecond,
) -> Option<Result<Document, ChangeError>> {
    let evidence = entry.input.evidence();
    Some(match transition {
        // The start of the first attempt writes that the phase has started; the recovery writes the imported document.
        ProtocolChange::Activated(_) | ProtocolChange::Imported(_) => return None,
        // The phase does not run: its output is that of the cycle which this one continues.
        ProtocolChange::ReuseStarted(phase) => {
            change::start_or_reuse(document, phase, document.context.continues.clone(), at)
        }
        ProtocolChange::Completed(phase) => {
            let output = definition
                .reused_output(phase)
                .cloned()
                .unwrap_or_else(|| reported(evidence, output::OUTPUT));
            change::complete(document, phase, output, at)
        }
        ProtocolChange::Reviewed { .. } => {
            let optional = |field| Some(reported(evidence, field)).filter(|value| !value.is_null());
            let fields = ReviewFields {
                cycle_summary: optional(output::CYCLE_SUMMARY),
                insights: optional(output::INSIGHTS),
            };
            change::complete_review(document, reported(evidence, output::OUTPUT), fields, at)
        }
        ProtocolChange::Closed => change::complete_cycle(document, at),
        ProtocolChange::Failed(phase) => change::fail(document, phase, reason(entry), at),
    })
}

/// Returns a field of the report that only this protocol has; null if it is missing.
fn reported(evidence: Option<&Evidence>, field: &str) -> Value {
    let report = evidence.and_then(|evidence| evidence.report.as_ref());
    report.and_then(|report| report.extra_fields.get(field)).cloned().unwrap_or_default()
}

fn error_detail(evidence: Option<&Evidence>) -> ErrorDetail {
    let kind = evidence.and_then(|evidence| evidence.kind).unwrap_or(FailureKind::Interrupted);
    let message = evidence.and_then(|evidence| evidence.error.clone());
    let message = message.unwrap_or_else(|| "The attempt was interrupted too often".to_owned());
    ErrorDetail { kind: kind.as_str().to_owned(), message }
}

/// Returns why the cycle fails: the user stopped it, or the last attempt failed.
fn reason(entry: &Entry<Peer>) -> ErrorDetail {
    match &entry.input {
        Input::Request { reason, .. } => {
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let kind = FailureKind::Cancelled.as_str().to_owned();
            ErrorDetail { kind, message: format!("Stopped by {}{reason}", author_name(&entry.by)) }
        }
        Input::Opened { .. }
        | Input::Fact { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => error_detail(entry.input.evidence()),
    }
}

fn author_name(author: &Author) -> String {
    match author {
        Author::Engine { .. } => "the engine".to_owned(),
        Author::Person { name, .. } => name.clone(),
        Author::BucketClient { bucket, .. } => format!("another client of the bucket `{bucket}`"),
    }
}
