//! One process, referred to by a pidfd. A pid may be reused at any time, a pidfd never.

use std::collections::BTreeSet;
use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::stat::Stat;
use super::{ProcessIdentity, Row, kernel_pid};

/// A process that was running when its pidfd was opened.
#[derive(Debug)]
pub struct Process(OwnedFd);

impl Process {
    /// Opens the process with this pid and start time, or returns `None` if it has ended.
    ///
    /// The pidfd is opened before the start time is compared, so that both belong to the same process.
    pub fn open(pid: Pid, started: u64) -> io::Result<Option<Self>> {
        let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Self(fd),
            // INVAL, and NOENT since Linux 6.16: the pid belongs to a thread now.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A zombie keeps its pid and start time, but has ended.
        let same =
            Stat::read(pid)?.and_then(|stat| stat.start_time()) == Some(started) && !process.has_ended()?;
        Ok(same.then_some(process))
    }

    /// Opens a process that is known to be running, or a child: its pid is not reused, because only its parent can reap it.
    pub fn running(pid: Pid) -> io::Result<Self> {
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub fn of(identity: &ProcessIdentity) -> io::Result<Option<Self>> {
        match kernel_pid(identity.pid) {
            Some(pid) => Self::open(pid, identity.start_time),
            None => Ok(None),
        }
    }

    /// Sends a signal. Returns `false` if this user may not signal the process; `true` also if it has ended already.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match rustix::process::pidfd_send_signal(&self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub fn has_ended(&self) -> io::Result<bool> {
        Ok(poll_until(&[self.as_fd()], Some(Instant::now()))?[0])
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Process> for OwnedFd {
    fn from(process: Process) -> Self {
        process.0
    }
}

/// Waits until at least one descriptor is readable or the deadline has passed; without a deadline, for ever. Returns which
/// ones are readable.
pub fn poll_until(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A timeout of centuries overflows the kernel's type, and is as good as none.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until all processes have ended, the deadline has passed, or `interrupt` is readable.
pub fn wait_for_all(processes: &[Process], deadline: Instant, interrupt: BorrowedFd<'_>) -> io::Result<()> {
    let mut left: Vec<_> = processes.iter().map(AsFd::as_fd).collect();
    while !left.is_empty() {
        let fds: Vec<_> = iter::once(interrupt).chain(left.iter().copied()).collect();
        let mut readable = poll_until(&fds, Some(deadline))?.into_iter();
        if readable.next() == Some(true) || Instant::now() >= deadline {
            return Ok(());
        }
        left.retain(|_| readable.next() == Some(false));
    }
    Ok(())
}

/// Kills the processes that `find` returns, until it returns none. Repeats, because a process may start another between
/// the search and the signal. Skips processes that this user may not signal. Returns the pid and start time of the
/// killed processes, all of which have ended.
pub fn kill_until_none(mut find: impl FnMut() -> io::Result<Vec<Row>>) -> io::Result<BTreeSet<(i32, u64)>> {
    let (mut killed, mut skipped) = (BTreeSet::new(), BTreeSet::new());
    let mut dying = Vec::new();
    loop {
        for row in find()? {
            // A process that does not die at once is found again.
            if killed.contains(&row.key()) || skipped.contains(&row.key()) {
                continue;
            }
            let Some(process) = Process::open(row.pid, row.start_time)? else { continue };
            if process.signal(Signal::KILL)? {
                killed.insert(row.key());
                dying.push(process);
            } else {
                skipped.insert(row.key());
            }
        }
        if dying.is_empty() {
            return Ok(killed);
        }
        // A killed process may stay in the kernel for a while. After a second, search again. A process that is still
        // dying is kept, because its environment is gone, so that `find` may not return it.
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut left = Vec::new();
        for process in dying {
            if !poll_until(&[process.as_fd()], Some(deadline))?[0] {
                left.push(process);
            }
        }
        dying = left;
    }
}
