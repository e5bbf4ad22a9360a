//! Waits for the end of a process that is not a child.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use tokio::io::unix::AsyncFd;

/// The end of a process of this machine. The caller must check after [`ProcessEnd::of`] that the pid still belongs to the
/// process it meant; from then on it does.
#[derive(Debug)]
pub struct ProcessEnd(Option<AsyncFd<OwnedFd>>);

impl ProcessEnd {
    /// Opens the process. Must be called within the runtime that will wait.
    pub fn of(pid: u32) -> io::Result<Self> {
        let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return Ok(Self(None)) };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some(super::register_fd(fd)?))),
            Err(Errno::SRCH | Errno::INVAL) => Ok(Self(None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended.
    pub async fn wait(&self) -> io::Result<()> {
        match &self.0 {
            Some(fd) => fd.readable().await.map(|_| ()),
            None => Ok(()),
        }
    }
}
