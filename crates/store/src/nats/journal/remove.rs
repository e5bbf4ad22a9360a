//! Removes a run: its messages are purged, and one without a commit is written with the next epoch, so that an engine of
//! the removed run stays fenced.

use super::records::subject;
use crate::EngineLock;
use crate::commit::Position;
use crate::error::CommitError;
use crate::nats::connection::Session;
use crate::nats::documents::{document_key, key_subject};

impl Session {
    /// Removes the run of the lock if it is still at `position`.
    pub(in crate::nats) async fn remove_run(
        &self,
        lock: &EngineLock,
        position: Position,
    ) -> Result<(), CommitError> {
        let (run, held) = (lock.run(), lock.epoch());
        let mut outage = self.journal.write_backoff("remove a run from");
        while let Some(last) = self.last_journal_record(run).await?.filter(|last| last.head.has_commits()) {
            let by = last.head.epoch;
            if by > held {
                return Err(CommitError::Fenced { held, by });
            }
            if last.head.token() != position.token {
                let (run, expected) = (run.clone(), position.revision);
                return Err(CommitError::Conflict { run, expected, found: last.head.revision });
            }
            // The document first: a journal without it can be read, and the other way round the run would come back.
            if let (Some(entry), Some(key)) = (&last.head.document_entry, document_key(run)) {
                let bucket = self.existing_bucket(&entry.bucket).await?;
                let subject = key_subject(&entry.bucket, key);
                if let Err(failure) = bucket.handle.purge_through(subject, entry.sequence).await {
                    outage.wait(failure).await?;
                    continue;
                }
            }
            if let Err(failure) = self.journal.purge_through(subject(run), last.sequence).await {
                outage.wait(failure).await?;
            }
        }
        self.cache.forget(run);
        let lease = lock.lease().expect("BUG: the lock is of another backend");
        self.write_next_epoch(run, lease.id(), held).await?;
        Ok(())
    }
}
