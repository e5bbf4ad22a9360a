//! Imports a whole run. Each of its commits is an ordinary message of the journal. All but the last are marked as importing:
//! the run exists only when the last one is written.

use std::sync::Arc;

use super::commit::CommitOptions;
use super::records::subject;
use crate::RunWriteError;
use crate::commit::{Position, Token};
use crate::error::{CommitError, EngineLockError};
use crate::nats::connection::Session;
use crate::run_writer::BufferedRun;
use crate::{ExternalWrite, KvEntry, LockPurpose};

impl Session {
    /// Writes a run whose commits were collected in memory.
    pub(in crate::nats) async fn put_run(
        self: &Arc<Self>,
        buffered: BufferedRun,
    ) -> Result<(), RunWriteError> {
        let BufferedRun { mut commits, blobs, created, epoch, replaced_bucket_entry } = buffered;
        let Some(mut last) = commits.pop() else { return Ok(()) };
        let run = last.run.clone();
        for blob in &blobs {
            self.put_blob(blob).await?;
        }
        let lease = match self.wait_for_lease(&run, LockPurpose::OneShot).await? {
            Ok(lease) => lease,
            Err(holder) => {
                let stopped = holder.is_stopped();
                return Err(EngineLockError::Held { run, pid: holder.pid, host: holder.host, stopped }.into());
            }
        };
        let written = async {
            self.remove_incomplete_import(&run).await?;
            self.write_next_epoch(&run, lease.id(), epoch).await?;
            let mut position = Position::absent();
            for mut commit in commits {
                commit.expected = position;
                // The document becomes visible with the last commit.
                commit.document = None;
                position = self.commit_with(commit, &CommitOptions { created, importing: true }).await?;
            }
            // The last commit overwrites the entry that the run replaces. Any other external write makes it fail.
            last.expected = match self.reconcile(&run).await?.external_write() {
                Some(write) if replaced_bucket_entry.is_some_and(|entry| is_same_entry(write, &entry)) => {
                    Position { token: Token(write.sequence), ..position }
                }
                Some(_) | None => position,
            };
            self.commit_with(last, &CommitOptions { created, importing: false }).await?;
            Ok(())
        };
        let written = written.await;
        lease.release().await;
        written
    }

    /// Removes what an interrupted import left. Fails if the run exists.
    async fn remove_incomplete_import(&self, run: &protocol::RunId) -> Result<(), RunWriteError> {
        let mut backoff = self.journal.write_backoff("remove an incomplete import from");
        while let Some(last) = self.last_journal_record(run).await? {
            if last.head.exists() {
                let (run, found) = (run.clone(), last.head.revision);
                return Err(
                    CommitError::Conflict { run, expected: Position::absent().revision, found }.into()
                );
            }
            // Messages without a commit, such as epochs, may stay.
            if !last.head.has_commits() {
                break;
            }
            if let Err(failure) = self.journal.purge_through(subject(run), last.sequence).await {
                backoff.wait(failure).await?;
            }
        }
        Ok(())
    }
}

/// Compares the bytes as well: if the entry was read from another server, its sequence alone proves nothing.
fn is_same_entry(write: &ExternalWrite, entry: &KvEntry) -> bool {
    write.sequence == entry.revision && write.body.as_ref() == Some(&entry.value)
}
