//! Who is the run's engine, whatever the store is made of.
//!
//! Each backend keeps a second engine out in its own way; the epoch tells a first one that was thought dead, and is
//! not, to stop.

use protocol::{Epoch, RunId};

use crate::nats::Lease;
use crate::os;
use crate::sqlite::Lock;

/// The right to act for a run, until it is dropped or the process ends.
#[derive(Debug)]
pub struct EngineLock {
    run: RunId,
    epoch: Epoch,
    hold: Hold,
}

/// What keeps others out. Dropping it lets them in.
#[derive(Debug)]
pub(crate) enum Hold {
    /// A file the kernel has locked for us.
    Lock(Lock),
    /// A message that the server forgets unless it is renewed.
    Lease(Lease),
}

impl EngineLock {
    pub(crate) fn new(run: RunId, epoch: Epoch, hold: Hold) -> Self {
        Self { run, epoch, hold }
    }

    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Gives it back, and waits until others can know. A lead that is only dropped is given back as well; but a process
    /// that ends right after that may take the word with it, and then other machines wait for its lease to run out.
    pub async fn release(self) {
        match self.hold {
            Hold::Lock(lock) => drop(lock),
            Hold::Lease(lease) => lease.release().await,
        }
    }
}

/// How long somebody means to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tenure {
    /// Until the run rests: a second leader is refused at once.
    Engine,
    /// For one request: whoever comes second waits a run_at.
    OneShot,
}

/// The process that leads a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineHolder {
    pub pid: u32,
    pub host: String,
    pub tenure: Tenure,
}

impl EngineHolder {
    /// Whether it is a process of this machine. Elsewhere its number may be another's.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.host == os::host_name()
    }

    /// Whether it was stopped by a signal. Of a process elsewhere we cannot tell.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_here() && os::Holder::of(self.pid).is_some_and(|holder| holder.stopped)
    }
}
