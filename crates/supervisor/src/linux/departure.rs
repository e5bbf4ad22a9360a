//! Waiting for the end of a process that is not our child.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use tokio::io::unix::AsyncFd;

/// A process of this machine whose end we wait for. Whoever makes one checks afterwards that the number still belongs
/// to whom it meant: from then on it does.
#[derive(Debug)]
pub struct Departure(Option<AsyncFd<OwnedFd>>);

impl Departure {
    /// To be called within the runtime that will wait.
    pub fn of(pid: u32) -> io::Result<Self> {
        let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return Ok(Self(None)) };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some(super::listen(fd)?))),
            Err(Errno::SRCH | Errno::INVAL) => Ok(Self(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns when the process has ended.
    pub async fn happened(&self) -> io::Result<()> {
        match &self.0 {
            Some(fd) => fd.readable().await.map(|_| ()),
            None => Ok(()),
        }
    }
}
