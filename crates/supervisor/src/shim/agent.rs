//! The agent's own process: how it is started, signalled and reaped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{self as kernel, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::dir::AttemptDir;
use crate::exit::How;
use crate::launch::Launch;
use crate::os::{self, Process};

/// A started agent. As long as it is not reaped its number, which is also the number of its process group, cannot be
/// given to anyone else.
#[derive(Debug)]
pub(super) struct Agent {
    pid: Pid,
    pub(super) process: Process,
    logs: [File; 2],
    /// Set if it was reaped together with strays; then it ended by itself, and nobody signals its group any more.
    ended: Option<How>,
}

/// Whether we have children left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    None,
    Some,
}

impl Agent {
    /// Starts the agent in a process group of its own, writing straight to its logs. The error is for people.
    pub(super) fn start(dir: &AttemptDir, launch: &Launch) -> Result<Self, String> {
        let (program, args) = launch.argv.split_first().ok_or("its command line is empty")?;
        // Else a missing directory would look like a missing program.
        std::fs::metadata(launch.cwd.join("."))
            .map_err(|error| format!("working directory `{}`: {error}", launch.cwd.display()))?;
        let log = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            file.map_err(|error| format!("log file `{}`: {error}", path.display()))
        };
        let logs = [log(&dir.stdout())?, log(&dir.stderr())?];
        let handle = |file: &File| file.try_clone().map(Stdio::from).map_err(|error| error.to_string());
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .envs(launch.mark().variables())
            .current_dir(&launch.cwd)
            .stdin(Stdio::null())
            .stdout(handle(&logs[0])?)
            .stderr(handle(&logs[1])?)
            .process_group(0);
        os::die_with_parent(&mut command);
        let failed = |error: io::Error| format!("program `{program}`: {error}");
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        Ok(Self { pid, process: Process::child(pid).map_err(failed)?, logs, ended: None })
    }

    pub(super) fn log_sizes(&self) -> io::Result<[u64; 2]> {
        Ok([self.logs[0].metadata()?.len(), self.logs[1].metadata()?.len()])
    }

    /// Signals the agent and its group. The agent may have left the group it was given, hence both.
    pub(super) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        match kernel::kill_process_group(self.pid, signal) {
            // A stopped agent hears nothing until it is continued.
            Ok(()) if signal != Signal::KILL => match kernel::kill_process_group(self.pid, Signal::CONT) {
                Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Ok(()) | Err(Errno::SRCH | Errno::PERM) => self.process.signal(signal).map(|_| ()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reaps orphans that became our children and ended while the agent still runs, so that a long day does not fill
    /// the process table. Should the agent end at that very run_at, it is reaped with them and remembered.
    pub(super) fn reap_strays(&mut self) -> io::Result<()> {
        loop {
            match kernel::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    self.ended = Some(how(status.exit_status(), status.terminating_signal()));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reaps the ended agent.
    pub(super) fn reap(self) -> io::Result<How> {
        if let Some(how) = self.ended {
            return Ok(how);
        }
        let status = kernel::waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED)?;
        let status = status.ok_or(io::ErrorKind::NotFound)?;
        Ok(how(status.exit_status(), status.terminating_signal()))
    }
}

fn how(code: Option<i32>, signal: Option<i32>) -> How {
    match code {
        Some(code) => How::Exited { code },
        None => How::Signalled { signal: signal.unwrap_or_default() },
    }
}

/// Reaps every ended child and says whether living ones are left.
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
