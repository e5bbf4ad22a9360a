//! The engine's handle on one attempt: waits for its events and stops it.
//!
//! Subscribe before reading: the directory is watched before any file is read, and the shim's pidfd is open before its
//! exit record counts as missing. So no event can be missed, and an attempt that this engine started is handled like
//! one that another engine left.

use std::io;
use std::os::fd::OwnedFd;

use linux::{DirWatch, DirWatcher, Process, ProcessIdentity};
use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use super::claim::{self, ClaimError, ClaimStatus, VoidOutcome};
use super::dir::AttemptDir;
use super::exit::ExitRecord;
use super::launch::{self, Launch, ShimProgram, SpawnError};
use crate::processes::{Mark, kill_marked};

/// An event of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandleEvent {
    /// No process holds the claim: nothing was started yet, but a slow shim may still claim it. [Start](AttemptHandle::start)
    /// it, or [void](crate::void) it.
    NotStarted,
    /// A report or partial report was written and may be read. The attempt continues.
    ReportWritten,
    /// The attempt has ended, and no process of it is left.
    Ended(AttemptEnd),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The shim has written its exit record.
    Exit(ExitRecord),
    /// The shim died without an exit record, or its claim was deleted. Every process with the attempt's mark has been
    /// killed.
    Vanished,
    /// An engine voided the claim. Nothing was started, and nothing can be.
    Voided,
}

/// Why a handle could not be opened, or could not wait.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("could not watch `{path}`")]
    Watch { path: String, source: io::Error },
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("could not read `{path}`")]
    Exit { path: String, source: io::Error },
    #[error("could not wait for the shim of `{attempt}`")]
    Wait { attempt: String, source: io::Error },
    #[error("could not kill the processes that `{attempt}` left")]
    KillMarked { attempt: String, source: io::Error },
    #[error("`{attempt}` runs in another container ({}), which is out of reach", .identity.pid_namespace)]
    InOtherContainer { attempt: String, identity: ProcessIdentity },
}

/// How urgently an attempt shall end: the first Ctrl-C, or the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// TERM, grace, KILL.
    Graceful,
    /// KILL.
    Immediate,
}

/// The result of a request to stop. In every case [`AttemptHandle::next`] returns how the attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    /// The shim was signalled.
    Signalled,
    /// No shim had claimed the attempt; the claim is void now.
    Voided,
    /// It had ended already.
    Ended,
}

/// Why an attempt could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("could not signal the shim of `{attempt}`")]
    Signal { attempt: String, source: io::Error },
    #[error("the shim of `{attempt}` belongs to another user or container")]
    NotOurs { attempt: String },
}

/// An engine's handle on one attempt. Dropping it does not stop the attempt.
#[derive(Debug)]
pub struct AttemptHandle {
    dir: AttemptDir,
    mark: Mark,
    watch: DirWatch,
    /// The shim that this engine spawned. Another shim may hold the claim.
    child: Option<Child>,
    /// The pid of the spawned shim, once it has ended and is reaped.
    reaped: Option<Pid>,
    /// The shim that holds the claim, once there is no child to wait for.
    shim: Option<AsyncFd<OwnedFd>>,
    report_written: bool,
    /// The inotify instance by which the spawned shim notices every version of the report file. Kept for another attempt
    /// once the shim has ended.
    report_watch: Option<linux::ReportWatch>,
}

impl AttemptHandle {
    /// Attaches to an attempt, whether or not an engine has started it before.
    pub fn attach(dir_watcher: &DirWatcher, dir: AttemptDir, mark: Mark) -> Result<Self, AttachError> {
        let reports = [dir.report(), dir.submitted(), dir.partial()];
        let watched = dir.create().and_then(|()| dir_watcher.watch(dir.path(), &reports));
        let watch = watched.map_err(|source| AttachError::Watch { path: text(dir.path()), source })?;
        let report_written = reports.iter().any(|report| report.exists());
        Ok(Self {
            dir,
            mark,
            watch,
            child: None,
            reaped: None,
            shim: None,
            report_written,
            report_watch: None,
        })
    }

    /// Starts the attempt. A second start is harmless: only one shim gets the claim.
    pub fn start(&mut self, shim: &ShimProgram, launch: &Launch) -> Result<(), SpawnError> {
        // Fails if the user's limit of inotify instances is reached. Then earlier versions of the report file are not
        // kept.
        let watch = linux::ReportWatch::new(self.dir.path()).ok();
        let for_shim = watch.as_ref().and_then(|watch| watch.share().ok());
        self.child = Some(launch::spawn(shim, &self.dir, launch, for_shim)?);
        self.report_watch = watch;
        Ok(())
    }

    pub fn dir(&self) -> &AttemptDir {
        &self.dir
    }

    /// Waits for the next event. Cancel-safe. After [`HandleEvent::Ended`] it returns the same event again, except that an
    /// attempt with a void claim is [`AttemptEnd::Vanished`] only the first time, and [`AttemptEnd::Voided`] then.
    pub async fn next(&mut self) -> Result<HandleEvent, AttachError> {
        loop {
            if self.child.is_none() && self.shim.is_none() {
                match self.state().await? {
                    State::NotStarted => return Ok(HandleEvent::NotStarted),
                    State::Ended(end) => return Ok(HandleEvent::Ended(end)),
                    State::Running(process) => self.shim = Some(self.register_fd(process)?),
                }
            }
            if std::mem::take(&mut self.report_written) {
                return Ok(HandleEvent::ReportWritten);
            }
            let spawned = self.child.as_ref().and_then(pid);
            let wait_failed = |source| AttachError::Wait { attempt: self.mark.attempt.to_string(), source };
            // `select!` drops the losers; each of the three reports its event again when polled later.
            tokio::select! {
                biased;
                ended = wait_for_child(&mut self.child) => {
                    ended.map_err(wait_failed)?;
                    self.child = None;
                    self.reaped = spawned;
                    if let Some(watch) = self.report_watch.take() {
                        watch.recycle();
                    }
                }
                ended = wait_for_shim(self.shim.as_ref()) => {
                    ended.map_err(wait_failed)?;
                    self.shim = None;
                }
                written = self.watch.written() => {
                    written.map_err(|source| AttachError::Watch { path: text(self.dir.path()), source })?;
                    self.report_written = true;
                }
            }
        }
    }

    /// Tells the attempt to stop. Does not wait for its end.
    pub fn request_stop(&self, how: Shutdown) -> Result<StopOutcome, StopError> {
        let mut status = claim::status(&self.dir, self.reaped)?;
        if matches!(status, ClaimStatus::Unclaimed) {
            // Signal a child of ours in any case: the agent may have deleted the claim of its running shim.
            if let Some(child) = self.child()? {
                self.signal(&child, how)?;
            }
            match claim::void(&self.dir)? {
                VoidOutcome::Now | VoidOutcome::Already => return Ok(StopOutcome::Voided),
                VoidOutcome::ClaimedBy(_) => status = claim::status(&self.dir, self.reaped)?,
            }
        }
        match status {
            ClaimStatus::Alive(shim) => self.signal(&shim, how),
            ClaimStatus::Dead => Ok(StopOutcome::Ended),
            ClaimStatus::Void | ClaimStatus::Unclaimed => Ok(StopOutcome::Voided),
            ClaimStatus::InOtherContainer(_) => {
                Err(StopError::NotOurs { attempt: self.mark.attempt.to_string() })
            }
        }
    }

    /// Continues a shim that was stopped (SIGSTOP), because a stopped shim enforces no limit. Has no effect on a running
    /// one.
    pub fn continue_shim(&self) -> Result<(), StopError> {
        if let ClaimStatus::Alive(shim) = claim::status(&self.dir, None)? {
            let failed = |source| StopError::Signal { attempt: self.mark.attempt.to_string(), source };
            shim.signal(Signal::CONT).map_err(failed)?;
        }
        Ok(())
    }

    /// Opens the shim that this engine spawned. Its pid cannot be reused until it is reaped.
    fn child(&self) -> Result<Option<Process>, StopError> {
        let pid = self.child.as_ref().and_then(pid);
        let failed = |source| StopError::Signal { attempt: self.mark.attempt.to_string(), source };
        pid.map(Process::running).transpose().map_err(failed)
    }

    fn signal(&self, shim: &Process, how: Shutdown) -> Result<StopOutcome, StopError> {
        let attempt = self.mark.attempt.to_string();
        let signal = match how {
            Shutdown::Graceful => Signal::TERM,
            // The shim takes INT as: kill the agent at once. KILL would end the shim and leave the agent.
            Shutdown::Immediate => Signal::INT,
        };
        // A stopped shim receives the signal only after it is continued.
        match shim.signal(signal).and_then(|ours| Ok(ours && shim.signal(Signal::CONT)?)) {
            Ok(true) => Ok(StopOutcome::Signalled),
            Ok(false) => Err(StopError::NotOurs { attempt }),
            Err(source) => Err(StopError::Signal { attempt, source }),
        }
    }

    /// Determines the state of an attempt without a running child of this engine. A running shim counts before any exit
    /// record: until the shim has ended, the agent may have forged it.
    async fn state(&self) -> Result<State, AttachError> {
        match claim::status(&self.dir, self.reaped)? {
            ClaimStatus::Alive(process) => Ok(State::Running(process)),
            // Usually nothing was started. But if the agent has deleted the claim of its running shim, an engine may have
            // voided the attempt since. No shim can claim it any more, so every marked process is a leftover.
            ClaimStatus::Void if self.kill_marked().await? > 0 => Ok(State::Ended(AttemptEnd::Vanished)),
            ClaimStatus::Void => Ok(State::Ended(AttemptEnd::Voided)),
            ClaimStatus::Dead => self.end_of_dead_shim().await.map(State::Ended),
            ClaimStatus::Unclaimed => match self.exit_record()? {
                Some(record) => Ok(State::Ended(AttemptEnd::Exit(record))),
                None => Ok(State::NotStarted),
            },
            ClaimStatus::InOtherContainer(identity) => {
                Err(AttachError::InOtherContainer { attempt: self.mark.attempt.to_string(), identity })
            }
        }
    }

    /// Reads the exit record of a dead shim, which it may have written at the last moment. If there is none, kills the
    /// processes that it left.
    async fn end_of_dead_shim(&self) -> Result<AttemptEnd, AttachError> {
        if let Some(record) = self.exit_record()? {
            return Ok(AttemptEnd::Exit(record));
        }
        let killed = self.kill_marked().await?;
        tracing::warn!(attempt = %self.mark.attempt, killed, "the shim died; killed the processes that it left");
        Ok(AttemptEnd::Vanished)
    }

    async fn kill_marked(&self) -> Result<u32, AttachError> {
        let mark = self.mark.clone();
        let killed = tokio::task::spawn_blocking(move || kill_marked(&mark)).await;
        let killed = killed.unwrap_or_else(|error| Err(io::Error::other(error)));
        let failed = |source| AttachError::KillMarked { attempt: self.mark.attempt.to_string(), source };
        killed.map_err(failed)
    }

    fn exit_record(&self) -> Result<Option<ExitRecord>, AttachError> {
        ExitRecord::read(&self.dir)
            .map_err(|source| AttachError::Exit { path: text(&self.dir.exit()), source })
    }

    fn register_fd(&self, process: Process) -> Result<AsyncFd<OwnedFd>, AttachError> {
        let failed = |source| AttachError::Wait { attempt: self.mark.attempt.to_string(), source };
        linux::register_fd(process).map_err(failed)
    }
}

enum State {
    NotStarted,
    Running(Process),
    Ended(AttemptEnd),
}

/// Returns the pid of a child that is not reaped yet.
fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()))
}

async fn wait_for_child(child: &mut Option<Child>) -> io::Result<()> {
    match child {
        Some(child) => match child.wait().await {
            // If the parent of this process has set SIGCHLD to be ignored, the kernel has reaped the child: it has ended.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error()) => Ok(()),
            ended => ended.map(|_| ()),
        },
        None => std::future::pending().await,
    }
}

async fn wait_for_shim(shim: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match shim {
        Some(shim) => shim.readable().await.map(|_| ()),
        None => std::future::pending().await,
    }
}

fn text(path: &std::path::Path) -> String {
    path.display().to_string()
}
