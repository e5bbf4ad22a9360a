//! A commit of a run whose document is in a bucket: an entry of the bucket, by compare-and-set, and a copy in the journal.
//!
//! The entry of the bucket is the commit. The copy is written before the commit is acknowledged, so that the journal has everything
//! that is acted on. If the process dies in between, the next reader writes the copy.

use bytes::Bytes;
use protocol::RunId;
use serde_json::{Map, Value};

use super::entry::{self, ParsedEntry};
use super::large_values::{MAX_INLINE_VALUE, SMALLER_LIMITS, extract_large_values};
use super::reconcile::{CurrentRun, DocumentSlot, copied_head};
use crate::commit::{Commit, Position, WriteId};
use crate::error::{CommitError, Unavailable};
use crate::nats::connection::{Conflict, RequestFailure, Session, StoredMessage};
use crate::nats::journal::{CommitOptions, CommitPlan, MAX_INLINE_DELTA, OutgoingDelta, check_epoch, json};

impl Session {
    /// Commits, and retries until there is an answer. `unanswered` is the sequence after which an unacknowledged entry
    /// may still land, or has landed without its copy.
    pub(in crate::nats) async fn commit_to_bucket(
        &self,
        commit: Commit,
        options: &CommitOptions,
        unanswered: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let (mut outage, mut conflicts) = (None, self.journal.conflict_backoff("commit to"));
        // The sequence that the last refused write expected, and the error.
        let mut refused: Option<(u64, _)> = None;
        loop {
            let current = self.reconcile(&commit.run).await?;
            let slot = match &current.slot {
                Some(slot) if current.head().exists() => slot,
                // The first commit of the run: the journal must have the bucket's marker before the bucket has the entry.
                Some(slot) => {
                    self.bucket_for_writing().await?;
                    slot
                }
                None if current.head().exists() => return Err(conflict(&commit, &current)),
                None => {
                    self.bucket_for_writing().await?;
                    continue;
                }
            };
            let (handle, after) = (&slot.bucket.handle, slot.last);
            let outage = outage.get_or_insert_with(|| handle.write_backoff("commit to"));
            if unanswered.is_some_and(|unanswered| unanswered != after) {
                if let Some(position) = self.landed_in_bucket(&commit.run, commit.write_id).await? {
                    handle.record_write();
                    check_epoch(&commit, &current.head())?;
                    return Ok(position);
                }
                *unanswered = None;
            }
            check(&commit, &current)?;
            if let Some((expected, source)) = refused.take() {
                // `check` passed, so the document has not changed since. If the expected entry is still the newest, the
                // server refused without a conflict. Otherwise another client has written the newest entry again, unchanged.
                let backoff = if expected == after { &mut *outage } else { &mut conflicts };
                backoff.wait(RequestFailure::Temporary(source)).await?;
            }
            let encoded = self.encode_entry(&commit, options, &current, slot).await?;
            let failure = match handle.append_once(&slot.subject, after, encoded.payload.clone()).await {
                Ok(sequence) => {
                    *unanswered = Some(after);
                    return self.finish_commit(&commit, slot, encoded, sequence).await;
                }
                Err(failure) => failure,
            };
            match failure {
                RequestFailure::WrongSequence(source) => refused = Some((after, source)),
                failure => {
                    if matches!(failure, RequestFailure::Unanswered(_)) {
                        *unanswered = Some(after);
                    }
                    outage.wait(failure).await?;
                }
            }
        }
    }

    /// Writes the copy of an entry that has landed. Fails with `Fenced` if the engine was replaced meanwhile: the
    /// commit stands, and the next engine acts on it.
    async fn finish_commit(
        &self,
        commit: &Commit,
        slot: &DocumentSlot,
        encoded: EncodedEntry,
        sequence: u64,
    ) -> Result<Position, CommitError> {
        let EncodedEntry { payload, mut plan } = encoded;
        let run = &commit.run;
        let found = StoredMessage { sequence, payload, headers: async_nats::HeaderMap::new() };
        let ParsedEntry::Intact(entry) = self.parse_entry(run, &found)? else {
            unreachable!("BUG: an entry that was just encoded is intact");
        };
        let bucket = &slot.bucket.name;
        match self.copy(run, &plan.tip, &entry, bucket).await? {
            Ok(copy) => {
                plan.head = copied_head(&plan.tip, &entry, bucket);
                Ok(self.cache_commit(run, plan, copy))
            }
            Err(Conflict) => {
                let current = self.reconcile(run).await?;
                check_epoch(commit, &current.head())?;
                let landed = self.landed_in_bucket(run, commit.write_id).await?;
                // Other clients may have written more entries than the bucket keeps before the copy was made.
                landed.ok_or_else(|| conflict(commit, &current))
            }
        }
    }

    /// Returns the position of a write, or `None` if it has not landed. Called after `reconcile`, so every entry has
    /// its copy in the journal.
    async fn landed_in_bucket(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, Unavailable> {
        self.find_write(run, write_id).await.map_err(|error| self.as_unavailable(error))
    }

    async fn encode_entry(
        &self,
        commit: &Commit,
        options: &CommitOptions,
        current: &CurrentRun,
        slot: &DocumentSlot,
    ) -> Result<EncodedEntry, CommitError> {
        let mut tip = current.journal_end();
        let cached = self.cache.take(&commit.run, tip.head.token());
        tip.index = cached.filter(|cached| cached.sequence == tip.sequence).and_then(|cached| cached.index);
        let plan = self.plan(commit, options, tip).await?;
        let mut document = self.document_for(commit, current, slot).await?;
        let mut outgoing = plan.outgoing(commit);
        // Half of a message, because the copy in the journal has the head of the run next to the delta.
        if json(&plan.delta).len() > MAX_INLINE_DELTA.min(self.journal_max_payload / 2) {
            outgoing.delta = OutgoingDelta::Blob(self.put_blob(&json(&plan.delta)).await?);
        }
        let mut payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
        let limit = slot.bucket.max_payload;
        if payload.len() > limit && matches!(outgoing.delta, OutgoingDelta::Inline(_)) {
            outgoing.delta = OutgoingDelta::Blob(self.put_blob(&json(&plan.delta)).await?);
            payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
        }
        for max_length in SMALLER_LIMITS {
            if payload.len() > limit {
                self.store_large_values(&mut document, max_length).await?;
                payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
            }
        }
        match payload.len() {
            size if size > limit => Err(CommitError::TooLarge { size, limit }),
            _ => Ok(EncodedEntry { payload, plan }),
        }
    }

    /// Returns the document for the bucket, with large values stored as blobs.
    async fn document_for(
        &self,
        commit: &Commit,
        current: &CurrentRun,
        slot: &DocumentSlot,
    ) -> Result<Map<String, Value>, CommitError> {
        let Some(document) = &commit.document else {
            // The document is unchanged. If another client wrote the newest entry, the caller must supply the document.
            return slot.document.clone().ok_or_else(|| conflict(commit, current));
        };
        let document = serde_json::from_str(document).expect("BUG: a document is an object as JSON text");
        let mut document = entry::without_engine_part(document);
        self.store_large_values(&mut document, MAX_INLINE_VALUE).await?;
        Ok(document)
    }

    async fn store_large_values(
        &self,
        document: &mut Map<String, Value>,
        max_length: usize,
    ) -> Result<(), Unavailable> {
        for blob in extract_large_values(document, max_length) {
            self.put_blob(&blob).await?;
        }
        Ok(())
    }
}

/// An encoded entry, and the run after it has landed.
struct EncodedEntry {
    payload: Bytes,
    plan: CommitPlan,
}

/// Fails if the engine was replaced, or the run is not at the expected position.
fn check(commit: &Commit, current: &CurrentRun) -> Result<(), CommitError> {
    check_epoch(commit, &current.head())?;
    if current.position() == commit.expected { Ok(()) } else { Err(conflict(commit, current)) }
}

fn conflict(commit: &Commit, current: &CurrentRun) -> CommitError {
    let (run, expected) = (commit.run.clone(), commit.expected.revision);
    CommitError::Conflict { run, expected, found: current.head().revision }
}
