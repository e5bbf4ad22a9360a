//! The lock that makes a process the engine of a run, on every backend.
//!
//! Each backend excludes a second engine in its own way. The epoch fences an engine that was considered dead and still
//! runs.

use protocol::{Epoch, RunId};

use crate::nats::Lease;
use crate::sqlite::EngineLockFile;

/// The right to act as the engine of a run, until it is dropped or the process ends.
#[derive(Debug)]
pub struct EngineLock {
    run: RunId,
    epoch: Epoch,
    guard: LockGuard,
}

/// What excludes other engines. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) enum LockGuard {
    /// A file that the kernel keeps locked.
    File(EngineLockFile),
    /// A message that the server deletes unless it is renewed.
    Lease(Lease),
}

impl EngineLock {
    pub(crate) fn new(run: RunId, epoch: Epoch, guard: LockGuard) -> Self {
        Self { run, epoch, guard }
    }

    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the lease, on a backend that has leases.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.guard {
            LockGuard::File(_) => None,
            LockGuard::Lease(lease) => Some(lease),
        }
    }

    /// Releases the lock and waits until other machines can see that. Dropping the lock releases it, too; but if the
    /// process ends right afterwards, the message may not be sent, and other machines wait for the lease to expire.
    pub async fn release(self) {
        match self.guard {
            LockGuard::File(lock) => drop(lock),
            LockGuard::Lease(lease) => lease.release().await,
        }
    }
}

/// How long a process intends to hold the engine lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LockPurpose {
    /// Until this engine exits: a second process is refused at once.
    Engine,
    /// For one commit: a second process waits for a short while.
    OneShot,
}

/// The process that holds the engine lock of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineHolder {
    pub pid: u32,
    pub host: String,
    pub purpose: LockPurpose,
}

impl EngineHolder {
    /// Whether it runs on this machine. On another machine its pid may belong to any process.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.host == linux::host_name()
    }

    /// Whether a signal (SIGSTOP, Ctrl-Z) has suspended it, so that it runs on only after SIGCONT. Not related to
    /// `callboard stop`. Always false for a process on another machine.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_local() && linux::ProcessInfo::of(self.pid).is_some_and(|process| process.stopped)
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_process_of_another_host_is_not_taken_for_a_suspended_one_here() {
        let mut sleep = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = sleep.id();
        kill_process(Pid::from_child(&sleep), Signal::STOP).unwrap();
        testkit::wait_until_suspended(pid.try_into().unwrap());
        let is_stopped = |host| EngineHolder { pid, host, purpose: LockPurpose::Engine }.is_stopped();
        let (here, elsewhere) = (is_stopped(linux::host_name()), is_stopped("elsewhere".to_owned()));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(here && !elsewhere, "here {here}, elsewhere {elsewhere}");
    }
}
