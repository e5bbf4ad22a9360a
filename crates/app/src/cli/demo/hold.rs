//! A process held by its pidfd: whatever gets its number later is not taken for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

#[derive(Debug)]
pub(super) struct Hold(OwnedFd);

impl Hold {
    /// Takes hold of a process that is known to be alive.
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub(super) fn is_alive(&self) -> io::Result<bool> {
        let mut ended = [PollFd::new(&self.0, PollFlags::IN)];
        Ok(rustix::event::poll(&mut ended, Some(&Timespec::default()))? == 0)
    }
}
