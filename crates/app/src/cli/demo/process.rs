//! A process held by its pidfd, so that a later process with the same pid is not mistaken for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

#[derive(Debug)]
pub(super) struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens a process that is known to be alive.
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub(super) fn is_alive(&self) -> io::Result<bool> {
        let mut events = [PollFd::new(&self.0, PollFlags::IN)];
        Ok(rustix::event::poll(&mut events, Some(&Timespec::default()))? == 0)
    }
}
