//! Who is the run's engine: a lease keeps a second one out, and a message in the journal ends what a first one was doing.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Epoch, RunId};

use super::channel::Overtaken;
use super::fault::Fault;
use super::known::Seen;
use super::lease::Lease;
use super::message::{Content, Head};
use super::server::Server;
use crate::engine_lock::Hold;
use crate::error::{EngineLockError, Unavailable};
use crate::{EngineHolder, EngineLock, Tenure};

/// How often we look again at a leader on an errand, and how long we wait between.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl Server {
    /// Becomes the leader, or says who is.
    pub(super) async fn lock(
        self: &Arc<Self>,
        run: &RunId,
        tenure: Tenure,
    ) -> Result<EngineLock, EngineLockError> {
        let lease = match self.wait_for_lease(run, tenure).await? {
            Ok(lease) => lease,
            Err(leader) => {
                let (run, stopped) = (run.clone(), leader.is_stopped());
                return Err(EngineLockError::Held { run, pid: leader.pid, host: leader.host, stopped });
            }
        };
        let epoch = self.next_epoch(run, lease.id(), Epoch(0)).await?;
        Ok(EngineLock::new(run.clone(), epoch, Hold::Lease(lease)))
    }

    /// Takes the lease of a run, or says who has it. Whoever has it for an errand is gone in a run_at and is waited for.
    pub(super) async fn wait_for_lease(
        self: &Arc<Self>,
        run: &RunId,
        tenure: Tenure,
    ) -> Result<Result<Lease, EngineHolder>, Unavailable> {
        let mut looks = 0;
        loop {
            let leader = match self.take_lease(run, tenure).await? {
                Ok(lease) => return Ok(Ok(lease)),
                Err(leader) => leader,
            };
            looks += 1;
            if leader.tenure == Tenure::Engine || looks > LOOKS {
                return Ok(Err(leader));
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Gives the run's next engine its number, on the run's own subject: whatever an engine before it was about to
    /// commit does not land any more.
    pub(super) async fn next_epoch(
        &self,
        run: &RunId,
        lease: &str,
        least: Epoch,
    ) -> Result<Epoch, Unavailable> {
        let mut race = self.journal.race("become the engine at");
        loop {
            let seen = Seen::of(self.last(run).await?.as_ref());
            let epoch = seen.head.epoch.next().max(least);
            let seen = Seen { head: Head { epoch, ..seen.head }, ..seen };
            match self.add(run, seen, &Content::EngineLock { lease: lease.to_owned() }).await? {
                Ok(()) => return Ok(epoch),
                Err(Overtaken) => race.bear(Fault::passing("others write to the run without pause")).await?,
            }
        }
    }
}
