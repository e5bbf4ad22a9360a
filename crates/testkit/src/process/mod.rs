//! Processes: finding those of a store's attempts, and signalling them without a race.

mod unrelated;

pub use unrelated::UnrelatedProcess;

use std::fmt;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, waitid};

use crate::wait::{DEADLINE, readable};

/// A process with its open pidfd, so that its pid cannot be reused unnoticed.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: i32,
    fd: OwnedFd,
}

impl ProcessHandle {
    /// Opens a process, if it is alive.
    pub fn of(pid: i32) -> Option<Self> {
        let fd = rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, fd }).filter(|process| !process.has_ended())
    }

    /// Opens a child of this process, which may have ended: its pid is not reused before this process reaps it.
    pub(crate) fn child(pid: i32) -> Self {
        let pidfd =
            rustix::process::pidfd_open(Pid::from_raw(pid).expect("a pid is not 0"), PidfdFlags::empty());
        Self { pid, fd: pidfd.expect("a child that is not reaped has its number") }
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn has_ended(&self) -> bool {
        readable(&self.fd, Duration::ZERO)
    }

    pub fn signal(&self, signal: Signal) {
        // It may have ended meanwhile.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Blocks until it has ended.
    #[track_caller]
    pub fn wait(&self) {
        assert!(readable(&self.fd, DEADLINE), "process {} does not end", self.pid);
    }

    /// Blocks until one of the two has ended. Returns its index.
    #[track_caller]
    pub(crate) fn first_to_end(both: [&Self; 2]) -> usize {
        let mut fds = both.map(|process| PollFd::new(&process.fd, PollFlags::IN));
        let limit = Timespec::try_from(DEADLINE).expect("a deadline is a length of time");
        rustix::event::poll(&mut fds, Some(&limit)).expect("pidfds can be polled");
        let ended = fds.iter().position(|fd| !fd.revents().is_empty());
        ended.unwrap_or_else(|| panic!("neither {} nor {} ends", both[0].pid, both[1].pid))
    }

    /// Returns the signal that ended a child, without reaping it.
    pub(crate) fn ending_signal(&self) -> Option<i32> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::PidFd(self.fd.as_fd()), options).expect("it is our child")?;
        status.terminating_signal()
    }

    /// Blocks until it has ended, at most for `length`. Returns whether it has.
    pub(crate) fn ends_within(&self, length: Duration) -> bool {
        readable(&self.fd, length)
    }

    /// Returns its command line, or nothing if it has ended.
    fn arguments(&self) -> Vec<Vec<u8>> {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    /// Opens the live shim of an attempt directory: named by the claim, and checked by its command line.
    pub fn shim(attempt_dir: &Path) -> Option<Self> {
        let claim: serde_json::Value =
            serde_json::from_slice(&fs::read(attempt_dir.join("claim")).ok()?).ok()?;
        if claim["by"] != "shim" {
            return None;
        }
        let process = Self::of(i32::try_from(claim["pid"].as_i64()?).ok()?)?;
        let arguments = process.arguments();
        let is_ours = arguments.iter().any(|argument| argument == b"__shim")
            && arguments.iter().any(|argument| argument == attempt_dir.as_os_str().as_bytes());
        is_ours.then_some(process)
    }
}

/// A live process of an attempt.
#[derive(Debug)]
pub struct AttemptProcess {
    process: ProcessHandle,
    kind: AttemptProcessKind,
    arguments: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptProcessKind {
    /// It has the mark of an attempt in its environment.
    Agent,
    Shim,
}

impl AttemptProcess {
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl fmt::Display for AttemptProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} `{}`", self.kind, self.process.pid, self.arguments)
    }
}

/// Returns every live process of this store's attempts: agents and their descendants by their mark, shims by their
/// command line.
pub fn attempt_processes(store: &Path) -> Vec<AttemptProcess> {
    let mark = [b"CALLBOARD_STORE=", store.as_os_str().as_bytes()].concat();
    let attempts = store.join("attempts");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = environment(&entry.path());
        let Some(process) = ProcessHandle::of(pid) else { continue };
        let arguments = process.arguments();
        let is_shim = arguments.iter().any(|argument| argument == b"__shim")
            && arguments
                .iter()
                .any(|argument| Path::new(std::ffi::OsStr::from_bytes(argument)).starts_with(&attempts));
        let kind = if is_shim {
            AttemptProcessKind::Shim
        } else if environment.split(|byte| *byte == 0).any(|line| line == mark) && pid != own_pid() {
            AttemptProcessKind::Agent
        } else {
            continue;
        };
        let arguments = String::from_utf8_lossy(&arguments.join(&b' ')).into_owned();
        found.push(AttemptProcess { process, kind, arguments });
    }
    found
}

/// Reads the environment of a process. It is empty for some microseconds during an exec, so an empty one is read
/// again. Kernel threads have neither program nor environment.
fn environment(process: &Path) -> Vec<u8> {
    for _ in 0..100 {
        let bytes = fs::read(process.join("environ")).unwrap_or_default();
        if !bytes.is_empty() || fs::read_link(process.join("exe")).is_err() {
            return bytes;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

/// Waits until a process is stopped. The kernel reports that to the parent only, so this polls.
#[track_caller]
pub fn wait_until_suspended(pid: i32) {
    let deadline = Instant::now() + DEADLINE;
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    while !stat().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
        assert!(Instant::now() < deadline, "process {pid} does not stop");
        std::thread::yield_now();
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

/// Fails if a process of this store's attempts is alive.
///
/// A shim that has lost its claim runs nothing and exits soon, so it is waited for.
#[track_caller]
pub fn expect_no_orphans(store: &Path) {
    let deadline = Instant::now() + DEADLINE;
    for orphan in attempt_processes(store) {
        assert!(orphan.kind == AttemptProcessKind::Shim, "left behind: {orphan}");
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(readable(&orphan.process.fd, left), "left behind: {orphan}");
    }
}

/// Returns the attempt directories of a run.
pub(crate) fn attempt_dirs(store: &Path, run: &str) -> Vec<(String, PathBuf)> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let steps = entries(&store.join("attempts").join(run));
    let attempts = steps.flat_map(|step| {
        let name = step.file_name().to_string_lossy().into_owned();
        entries(&step.path()).map(move |attempt| (name.clone(), attempt.path())).collect::<Vec<_>>()
    });
    attempts.collect()
}

/// Returns the runs of a store that have attempts, sorted by the number after the last dot of their ids: the newest peer cycle
/// is the last.
pub(crate) fn attempted_runs(store: &Path) -> Vec<String> {
    let runs = fs::read_dir(store.join("attempts")).into_iter().flatten().flatten();
    let mut runs: Vec<_> = runs.map(|run| run.file_name().to_string_lossy().into_owned()).collect();
    let number = |run: &String| run.rsplit('.').next().and_then(|number| number.parse::<u32>().ok());
    runs.sort_by_key(number);
    runs
}
