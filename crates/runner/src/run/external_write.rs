//! Writes of other clients to the document of a run. Each is accepted as an edit in that client's name, or
//! quarantined and the document restored.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use protocol::entry::{Author, Input, RecoverySource};
use protocol::run::Decision;
use protocol::{Protocols, Revision, RunId};
use serde_json::Value;
use store::{CommitError, ExternalWrite, Store, WriteError};

use crate::clock::Clock;
use crate::error_chain::with_causes;
use crate::recovery::MAX_SEQUENCE_JUMP;
use crate::run::{CommitContext, Journal, LoadError};

/// How many conflicts with a client that keeps writing are retried. Together with the pauses, about two seconds.
const CAN_RETRY: u32 = 16;
/// The pause before a retry is random. This is its limit before the first retry, and how often the limit is doubled.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 5;

/// How an external write was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedExternalWrite {
    pub run: RunId,
    pub bucket: String,
    /// Its sequence number in the bucket; 0 if the bucket had no message of the document, which was then written.
    pub sequence: u64,
    /// The revision that accepts the write or restores the document.
    pub revision: Revision,
    pub rejected: Option<RejectedWrite>,
}

/// An external write that could not be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedWrite {
    pub why: String,
    /// Where the bytes are quarantined, if there were any.
    pub quarantined: Option<String>,
}

impl fmt::Display for JudgedExternalWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, bucket, revision, rejected, .. } = self;
        write!(f, "another client of the bucket `{bucket}` wrote to the document of run `{run}`: ")?;
        match rejected {
            None => write!(f, "accepted as revision {revision}"),
            Some(RejectedWrite { why, quarantined }) => {
                write!(f, "{why}; the document was restored as revision {revision}")?;
                match quarantined {
                    Some(key) => write!(f, ", the bytes are kept under `{key}`"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Journal {
    /// Judges the external write to the document, if there is one. Another client may do the same at the same time;
    /// one of the two commits succeeds.
    pub(crate) async fn judge_external_write(&mut self) -> Result<(), LoadError> {
        // `too_large`: the write whose edit the store has just refused as too large, by its sequence number, and why.
        let (mut too_large, mut retries) = (None, 0);
        while let Some(external_write) = self.external_write.take() {
            let edit = match too_large.take() {
                Some((sequence, why)) if sequence == external_write.sequence => Err(why),
                // Another write has replaced the one that is too large.
                Some(_) | None => self.as_edit(&external_write),
            };
            let accepts = edit.is_ok();
            match self.commit_judgement(&external_write, edit).await {
                Ok(judged_external_write) => self.judged_external_write = Some(judged_external_write),
                Err(CommitError::Conflict { .. }) if retries == CAN_RETRY => {
                    return Err(LoadError::Contended { run: self.run.clone(), tries: CAN_RETRY + 1 });
                }
                Err(CommitError::Conflict { .. }) => {
                    let pause = FIRST_PAUSE.saturating_mul(1 << retries.min(DOUBLINGS));
                    tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
                    retries += 1;
                    *self = self.load_again().await?;
                }
                Err(error @ CommitError::TooLarge { .. }) if accepts => {
                    too_large = Some((external_write.sequence, error.to_string()));
                    *self = self.load_again().await?;
                }
                Err(source) => {
                    let (run, source) = (self.run.clone(), source.into());
                    return Err(LoadError::ExternalWrite { run, source });
                }
            }
        }
        Ok(())
    }

    /// Returns the edit that the external write amounts to, or why it cannot be accepted.
    fn as_edit(&self, external_write: &ExternalWrite) -> Result<Value, String> {
        let change = external_write.change.as_ref().map_err(ToString::to_string)?;
        let read = |text: &str| serde_json::from_str(text).map_err(|error| error.to_string());
        let (ours, theirs) = (read(&change.before)?, read(&change.after)?);
        self.machine().external_edit(&ours, &theirs).map_err(|refused| with_causes(&refused))
    }

    /// Commits the judgement: the edit, or the document as it was.
    async fn commit_judgement(
        &mut self,
        external_write: &ExternalWrite,
        edit: Result<Value, String>,
    ) -> Result<JudgedExternalWrite, CommitError> {
        let ExternalWrite { bucket, sequence, .. } = external_write;
        let by = Author::BucketClient { bucket: bucket.clone(), sequence: *sequence };
        let (input, rejected) = match edit {
            Ok(edit) => (Input::Edited { edit, from: None }, None),
            Err(why) => {
                let rejected = RejectedWrite { why, quarantined: self.quarantine(external_write).await? };
                (self.restoring_input(external_write, &rejected), Some(rejected))
            }
        };
        self.commit(by, input, Decision::nothing(), CommitContext::default()).await?;
        let (run, revision) = (self.run.clone(), self.position.revision);
        Ok(JudgedExternalWrite { run, bucket: bucket.clone(), sequence: *sequence, revision, rejected })
    }

    async fn quarantine(&self, external_write: &ExternalWrite) -> Result<Option<String>, CommitError> {
        match self.store.quarantine_external_write(&self.run, external_write).await {
            Ok(key) => Ok(key),
            Err(WriteError::Unavailable(unavailable)) => Err(unavailable.into()),
            Err(WriteError::NoSuchRun { run }) => unreachable!("BUG: run `{run}` was just read"),
        }
    }

    /// Returns the input that commits the present document once more, with a sequence number that no client has seen.
    fn restoring_input(&self, external_write: &ExternalWrite, rejected: &RejectedWrite) -> Input {
        let newest = self.document().sequence().unwrap_or(0);
        let seen_sequence = external_write
            .body
            .as_deref()
            .and_then(sequence_in)
            // A number further ahead is part of the damage.
            .filter(|seen_sequence| *seen_sequence < newest + MAX_SEQUENCE_JUMP);
        let revision = self.position.revision;
        let ExternalWrite { bucket, sequence, .. } = external_write;
        let source = RecoverySource::Document {
            document: self.document().to_value(),
            restored_from: revision,
            broken_at: revision,
            highest_sequence: seen_sequence.map_or(newest, |seen_sequence| seen_sequence.max(newest)),
            problem: format!(
                "entry {sequence} of the bucket `{bucket}` was written by another client: {}",
                rejected.why
            ),
            quarantine: rejected.quarantined.clone(),
        };
        Input::Recovered { source }
    }
}

/// Returns the sequence number in a document.
fn sequence_in(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(body).ok()?.get("sequence")?.as_u64()
}

/// Writes the document of a run from its journal into a bucket that has lost it, or resolves the external write that is
/// in its place. Returns `Some(None)` if the bucket has the document and there was nothing to do, and `None` if there is
/// no such run.
pub async fn rebuild_document(
    store: &Arc<dyn Store>,
    clock: &Clock,
    protocols: Protocols,
    run: &RunId,
) -> Result<Option<Option<JudgedExternalWrite>>, LoadError> {
    let Some(mut journal) = Journal::load(store, clock, protocols, run).await? else { return Ok(None) };
    journal.judge_external_write().await?;
    Ok(Some(journal.judged_external_write))
}
