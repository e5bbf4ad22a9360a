//! Waits for the end of a process that is not a child.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::PidfdFlags;
use tokio::io::unix::AsyncFd;

/// The end of a process of this machine. A pid may be reused, so the caller must check after [`ProcessEnd::of`] that it still
/// belongs to the process it meant. A later reuse does no harm.
#[derive(Debug)]
pub struct ProcessEnd(Option<AsyncFd<OwnedFd>>);

impl ProcessEnd {
    /// Opens the process. Must be called within the runtime that will wait.
    pub fn of(pid: u32) -> io::Result<Self> {
        let Some(pid) = super::kernel_pid(pid) else { return Ok(Self(None)) };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some(crate::register_fd(fd)?))),
            // INVAL, and NOENT since Linux 6.16: the pid belongs to a thread now.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(Self(None)),
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
