//! What the engine holds per attempt, fresh or found: the means to hear what it does and to order its end.
//!
//! Subscribe before you look: the watch on the directory stands before anything is read, and the pidfd of the shim is
//! taken before its exit record is believed missing. So there is no run_at at which news can fall between, and no
//! difference between an attempt of ours and one whose engine died.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

use crate::claim::{self, ClaimError, Standing, Voided};
use crate::dir::AttemptDir;
use crate::exit::ExitRecord;
use crate::launch::{self, Launch, ShimProgram, SpawnError};
use crate::mark::{self, Mark};
use crate::os::{self, DirWatch, DirWatcher, Identity, Process};

/// News of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A report, or a part of one, was written, or written anew: it may be looked at. The attempt goes on.
    Wrote,
    /// The attempt is over, and no process of it is left.
    Over(Over),
}

/// How an attempt is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// The shim has seen it to its end.
    Exit(ExitRecord),
    /// The shim died without an exit record. Everything with the attempt's mark has been killed.
    Vanished,
    /// Nobody holds the claim. Nothing was ever started, but a slow shim may still come: launch again or
    /// [void](crate::void) it.
    Unclaimed,
    /// An engine voided the claim. Nothing was ever started and nothing can be.
    Voided,
}

/// Why an attempt could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("could not watch `{path}`")]
    Watch { path: String, source: io::Error },
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("could not read `{path}`")]
    Exit { path: String, source: io::Error },
    #[error("could not wait for the shim of `{attempt}`")]
    Wait { attempt: String, source: io::Error },
    #[error("could not end what is left of `{attempt}`")]
    Sweep { attempt: String, source: io::Error },
    #[error("`{attempt}` runs in another container ({}), where we cannot reach it", .identity.pid_namespace)]
    Remote { attempt: String, identity: Identity },
}

/// How urgently an attempt is to end: the first Ctrl-C, or the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// TERM, grace, KILL.
    Once,
    /// KILL.
    Twice,
}

/// What came of an order to end. In every case [`AttemptHandle::next`] tells the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// The shim has been told.
    Told,
    /// No shim had begun; the claim is void now.
    Voided,
    /// It was over already.
    Over,
}

/// Why an end could not be ordered.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("could not signal the shim of `{attempt}`")]
    Signal { attempt: String, source: io::Error },
    #[error("the shim of `{attempt}` belongs to another user or container")]
    NotOurs { attempt: String },
}

/// An engine's hold on one attempt. Dropping it lets the attempt go on unattended.
#[derive(Debug)]
pub struct AttemptHandle {
    dir: AttemptDir,
    mark: Mark,
    watch: DirWatch,
    /// The shim we spawned ourselves. It need not be the one that holds the claim.
    child: Option<Child>,
    /// The number of the shim we spawned, once it has ended and is reaped.
    reaped: Option<Pid>,
    /// The shim that holds the claim, once we have no child to wait for.
    shim: Option<AsyncFd<OwnedFd>>,
    wrote: bool,
}

impl AttemptHandle {
    /// Starts the attempt and attends it.
    pub fn launch(
        dir_watcher: &DirWatcher,
        shim: &ShimProgram,
        dir: AttemptDir,
        launch: &Launch,
    ) -> Result<Self, AttachError> {
        let mut handle = Self::adopt(dir_watcher, dir, launch.mark())?;
        handle.child = Some(launch::spawn(shim, &handle.dir, launch)?);
        Ok(handle)
    }

    /// Attends an attempt that may have been started before, by whomever.
    pub fn adopt(dir_watcher: &DirWatcher, dir: AttemptDir, mark: Mark) -> Result<Self, AttachError> {
        let reports = [dir.report(), dir.submitted(), dir.partial()];
        let watched = dir.create().and_then(|()| dir_watcher.watch(dir.path(), &reports));
        let watch = watched.map_err(|source| AttachError::Watch { path: text(dir.path()), source })?;
        let wrote = reports.iter().any(|report| report.exists());
        Ok(Self { dir, mark, watch, child: None, reaped: None, shim: None, wrote })
    }

    pub fn dir(&self) -> &AttemptDir {
        &self.dir
    }

    /// Waits for the next news. Cancel-safe; asked again after [`News::Over`], it says the same again.
    pub async fn next(&mut self) -> Result<News, AttachError> {
        loop {
            if self.child.is_none() && self.shim.is_none() {
                match self.look().await? {
                    Look::Over(over) => return Ok(News::Over(over)),
                    Look::Runs(process) => self.shim = Some(self.listen(process)?),
                }
            }
            if std::mem::take(&mut self.wrote) {
                return Ok(News::Wrote);
            }
            let spawned = self.child.as_ref().and_then(number);
            let waiting = |source| AttachError::Wait { attempt: self.mark.attempt.to_string(), source };
            // `select!` drops the losers; each of the three keeps its news until it is asked again.
            tokio::select! {
                biased;
                ended = ended(&mut self.child) => {
                    ended.map_err(waiting)?;
                    self.child = None;
                    self.reaped = spawned;
                }
                ended = readable(self.shim.as_ref()) => {
                    ended.map_err(waiting)?;
                    self.shim = None;
                }
                written = self.watch.written() => {
                    written.map_err(|source| AttachError::Watch { path: text(self.dir.path()), source })?;
                    self.wrote = true;
                }
            }
        }
    }

    /// Orders the attempt to end. Does not wait for it.
    pub fn order_end(&self, how: Shutdown) -> Result<Ordered, OrderError> {
        let mut standing = claim::standing(&self.dir, self.reaped)?;
        if matches!(standing, Standing::Nobody) {
            // A child of ours is told in any case: the agent may have removed the claim of a shim that is at work.
            if let Some(child) = self.child()? {
                self.signal(&child, how)?;
            }
            match claim::void(&self.dir)? {
                Voided::Now | Voided::Already => return Ok(Ordered::Voided),
                Voided::ClaimedBy(_) => standing = claim::standing(&self.dir, self.reaped)?,
            }
        }
        match standing {
            Standing::Alive(shim) => self.signal(&shim, how),
            Standing::Dead => Ok(Ordered::Over),
            Standing::Void | Standing::Nobody => Ok(Ordered::Voided),
            Standing::Remote(_) => Err(OrderError::NotOurs { attempt: self.mark.attempt.to_string() }),
        }
    }

    /// Continues a shim that was stopped: it keeps no limit meanwhile. Any other takes no notice.
    pub fn rouse(&self) -> Result<(), OrderError> {
        if let Standing::Alive(shim) = claim::standing(&self.dir, None)? {
            let failed = |source| OrderError::Signal { attempt: self.mark.attempt.to_string(), source };
            shim.signal(Signal::CONT).map_err(failed)?;
        }
        Ok(())
    }

    /// The shim we started ourselves, as long as we have not reaped it: nobody else can have its number.
    fn child(&self) -> Result<Option<Process>, OrderError> {
        let pid = self.child.as_ref().and_then(number);
        let failed = |source| OrderError::Signal { attempt: self.mark.attempt.to_string(), source };
        pid.map(Process::child).transpose().map_err(failed)
    }

    fn signal(&self, shim: &Process, how: Shutdown) -> Result<Ordered, OrderError> {
        let attempt = self.mark.attempt.to_string();
        let signal = match how {
            Shutdown::Once => Signal::TERM,
            Shutdown::Twice => Signal::INT,
        };
        // A stopped shim hears nothing until it is continued.
        match shim.signal(signal).and_then(|ours| Ok(ours && shim.signal(Signal::CONT)?)) {
            Ok(true) => Ok(Ordered::Told),
            Ok(false) => Err(OrderError::NotOurs { attempt }),
            Err(source) => Err(OrderError::Signal { attempt, source }),
        }
    }

    /// Looks how the attempt stands, with no child of ours in it (any more). The living come first: an exit record may
    /// be anybody's as long as the shim has not ended.
    async fn look(&self) -> Result<Look, AttachError> {
        match claim::standing(&self.dir, self.reaped)? {
            Standing::Alive(process) => Ok(Look::Runs(process)),
            Standing::Void => Ok(Look::Over(Over::Voided)),
            Standing::Dead => self.bury().await.map(Look::Over),
            Standing::Nobody => match self.exit_record()? {
                Some(record) => Ok(Look::Over(Over::Exit(record))),
                None => Ok(Look::Over(Over::Unclaimed)),
            },
            Standing::Remote(identity) => {
                Err(AttachError::Remote { attempt: self.mark.attempt.to_string(), identity })
            }
        }
    }

    /// The shim is dead. It may have written its record after we looked for it; else we end what it left.
    async fn bury(&self) -> Result<Over, AttachError> {
        if let Some(record) = self.exit_record()? {
            return Ok(Over::Exit(record));
        }
        let mark = self.mark.clone();
        let swept = tokio::task::spawn_blocking(move || mark::sweep(&mark)).await;
        let swept = swept.unwrap_or_else(|error| Err(io::Error::other(error)));
        let failed = |source| AttachError::Sweep { attempt: self.mark.attempt.to_string(), source };
        let swept = swept.map_err(failed)?;
        tracing::warn!(attempt = %self.mark.attempt, swept, "the shim died; what it left has been ended");
        Ok(Over::Vanished)
    }

    fn exit_record(&self) -> Result<Option<ExitRecord>, AttachError> {
        ExitRecord::read(&self.dir)
            .map_err(|source| AttachError::Exit { path: text(&self.dir.exit()), source })
    }

    fn listen(&self, process: Process) -> Result<AsyncFd<OwnedFd>, AttachError> {
        let failed = |source| AttachError::Wait { attempt: self.mark.attempt.to_string(), source };
        os::listen(process).map_err(failed)
    }
}

enum Look {
    Runs(Process),
    Over(Over),
}

/// The number of a child that is not reaped yet.
fn number(child: &Child) -> Option<Pid> {
    child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()))
}

async fn ended(child: &mut Option<Child>) -> io::Result<()> {
    match child {
        Some(child) => match child.wait().await {
            // Whoever started us may have asked the kernel to reap our children: then it has ended all the same.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::CHILD.raw_os_error()) => Ok(()),
            ended => ended.map(|_| ()),
        },
        None => std::future::pending().await,
    }
}

async fn readable(shim: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match shim {
        Some(shim) => shim.readable().await.map(|_| ()),
        None => std::future::pending().await,
    }
}

fn text(path: &std::path::Path) -> String {
    path.display().to_string()
}
