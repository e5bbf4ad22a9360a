//! Runs checks one after the other, each with its timeout.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linux::Process;
use protocol::checks::{CheckResult, CheckSpec};
use rustix::process::{self as kernel, Pid, Signal};

use super::output;
use crate::git::{self, GitError};

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);

/// The variables with files of the agent: its report, its prompt, a person's answer. A check does not report, and must
/// not disturb the report of its step.
const REMOVED_VARIABLES: [&str; 3] = ["REPORT_PATH", "PROMPT_PATH", "MANUAL_RESULT_PATH"];

/// Why no result can be given.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("cannot write the output of check `{check}` to `{}`", path.display())]
    Log { check: String, path: PathBuf, source: io::Error },
    #[error("cannot wait for check `{check}`")]
    Wait { check: String, source: io::Error },
    #[error("cannot determine the tree that is checked")]
    Tree(#[from] GitError),
    #[error("the checks were stopped")]
    Stopped,
}

/// Stops a [`CheckRunner`] from another thread, or from a signal handler.
#[derive(Debug, Clone)]
pub struct StopFlag {
    /// Readable once a stop was requested.
    reader: Arc<UnixStream>,
    writer: Arc<UnixStream>,
}

impl StopFlag {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader: Arc::new(reader), writer: Arc::new(writer) })
    }

    /// Stops the check that is running. No other is started.
    pub fn request(&self) {
        // Never read: if the buffer is full, it was requested before.
        let _ = io::Write::write(&mut &*self.writer, b"!");
    }

    pub fn is_requested(&self) -> bool {
        linux::poll_until(&[self.reader.as_fd()], Some(Instant::now())).is_ok_and(|ready| ready[0])
    }

    /// Stops when this process gets INT or TERM.
    pub fn on_signals(&self) -> io::Result<()> {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, self.writer.try_clone()?)?;
        }
        Ok(())
    }
}

/// Runs checks in a tree.
#[derive(Debug)]
pub struct CheckRunner<'a> {
    /// The directory in which the commands are started; its git tree is the one that is checked.
    pub tree: &'a Path,
    /// Gets a file per check with its whole output.
    pub logs_dir: &'a Path,
    /// Added to the environment of this process.
    pub env: Vec<(String, String)>,
    pub stop: StopFlag,
}

impl CheckRunner<'_> {
    /// Runs all checks, also after one that failed. `on_result` sees each result at once.
    pub fn run(
        &self,
        specs: &[CheckSpec],
        mut on_result: impl FnMut(&CheckResult),
    ) -> Result<Vec<CheckResult>, CheckError> {
        let mut results = Vec::new();
        for (spec, number) in specs.iter().zip(1..) {
            let result = self.run_one(spec, number)?;
            on_result(&result);
            results.push(result);
        }
        Ok(results)
    }

    fn run_one(&self, spec: &CheckSpec, number: usize) -> Result<CheckResult, CheckError> {
        if self.stop.is_requested() {
            return Err(CheckError::Stopped);
        }
        // Before the command, which may change files: it judges the tree that it finds.
        let tree = match git::is_work_tree(self.tree)? {
            true => Some(git::tree_hash(self.tree)?),
            false => None,
        };
        let path = self.logs_dir.join(format!("check-{number}-{}.log", file_name(&spec.name)));
        let log_failed = |source| CheckError::Log { check: spec.name.clone(), path: path.clone(), source };
        fs::create_dir_all(self.logs_dir).map_err(log_failed)?;
        let log = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let log = log.map_err(log_failed)?;
        let start = Instant::now();
        let end = self.execute(spec, log)?;
        let duration = start.elapsed();
        let output = File::open(&path).and_then(output::read).map_err(log_failed)?;
        let (exit_code, error) = match end {
            End::Exited(status) => match status.code() {
                Some(code) => (Some(code), None),
                None => (None, Some(format!("killed by signal {}", status.signal().unwrap_or_default()))),
            },
            End::NotStarted(error) => (None, Some(format!("cannot be started: {error}"))),
            End::TimedOut => (None, Some(format!("timed out after {:?}", spec.timeout))),
        };
        Ok(CheckResult {
            name: spec.name.clone(),
            command: spec.command.clone(),
            exit_code,
            error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            tree,
            output_digest: output.digest,
            output: output.tail,
            log: Some(path.to_string_lossy().into_owned()),
        })
    }

    fn execute(&self, spec: &CheckSpec, log: File) -> Result<End, CheckError> {
        let wait_failed = |source| CheckError::Wait { check: spec.name.clone(), source };
        let [program, arguments @ ..] = spec.command.as_slice() else {
            return Ok(End::NotStarted("it names no program".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.tree).stdin(Stdio::null());
        git::LOCATION_VARIABLES.iter().chain(&REMOVED_VARIABLES).for_each(|name| {
            command.env_remove(name);
        });
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        // A group of its own, so that the command is killed with what it has started.
        command.stdout(log.try_clone().map_err(wait_failed)?).stderr(log).process_group(0);
        match command.spawn() {
            Ok(child) => self.wait(child, spec.timeout).map_err(wait_failed)?.ok_or(CheckError::Stopped),
            Err(error) => Ok(End::NotStarted(error.to_string())),
        }
    }

    /// Waits for the end of the command and ends what is left of its group. Returns `None` if a stop was requested.
    fn wait(&self, mut child: Child, timeout: Duration) -> io::Result<Option<End>> {
        let waited = wait_for_group_leader(&child, &self.stop, Instant::now().checked_add(timeout))?;
        signal_group(Pid::from_child(&child), Signal::KILL)?;
        let status = child.wait()?;
        Ok(match waited {
            WaitOutcome::Ended => Some(End::Exited(status)),
            WaitOutcome::Stopped => None,
            WaitOutcome::TimedOut => Some(End::TimedOut),
        })
    }
}

/// Why the wait for a command is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Ended,
    Stopped,
    TimedOut,
}

/// Waits until the leader of a process group has ended. If a stop is requested or the deadline passes before, ends the group:
/// TERM, grace, KILL. Does not reap the leader: until then its pid, and so the id of the group, is not given to another process.
pub(crate) fn wait_for_group_leader(
    child: &Child,
    stop: &StopFlag,
    deadline: Option<Instant>,
) -> io::Result<WaitOutcome> {
    let group = Pid::from_child(child);
    let process = Process::running(group)?;
    let ready = linux::poll_until(&[process.as_fd(), stop.reader.as_fd()], deadline)?;
    let (has_ended, is_stopped) = (ready[0], ready[1]);
    if has_ended {
        return Ok(WaitOutcome::Ended);
    }
    signal_group(group, Signal::TERM)?;
    linux::poll_until(&[process.as_fd()], Some(Instant::now() + GRACE))?;
    signal_group(group, Signal::KILL)?;
    Ok(if is_stopped { WaitOutcome::Stopped } else { WaitOutcome::TimedOut })
}

/// How a command ended.
enum End {
    Exited(ExitStatus),
    NotStarted(String),
    TimedOut,
}

fn signal_group(group: Pid, signal: Signal) -> io::Result<()> {
    match kernel::kill_process_group(group, signal) {
        // PERM: all processes left in the group belong to other users.
        Ok(()) | Err(rustix::io::Errno::SRCH | rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the name of a check as a part of a file name.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' }).collect()
}
