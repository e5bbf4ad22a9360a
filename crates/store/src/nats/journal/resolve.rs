//! Finding out whether an unacknowledged write landed: whether the server stored it.
//!
//! A sequence is the number that NATS gives a message of a stream. A write lands only if the last message of its subject has
//! the sequence that the write expects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol::RunId;

use async_nats::HeaderMap;
use bytes::Bytes;

use super::cache::{JournalEnd, PendingWrite};
use super::message::Content;
use super::records::subject;
use super::wire::encode;
use crate::commit::{Position, WriteId};
use crate::error::ReadError;
use crate::nats::connection::{Lookup, RequestFailure, Session};
use crate::nats::documents::{DocumentSlot, deletion_headers, is_deleted};

/// The write ids in the journals of runs, so that a second search reads only what is new.
#[derive(Debug, Default)]
pub(in crate::nats) struct WriteIndex(Mutex<HashMap<RunId, IndexedWrites>>);

/// The write ids in the journal of one run, up to a sequence.
#[derive(Debug, Default)]
struct IndexedWrites {
    up_to: u64,
    positions: HashMap<WriteId, Position>,
}

impl Session {
    /// Returns the position of a write that was not acknowledged, or `None` if it did not land.
    pub(in crate::nats) async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        match self.cache.pending_write(write_id) {
            Some(PendingWrite::Journal(after)) => self.resolve_journal_write(run, write_id, after).await,
            Some(PendingWrite::Bucket(after)) => self.resolve_bucket_write(run, write_id, after).await,
            None => self.find_write(run, write_id).await,
        }
    }

    /// Appends a message without content that expects the same sequence as the write. Only one of the two can land, so the
    /// write has landed by then or never will.
    async fn resolve_journal_write(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, ReadError> {
        let mut backoff = self.journal.write_backoff("resolve a write at");
        loop {
            let end = JournalEnd::of(self.last_journal_record(run).await?.as_ref());
            if end.sequence != after {
                let landed = self.landed_after(run, write_id, after).await?;
                self.cache.remove_pending_write(write_id);
                return Ok(landed);
            }
            let fence = encode(&end.head, &Content::Fence { against: write_id });
            match self.journal.append_once(&subject(run), after, fence).await {
                // The next iteration finds this message in the place of the write.
                Ok(_) => {}
                Err(failure) => backoff.wait(failure).await?,
            }
        }
    }

    /// Writes the newest entry of the bucket once more, or a deletion if there is none, and expects the same sequence as the
    /// write. Only one of the two can land, so the write has landed by then or never will.
    async fn resolve_bucket_write(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, ReadError> {
        let (mut outage, mut conflicts) = (None, self.journal.conflict_backoff("resolve a write at"));
        loop {
            // Copies to the journal what was committed in the bucket.
            let current = self.reconcile(run).await?;
            let slot = current.slot.filter(|slot| slot.last == after);
            let Some(slot) = slot else {
                let landed = self.find_write(run, write_id).await?;
                self.cache.remove_pending_write(write_id);
                return Ok(landed);
            };
            let DocumentSlot { bucket, subject, .. } = *slot;
            let outage = outage.get_or_insert_with(|| bucket.handle.write_backoff("resolve a write at"));
            let (payload, headers) = match bucket.handle.find(&subject, Lookup::Last).await? {
                Some(found) if found.sequence == after => (
                    found.payload,
                    if is_deleted(&found.headers) { deletion_headers() } else { HeaderMap::new() },
                ),
                None if after == 0 => (Bytes::new(), deletion_headers()),
                Some(_) | None => {
                    conflicts
                        .wait(RequestFailure::temporary("another client is writing to the document"))
                        .await?;
                    continue;
                }
            };
            match bucket.handle.append_with(&subject, after, payload, headers).await {
                // The next iteration finds this entry in the place of the write.
                Ok(_) => {}
                Err(failure) => outage.wait(failure).await?,
            }
        }
    }

    /// Searches the journal for a write, without preventing that it lands later.
    pub(in crate::nats) async fn find_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        let Some(newest) = self.reconcile_and_read_last(run).await? else { return Ok(None) };
        let mut indexed = self.writes.lock().remove(run).unwrap_or_default();
        for record in self.records(run, indexed.up_to + 1, newest.sequence).await? {
            indexed.up_to = record.sequence;
            if let Some(committed) = record.commit() {
                indexed.positions.insert(committed.write_id, record.position());
            }
        }
        let position = indexed.positions.get(&write_id).copied();
        self.writes.lock().insert(run.clone(), indexed);
        Ok(position)
    }
}

impl WriteIndex {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, IndexedWrites>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
