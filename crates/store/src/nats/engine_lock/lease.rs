//! A lease: a message that the server drops unless it is renewed.
//!
//! Only the server's clock decides when it expires. On the same machine it is also over once its process has ended or
//! dropped it, so that no process there waits for a dead engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linux::ProcessIdentity;
use protocol::RunId;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::error::Unavailable;
use crate::nats::connection::{Conflict, Lookup, RequestFailure, Session, StoredMessage};
use crate::nats::journal::{escape, json};
use crate::{EngineHolder, LockPurpose};

/// A lease that is renewed until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    id: HeldLeaseId,
    /// Dropping it wakes the renewal task, which then releases the lease.
    stop: oneshot::Sender<()>,
    renewal: JoinHandle<()>,
}

impl Lease {
    pub(in crate::nats) fn id(&self) -> &str {
        &self.id.0
    }

    /// Releases the lease, and waits until the server has acknowledged that or cannot be reached.
    pub(crate) async fn release(self) {
        let Self { id, stop, renewal } = self;
        drop((id, stop));
        // The task ends early only with its runtime.
        let _ = renewal.await;
    }
}

/// The id of a lease that this process holds. Dropping it ends the lease for this process at once, and for other
/// processes when the renewal task has written the release.
#[derive(Debug)]
struct HeldLeaseId(String);

impl HeldLeaseId {
    /// Registered before the lease is written: a second task of this process must not take it for released.
    fn new() -> Self {
        let id = Uuid::now_v7().to_string();
        held_leases().insert(id.clone());
        Self(id)
    }
}

impl Drop for HeldLeaseId {
    fn drop(&mut self) {
        held_leases().remove(&self.0);
    }
}

/// The content of a lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LeaseMessage {
    id: String,
    /// False in the last message of a holder.
    held: bool,
    purpose: LockPurpose,
    host: String,
    process: ProcessIdentity,
}

/// The ids of leases that this process holds.
static HELD_LEASES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn held_leases() -> MutexGuard<'static, BTreeSet<String>> {
    HELD_LEASES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LeaseMessage {
    fn is_over(&self, this_process: &ProcessIdentity) -> bool {
        // Boot id, pid and start time can be the same in two copies of one virtual machine, so only the host's name counts.
        let is_here = self.host == linux::host_name();
        !self.held
            || (is_here
                && (self.process.has_certainly_ended()
                    || (self.process == *this_process && !held_leases().contains(&self.id))))
    }

    fn holder(self) -> EngineHolder {
        EngineHolder { pid: self.process.pid, host: self.host, purpose: self.purpose }
    }
}

fn subject(run: &RunId) -> String {
    format!("callboard.lease.{}", escape(run))
}

/// A lease lasts this many renewal periods, so that one failed renewal does not end it.
const RENEWALS_PER_LEASE: u32 = 3;

impl Session {
    fn bad_lease(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Unavailable {
        let server = self.leases.server.clone();
        Unavailable::Server { server, doing: "parse a lease from", source: source.into() }
    }

    fn this_process(&self) -> Result<ProcessIdentity, Unavailable> {
        ProcessIdentity::of_self().map_err(|source| Unavailable::Io {
            action: "read",
            path: "/proc".into(),
            source,
        })
    }

    fn lease_message(&self, found: &StoredMessage) -> Result<LeaseMessage, Unavailable> {
        serde_json::from_slice(&found.payload).map_err(|error| self.bad_lease(error))
    }

    /// Returns the holder of a run's lease, if there is one.
    pub(in crate::nats) async fn lease_holder(
        &self,
        run: &RunId,
    ) -> Result<Option<EngineHolder>, Unavailable> {
        let Some(found) = self.leases.find(&subject(run), Lookup::Last).await? else { return Ok(None) };
        let (lease_message, this_process) = (self.lease_message(&found)?, self.this_process()?);
        Ok(if lease_message.is_over(&this_process) { None } else { Some(lease_message.holder()) })
    }

    /// Takes the lease of a run, or returns its holder.
    pub(super) async fn take_lease(
        self: &Arc<Self>,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<Result<Lease, EngineHolder>, Unavailable> {
        let (subject, this_process) = (subject(run), self.this_process()?);
        let mut conflicts = self.leases.conflict_backoff("take a lease at");
        loop {
            let expected = match self.leases.find(&subject, Lookup::Last).await? {
                Some(found) => {
                    let lease_message = self.lease_message(&found)?;
                    if !lease_message.is_over(&this_process) {
                        return Ok(Err(lease_message.holder()));
                    }
                    found.sequence
                }
                None => 0,
            };
            let id = HeldLeaseId::new();
            let lease_message = LeaseMessage {
                id: id.0.clone(),
                held: true,
                purpose,
                host: linux::host_name(),
                process: this_process.clone(),
            };
            match self.leases.append(&subject, expected, json(&lease_message)).await? {
                Ok(sequence) => {
                    let (stop, stopped) = oneshot::channel();
                    let renewal = Renewal { session: Arc::clone(self), subject, lease_message, sequence };
                    return Ok(Ok(Lease { id, stop, renewal: tokio::spawn(renewal.renew_until(stopped)) }));
                }
                Err(Conflict) => {
                    conflicts
                        .wait(RequestFailure::temporary("too many conflicts with other processes"))
                        .await?;
                }
            }
        }
    }
}

/// The task that renews a lease.
struct Renewal {
    session: Arc<Session>,
    subject: String,
    lease_message: LeaseMessage,
    sequence: u64,
}

impl Renewal {
    /// Renews the lease until `stopped`, then releases it. Ends early if another process took it.
    async fn renew_until(mut self, mut stopped: oneshot::Receiver<()>) {
        let period = (self.session.lease_duration / RENEWALS_PER_LEASE).max(Duration::from_millis(50));
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                renewed = async {
                    tokio::time::sleep(period).await;
                    self.renew().await
                } => match renewed {
                    Ok(RenewalOutcome::Lost) => return,
                    // The outage will end. Until then no other process can take the lease either.
                    Ok(RenewalOutcome::Written) | Err(_) => {}
                }
            }
        }
        self.lease_message.held = false;
        // If the release does not arrive, the lease expires. A process that exits because of an outage waits for one
        // answer only.
        let timeout = self.session.lease_duration.min(self.session.settings.timeouts.request);
        let _ = tokio::time::timeout(timeout, self.renew()).await;
    }

    /// Writes the lease again, held or released. An earlier write without an acknowledgement may have landed first.
    async fn renew(&mut self) -> Result<RenewalOutcome, Unavailable> {
        let leases = &self.session.leases;
        loop {
            if let Ok(sequence) =
                leases.append(&self.subject, self.sequence, json(&self.lease_message)).await?
            {
                self.sequence = sequence;
                return Ok(RenewalOutcome::Written);
            }
            match leases.find(&self.subject, Lookup::Last).await? {
                // It expired, and no other process took it.
                None => self.sequence = 0,
                Some(found) if self.session.lease_message(&found)?.id == self.lease_message.id => {
                    self.sequence = found.sequence;
                }
                // Another process took it. Our engine notices with its next commit, because of the epoch in the
                // journal.
                Some(_) => return Ok(RenewalOutcome::Lost),
            }
        }
    }
}

enum RenewalOutcome {
    Written,
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_on_its_own_host_a_process_shows_that_a_lease_is_over() {
        let us = ProcessIdentity::of_self().unwrap();
        let is_over = |host: &str, process: &ProcessIdentity| {
            let lease = LeaseMessage {
                id: "of another lock".to_owned(),
                held: true,
                purpose: LockPurpose::Engine,
                host: host.to_owned(),
                process: process.clone(),
            };
            lease.is_over(&us)
        };
        let ended = ProcessIdentity { pid: u32::MAX, ..us.clone() };
        let here = linux::host_name();
        assert!(is_over(&here, &us), "this process no longer holds it");
        assert!(is_over(&here, &ended));
        assert!(!is_over("other", &us) && !is_over("other", &ended));
    }
}
