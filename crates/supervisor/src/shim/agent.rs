//! The agent's process: starting, signalling and reaping it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use linux::Process;
use rustix::io::Errno;
use rustix::process::{self as kernel, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::attempt::{AttemptDir, ExitStatus, Launch};

/// A started agent. Until it is reaped, its pid, which is also the id of its process group, is not reused.
#[derive(Debug)]
pub(super) struct Agent {
    pid: Pid,
    pub(super) process: Process,
    logs: [File; 2],
    /// Set if it was reaped together with orphans. Then it ended by itself.
    ended: Option<ExitStatus>,
}

/// Whether the shim has children left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    None,
    Some,
}

impl Agent {
    /// Starts the agent in a process group of its own, with its output redirected to the logs. The error is a message
    /// for people.
    pub(super) fn start(dir: &AttemptDir, launch: &Launch) -> Result<Self, String> {
        let (program, args) = launch.argv.split_first().ok_or("its command line is empty")?;
        // Checked here, because `spawn` reports a missing directory like a missing program.
        std::fs::metadata(launch.cwd.join("."))
            .map_err(|error| format!("working directory `{}`: {error}", launch.cwd.display()))?;
        let log = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            file.map_err(|error| format!("log file `{}`: {error}", path.display()))
        };
        let logs = [log(&dir.stdout())?, log(&dir.stderr())?];
        let stdio = |file: &File| file.try_clone().map(Stdio::from).map_err(|error| error.to_string());
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .envs(launch.mark().variables())
            .current_dir(&launch.cwd)
            .stdin(Stdio::null())
            .stdout(stdio(&logs[0])?)
            .stderr(stdio(&logs[1])?)
            .process_group(0);
        linux::die_with_parent(&mut command);
        let failed = |error: io::Error| format!("program `{program}`: {error}");
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, process: Process::running(pid).map_err(failed)?, logs, ended: None })
    }

    pub(super) fn log_sizes(&self) -> io::Result<[u64; 2]> {
        Ok([self.logs[0].metadata()?.len(), self.logs[1].metadata()?.len()])
    }

    /// Signals the agent's process group. Signals the agent itself if that reached no process, because the agent may have
    /// left the group. SIGKILL always goes to both.
    pub(super) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        match kernel::kill_process_group(self.pid, signal) {
            // A stopped agent receives the signal only after it is continued.
            Ok(()) if signal != Signal::KILL => match kernel::kill_process_group(self.pid, Signal::CONT) {
                Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => self.process.signal(signal).map(|_| ()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reaps orphans that became children of the shim and ended while the agent runs, so that zombies do not fill the
    /// process table. If the agent ends at the same time, it is reaped with them and its status is kept.
    pub(super) fn reap_orphans(&mut self) -> io::Result<()> {
        loop {
            match kernel::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    self.ended = Some(exit_status(status.exit_status(), status.terminating_signal()));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reaps the ended agent. Returns how it ended.
    pub(super) fn reap(self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let status = kernel::waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED)?;
        let status = status.ok_or(io::ErrorKind::NotFound)?;
        Ok(exit_status(status.exit_status(), status.terminating_signal()))
    }
}

fn exit_status(code: Option<i32>, signal: Option<i32>) -> ExitStatus {
    match code {
        Some(code) => ExitStatus::Exited { code },
        None => ExitStatus::Signalled { signal: signal.unwrap_or_default() },
    }
}

/// Reaps every ended child. Returns whether running ones are left.
pub(super) fn reap_all() -> io::Result<Children> {
    loop {
        match kernel::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Children::Some),
            Err(Errno::CHILD) => return Ok(Children::None),
            Err(error) => return Err(error.into()),
        }
    }
}
