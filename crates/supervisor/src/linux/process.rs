//! One process, held by a pidfd: a number may be given to another process at any time, a pidfd never.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use super::table::{Row, start_time};

/// Who a process is, for good: no other process of this or any other boot has the same four values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub boot_id: String,
    pub pid_namespace: String,
    pub pid: i32,
    /// In clock ticks since boot, as in `/proc/PID/stat`.
    pub start_time: u64,
}

impl Identity {
    pub(crate) fn of_self() -> io::Result<Self> {
        let pid = rustix::process::getpid();
        let start_time = start_time(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { boot_id: boot_id()?, pid_namespace: pid_namespace()?, pid: pid.as_raw_pid(), start_time })
    }

    pub(crate) fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot_id == boot_id()?)
    }

    pub(crate) fn is_in_our_namespace(&self) -> io::Result<bool> {
        Ok(self.pid_namespace == pid_namespace()?)
    }
}

/// Which boot of the machine this is; every boot has another.
pub fn boot_id() -> io::Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    once(&KNOWN, || Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned()))
}

fn pid_namespace() -> io::Result<String> {
    static KNOWN: OnceLock<String> = OnceLock::new();
    once(&KNOWN, || Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned()))
}

/// Asks for what never changes while this process lives until it has been answered.
fn once(known: &OnceLock<String>, ask: impl FnOnce() -> io::Result<String>) -> io::Result<String> {
    match known.get() {
        Some(answer) => Ok(answer.clone()),
        None => ask().map(|answer| known.get_or_init(|| answer).clone()),
    }
}

/// A process that lived when we took hold of it.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// Takes hold of the process with this number, if it is still the one that started then and has not ended.
    ///
    /// The order matters: first hold it, then compare. What is compared is then what is held.
    pub(crate) fn open(pid: Pid, started: u64) -> io::Result<Option<Self>> {
        let process = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Self(fd),
            // INVAL: the number belongs to a thread by now.
            Err(Errno::SRCH | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // A zombie keeps its number and start time; it has ended all the same.
        let same = start_time(pid)? == Some(started) && !process.has_ended()?;
        Ok(same.then_some(process))
    }

    /// Takes hold of our own child, which nobody but us can reap.
    pub(crate) fn child(pid: Pid) -> io::Result<Self> {
        Ok(Self(rustix::process::pidfd_open(pid, PidfdFlags::empty())?))
    }

    pub(crate) fn of(identity: &Identity) -> io::Result<Option<Self>> {
        match Pid::from_raw(identity.pid) {
            Some(pid) => Self::open(pid, identity.start_time),
            None => Ok(None),
        }
    }

    /// Sends the signal; `false` if the process is not ours to signal. One that has ended needs none.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        match rustix::process::pidfd_send_signal(&self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(true),
            Err(Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn has_ended(&self) -> io::Result<bool> {
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

/// Waits until one of the descriptors is readable or the deadline has come, and says which are. `None` waits for ever.
pub(crate) fn poll_until(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A limit of centuries overflows the kernel's type; waiting for ever is the same.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until all the processes have ended, the deadline has come, or `hurry` is readable.
pub(crate) fn wait_for_all(
    processes: &[Process],
    deadline: Instant,
    hurry: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut left: Vec<_> = processes.iter().map(AsFd::as_fd).collect();
    while !left.is_empty() {
        let fds: Vec<_> = iter::once(hurry).chain(left.iter().copied()).collect();
        let mut readable = poll_until(&fds, Some(deadline))?.into_iter();
        if readable.next() == Some(true) || Instant::now() >= deadline {
            return Ok(());
        }
        left.retain(|_| readable.next() == Some(false));
    }
    Ok(())
}

/// Asks again and again who is left and kills them, for between question and signal each may have started another.
/// Those who are not ours to kill are passed over. Says who was killed.
pub(crate) fn kill_until_none(
    mut who: impl FnMut() -> io::Result<Vec<Row>>,
) -> io::Result<BTreeSet<(i32, u64)>> {
    let (mut killed, mut spared) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let mut dying = Vec::new();
        for row in who()? {
            let Some(process) = Process::open(row.pid, row.start_time)? else { continue };
            if spared.contains(&row.key()) {
                continue;
            }
            if process.signal(Signal::KILL)? {
                killed.insert(row.key());
                dying.push(process);
            } else {
                spared.insert(row.key());
            }
        }
        if dying.is_empty() {
            return Ok(killed);
        }
        // Killed is not yet ended: a process may sit in the kernel for a while. We look again meanwhile.
        let soon = Instant::now() + Duration::from_secs(1);
        for process in dying {
            poll_until(&[process.as_fd()], Some(soon))?;
        }
    }
}
