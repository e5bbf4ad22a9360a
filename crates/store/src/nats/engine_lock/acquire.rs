//! Becoming the engine of a run: take the lease, then write a new epoch to the journal, which fences the previous
//! engine.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Epoch, RunId};

use super::lease::Lease;
use crate::engine_lock::LockGuard;
use crate::error::{EngineLockError, Unavailable};
use crate::nats::connection::{Conflict, RequestFailure, Session};
use crate::nats::journal::{Content, Head, JournalEnd};
use crate::{EngineHolder, EngineLock, LockPurpose};

/// How often, and at which interval, the lease of a one-shot holder is polled.
const MAX_POLLS: u32 = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Session {
    /// Makes this process the engine. Fails with the holder if there is one.
    pub(in crate::nats) async fn lock(
        self: &Arc<Self>,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<EngineLock, EngineLockError> {
        let lease = match self.wait_for_lease(run, purpose).await? {
            Ok(lease) => lease,
            Err(holder) => {
                let (run, stopped) = (run.clone(), holder.is_stopped());
                return Err(EngineLockError::Held { run, pid: holder.pid, host: holder.host, stopped });
            }
        };
        let epoch = self.write_next_epoch(run, lease.id(), Epoch(0)).await?;
        Ok(EngineLock::new(run.clone(), epoch, LockGuard::Lease(lease)))
    }

    /// Takes the lease of a run, or returns its holder. Waits for a one-shot holder, which releases it soon.
    pub(in crate::nats) async fn wait_for_lease(
        self: &Arc<Self>,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<Result<Lease, EngineHolder>, Unavailable> {
        let mut polls = 0;
        loop {
            let holder = match self.take_lease(run, purpose).await? {
                Ok(lease) => return Ok(Ok(lease)),
                Err(holder) => holder,
            };
            polls += 1;
            if holder.purpose == LockPurpose::Engine || polls > MAX_POLLS {
                return Ok(Err(holder));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Writes the next epoch to the run's subject of the journal. From then on every commit of an earlier engine fails.
    /// `min_epoch` keeps epochs growing if the earlier ones are not in this journal: the run was imported or removed.
    pub(in crate::nats) async fn write_next_epoch(
        &self,
        run: &RunId,
        lease: &str,
        min_epoch: Epoch,
    ) -> Result<Epoch, Unavailable> {
        let mut conflicts = self.journal.conflict_backoff("become the engine at");
        loop {
            let end = JournalEnd::of(self.last_journal_record(run).await?.as_ref());
            let epoch = end.head.epoch.next().max(min_epoch);
            let end = JournalEnd { head: Head { epoch, ..end.head }, ..end };
            match self.append_content(run, end, &Content::EngineLock { lease: lease.to_owned() }).await? {
                Ok(()) => return Ok(epoch),
                Err(Conflict) => {
                    conflicts
                        .wait(RequestFailure::temporary("too many conflicts with other writers of the run"))
                        .await?;
                }
            }
        }
    }
}
