//! A run that comes from elsewhere. Its commits are messages one after the other, as of any run; until the last one is there
//! each says that more is to come, and the run is none for whoever looks.

use std::sync::Arc;

use super::commit::CommitOptions;
use super::records::subject;
use crate::commit::{Position, Token};
use crate::error::{CommitError, EngineLockError};
use crate::nats::connection::{RequestFailure, Session};
use crate::sqlite::DraftError;
use crate::whole::Gathering;
use crate::{ExternalWrite, KvEntry, Tenure};

impl Session {
    pub(in crate::nats) async fn put_run(self: &Arc<Self>, gathering: Gathering) -> Result<(), DraftError> {
        let Gathering { mut commits, blobs, created, epoch, over } = gathering;
        let Some(mut last) = commits.pop() else { return Ok(()) };
        let run = last.run.clone();
        for blob in &blobs {
            self.put_blob(blob).await?;
        }
        let lease = match self.wait_for_lease(&run, Tenure::OneShot).await? {
            Ok(lease) => lease,
            Err(leader) => {
                let stopped = leader.is_stopped();
                return Err(EngineLockError::Held { run, pid: leader.pid, host: leader.host, stopped }.into());
            }
        };
        let written = async {
            self.forget_arrival(&run).await?;
            self.next_epoch(&run, lease.id(), epoch).await?;
            let mut position = Position::absent();
            for mut commit in commits {
                commit.expected = position;
                // Nobody is to see the document before the run is whole.
                commit.document = None;
                position = self.commit_with(commit, &CommitOptions { created, importing: true }).await?;
            }
            last.expected = match self.reconcile(&run).await?.foreign() {
                Some(foreign) if over.is_some_and(|over| is_that(foreign, &over)) => {
                    Position { token: Token(foreign.sequence), ..position }
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

    /// Removes what somebody left who was stopped half-way: it never was a run.
    async fn forget_arrival(&self, run: &protocol::RunId) -> Result<(), DraftError> {
        let mut outage = self.journal.write_backoff("remove half a run from");
        while let Some(last) = self.last_record(run).await? {
            if last.head.exists() {
                let (run, found) = (run.clone(), last.head.revision);
                return Err(
                    CommitError::Conflict { run, expected: Position::absent().revision, found }.into()
                );
            }
            if !last.head.has_commits() {
                break;
            }
            // No further than we have seen: it may be heard late, when the run is there.
            let tip = self.journal.stream.purge().filter(subject(run)).sequence(last.sequence + 1);
            let purge =
                async { tip.await.map_err(|error| RequestFailure::from_request(error, &self.journal.name)) };
            if let Err(failure) = self.journal.verified(purge).await {
                outage.wait(failure).await?;
            }
        }
        Ok(())
    }
}

/// The very entry, not another one of the same number: it may have been read from other servers.
fn is_that(foreign: &ExternalWrite, entry: &KvEntry) -> bool {
    foreign.sequence == entry.revision && foreign.body.as_ref() == Some(&entry.value)
}
