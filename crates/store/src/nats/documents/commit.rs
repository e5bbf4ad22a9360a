//! One change of a run whose document is kept in a bucket: an entry there, by compare-and-set, and a copy of what it
//! changed on the run's subject.
//!
//! The entry is the commit. The copy is made before the commit is acknowledged, so that the journal has all that anybody
//! acts on; should we die in between, whoever looks next makes it.

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
    /// Tries until there is an answer. `unheard` is the sequence of the place after which an attempt without one may yet land, or
    /// has landed and waits for its copy.
    pub(in crate::nats) async fn commit_to_bucket(
        &self,
        commit: Commit,
        options: &CommitOptions,
        unanswered: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let (mut outage, mut race) = (None, self.journal.conflict_backoff("commit to"));
        let mut refused: Option<(u64, _)> = None;
        loop {
            let current = self.reconcile(&commit.run).await?;
            let slot = match &current.slot {
                Some(slot) if current.head().exists() => slot,
                // It is about to be kept for the first time: the journal must know that there is a bucket.
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
                // The run stands where it stood. If what we expected is still there the server is in trouble, nobody was
                // faster; else somebody has said again what was there.
                let budget = if expected == after { &mut *outage } else { &mut race };
                budget.wait(RequestFailure::Temporary(source)).await?;
            }
            let encoded = self.encode_entry(&commit, options, &current, slot).await?;
            let failure = match handle.append_once(&slot.subject, after, encoded.payload.clone()).await {
                Ok(sequence) => {
                    *unanswered = Some(after);
                    return self.acknowledge(&commit, slot, encoded, sequence).await;
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

    /// Copies the entry that has landed. An engine that was replaced meanwhile is told so: then the commit is true, and not
    /// for it to act on.
    async fn acknowledge(
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
            unreachable!("BUG: what we write is ours");
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
                // Others may have written more entries over it than the bucket keeps, before anybody could copy it.
                landed.ok_or_else(|| conflict(commit, &current))
            }
        }
    }

    /// Where a write is, now that all entries have their copies.
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
        let mut tip = current.tip();
        let known = self.cache.take(&commit.run, tip.head.token());
        tip.index = known.filter(|known| known.sequence == tip.sequence).and_then(|known| known.index);
        let plan = self.plan(commit, options, tip).await?;
        let mut document = self.document_for(commit, current, slot).await?;
        let mut outgoing = plan.outgoing(commit);
        // The journal has to take its copy, too, with the head of the run.
        if json(&plan.delta).len() > MAX_INLINE_DELTA.min(self.max_message / 2) {
            outgoing.delta = OutgoingDelta::Blob(self.put_blob(&json(&plan.delta)).await?);
        }
        let mut payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
        let limit = slot.bucket.largest;
        if payload.len() > limit && matches!(outgoing.delta, OutgoingDelta::Inline(_)) {
            outgoing.delta = OutgoingDelta::Blob(self.put_blob(&json(&plan.delta)).await?);
            payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
        }
        for longer in SMALLER_LIMITS {
            if payload.len() > limit {
                self.store_large_values(&mut document, longer).await?;
                payload = entry::encode(&commit.run, &document, &plan.head, &outgoing);
            }
        }
        match payload.len() {
            size if size > limit => Err(CommitError::TooLarge { size, limit }),
            _ => Ok(EncodedEntry { payload, plan }),
        }
    }

    /// The document as it shall stand in the bucket. What is large goes into blobs first.
    async fn document_for(
        &self,
        commit: &Commit,
        current: &CurrentRun,
        slot: &DocumentSlot,
    ) -> Result<Map<String, Value>, CommitError> {
        let Some(document) = &commit.document else {
            // It stays as it is; if that is not there to be seen, its writer has to say what it is.
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
        longer: usize,
    ) -> Result<(), Unavailable> {
        for blob in extract_large_values(document, longer) {
            self.put_blob(&blob).await?;
        }
        Ok(())
    }
}

/// An entry, and what the run will be like once it has landed.
struct EncodedEntry {
    payload: Bytes,
    plan: CommitPlan,
}

fn check(commit: &Commit, current: &CurrentRun) -> Result<(), CommitError> {
    check_epoch(commit, &current.head())?;
    if current.position() == commit.expected { Ok(()) } else { Err(conflict(commit, current)) }
}

fn conflict(commit: &Commit, current: &CurrentRun) -> CommitError {
    let (run, expected) = (commit.run.clone(), commit.expected.revision);
    CommitError::Conflict { run, expected, found: current.head().revision }
}
