//! The task that watches one attempt from its start to its end.

use std::io;
use std::sync::Arc;

use protocol::AttemptId;
use supervisor::checks::StopFlag;
use supervisor::report::{Collected, collect};
use supervisor::{
    AttachError, AttemptEnd, AttemptHandle, ClaimError, HandleEvent, Shutdown, StopError, VoidOutcome, void,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::effect::EffectEnd;
use super::spec::{AttemptOrigin, AttemptSpec, NotStarted};
use crate::engine::{NoAdapter, sleep_until};
use crate::error_chain::with_causes;

/// How the process of an attempt ended. A shim claims an attempt before it starts the agent; once the claim is void, no shim
/// can start it.
#[derive(Debug)]
pub(crate) enum ProcessOutcome {
    /// With a note for the user about the worktree, if one is needed.
    Ended(AttemptEnd, Option<String>),
    /// Its shim ended before it claimed the attempt.
    Unclaimed,
    /// The attempt could not be prepared, or no shim could be spawned.
    NotStarted(String),
    /// It ended, and what it left in its worktree cannot be committed for this reason.
    NotCommitted(AttemptEnd, String),
}

/// What the task of an attempt tells the engine.
#[derive(Debug)]
pub(crate) enum AttemptEvent {
    Ended {
        attempt: AttemptId,
        spec: Arc<AttemptSpec>,
        end: ProcessOutcome,
    },
    /// The attempt has written a partial report.
    Partial {
        attempt: AttemptId,
    },
    /// The attempt has reported and does not exit.
    Lingering {
        attempt: AttemptId,
    },
    /// The attempt is to be started, and no command is configured for its agent.
    NoAdapter(NoAdapter),
    /// An effect was performed, or failed.
    EffectEnded {
        attempt: AttemptId,
        ended: EffectEnd,
    },
    /// The task cannot watch the attempt any more.
    WatchFailed {
        attempt: AttemptId,
        source: WatchFailed,
    },
}

/// Why a task cannot watch its attempt any more.
#[derive(Debug, thiserror::Error)]
pub enum WatchFailed {
    #[error("the machine is short of a resource")]
    Shortage(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no command is configured for its agent")]
    NoAdapter(NoAdapter),
    #[error("its remaining processes cannot be killed")]
    Kill(#[source] io::Error),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(transparent)]
    RequestStop(#[from] StopError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

/// The engine's handle to the task of an attempt.
#[derive(Debug)]
pub(crate) struct TaskHandle(mpsc::UnboundedSender<Shutdown>);

impl TaskHandle {
    /// Returns a handle whose task has ended.
    pub(super) fn ended() -> Self {
        Self(mpsc::unbounded_channel().0)
    }

    /// Returns the handle of an effect. Each stop request goes to `stop`; the effect ends at its next safe point.
    pub(super) fn of_effect(stop: StopFlag) -> Self {
        let (sender, mut shutdowns) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while shutdowns.recv().await.is_some() {
                stop.request();
            }
        });
        Self(sender)
    }

    pub(crate) fn stop(&self, shutdown: Shutdown) {
        // A task that has ended has no process left to stop.
        let _ = self.0.send(shutdown);
    }
}

/// Spawns the task of an attempt: it starts the attempt, or adopts it if it was started before.
pub(crate) fn spawn_task(
    spec: AttemptSpec,
    attempt: AttemptId,
    events: mpsc::UnboundedSender<AttemptEvent>,
) -> TaskHandle {
    let (sender, shutdowns) = mpsc::unbounded_channel();
    let span = tracing::info_span!("attempt", id = %attempt);
    let task = async move {
        let mut task =
            AttemptTask { spec: Arc::new(spec), shutdowns, linger_deadline: None, wake_shim_at: None };
        let notify_engine = |progress| {
            // If the engine is gone, the next one finds the report on disk.
            let _ = events.send(match progress {
                Progress::Lingering => AttemptEvent::Lingering { attempt: attempt.clone() },
                Progress::PartialReport => AttemptEvent::Partial { attempt: attempt.clone() },
            });
        };
        let event = match task.run_to_end(notify_engine).await {
            Ok(end) => AttemptEvent::Ended { attempt, spec: task.spec, end },
            Err(WatchFailed::NoAdapter(missing)) => AttemptEvent::NoAdapter(missing),
            Err(source) => AttemptEvent::WatchFailed { attempt, source },
        };
        // If the engine is gone, the next one finds the end on disk.
        let _ = events.send(event);
    };
    tokio::spawn(task.instrument(span));
    TaskHandle(sender)
}

/// Events while the attempt is running.
enum Progress {
    Lingering,
    PartialReport,
}

struct AttemptTask {
    spec: Arc<AttemptSpec>,
    shutdowns: mpsc::UnboundedReceiver<Shutdown>,
    /// When the attempt is asked to stop because it has a valid report and has not exited.
    linger_deadline: Option<Instant>,
    /// When the shim gets one SIGCONT. The shim enforces the timeout; if it still runs after that, it may be suspended.
    wake_shim_at: Option<Instant>,
}

impl AttemptTask {
    /// Starts or adopts the attempt, and watches it until it has ended.
    async fn run_to_end(&mut self, notify_engine: impl Fn(Progress)) -> Result<ProcessOutcome, WatchFailed> {
        let (dir, mark) = (self.spec.dir.clone(), self.spec.mark.clone());
        let mut handle = AttemptHandle::attach(&self.spec.dir_watcher, dir, mark)?;
        let mut launched = false;
        self.wake_shim_at_timeout();
        loop {
            tokio::select! {
                biased;
                Some(shutdown) = self.shutdowns.recv() => {
                    handle.request_stop(shutdown)?;
                }
                event = handle.next() => match event? {
                    HandleEvent::ReportWritten => {
                        self.set_linger_deadline();
                        if supervisor::partial::has_partial(&self.spec.dir) {
                            notify_engine(Progress::PartialReport);
                        }
                    }
                    // The spawned shim ended without a claim.
                    HandleEvent::NotStarted if launched => {
                        if self.void_claim()? {
                            self.discard_copies().await;
                            return Ok(ProcessOutcome::Unclaimed);
                        }
                    }
                    HandleEvent::NotStarted => {
                        launched = true;
                        if let Some(end) = self.start(&mut handle).await? {
                            return Ok(end);
                        }
                        // The preparation of the worktree may have taken longer than the timeout.
                        self.wake_shim_at_timeout();
                    }
                    HandleEvent::Ended(AttemptEnd::Voided) => {
                        // No agent has worked in the worktree, and its setup may have been stopped.
                        self.discard_copies().await;
                        return Ok(ProcessOutcome::Ended(AttemptEnd::Voided, None));
                    }
                    HandleEvent::Ended(end) => return Ok(self.commit_tree(end).await),
                },
                () = sleep_until(self.wake_shim_at) => {
                    self.wake_shim_at = None;
                    handle.continue_shim()?;
                }
                () = sleep_until(self.linger_deadline) => {
                    self.linger_deadline = None;
                    notify_engine(Progress::Lingering);
                    handle.request_stop(Shutdown::Graceful)?;
                }
            }
        }
    }

    fn wake_shim_at_timeout(&mut self) {
        self.wake_shim_at = self.spec.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
    }

    /// Starts the attempt. Returns its end if it cannot be started, or if only processes without a claim were left of it.
    async fn start(&mut self, handle: &mut AttemptHandle) -> Result<Option<ProcessOutcome>, WatchFailed> {
        if self.kill_unclaimed().await? {
            return Ok(Some(ProcessOutcome::Ended(AttemptEnd::Vanished, None)));
        }
        let started = match self.prepare_tree(handle).await? {
            // A request to stop has voided its claim.
            None => return Ok(None),
            Some(prepared) => prepared.and_then(|git_variables| self.spec.start(handle, git_variables)),
        };
        match started {
            Ok(()) => Ok(None),
            Err(NotStarted::NoAdapter(missing)) => Err(WatchFailed::NoAdapter(missing)),
            Err(error) if error.is_resource_shortage() => Err(WatchFailed::Shortage(error.into())),
            Err(error) if self.void_claim()? => {
                self.discard_copies().await;
                Ok(Some(ProcessOutcome::NotStarted(with_causes(&error))))
            }
            // An earlier shim was slow and has the claim after all.
            Err(_) => Ok(None),
        }
    }

    /// Prepares the worktree and returns the variables that git needs there. A request to stop ends the setup command
    /// and voids the claim; then this returns `None`.
    async fn prepare_tree(
        &mut self,
        handle: &AttemptHandle,
    ) -> Result<Option<Result<Vec<(String, String)>, NotStarted>>, WatchFailed> {
        if !self.spec.has_worktrees() {
            let Ok(shutdown) = self.shutdowns.try_recv() else { return Ok(Some(Ok(Vec::new()))) };
            handle.request_stop(shutdown)?;
            return Ok(None);
        }
        let stop = match StopFlag::new() {
            Ok(stop) => stop,
            Err(error) => return Ok(Some(Err(error.into()))),
        };
        let (spec, setup_stop) = (Arc::clone(&self.spec), stop.clone());
        let mut preparation = tokio::task::spawn_blocking(move || spec.prepare_tree(stop));
        let mut is_stopped = false;
        loop {
            tokio::select! {
                biased;
                Some(shutdown) = self.shutdowns.recv() => {
                    setup_stop.request();
                    is_stopped = true;
                    handle.request_stop(shutdown)?;
                }
                prepared = &mut preparation => {
                    let prepared = prepared.expect("BUG: an action on the worktree has panicked");
                    return Ok((!is_stopped).then_some(prepared.map_err(NotStarted::from)));
                }
            }
        }
    }

    /// Commits what the attempt has left in its worktree. If this engine is killed before it records the end, the next one commits
    /// again.
    async fn commit_tree(&self, end: AttemptEnd) -> ProcessOutcome {
        match self.run_blocking(AttemptSpec::commit_tree).await {
            Ok(note) => ProcessOutcome::Ended(end, note),
            Err(error) => ProcessOutcome::NotCommitted(end, with_causes(&error)),
        }
    }

    /// Removes the private copies from the worktree, because the attempt was not started.
    async fn discard_copies(&self) {
        if let Err(error) = self.run_blocking(AttemptSpec::discard_copies).await {
            // They are not committed in any case.
            tracing::warn!(error = with_causes(&error), "private copies are left in the worktree");
        }
    }

    /// Runs an action in a thread for blocking work. Without worktrees it has nothing to do and needs no thread.
    async fn run_blocking<T: Send + 'static>(&self, action: fn(&AttemptSpec) -> T) -> T {
        if !self.spec.has_worktrees() {
            return action(&self.spec);
        }
        let spec = Arc::clone(&self.spec);
        tokio::task::spawn_blocking(move || action(&spec))
            .await
            .expect("BUG: an action on the worktree has panicked")
    }

    /// Kills processes that run without a claim, because the attempt's directory was deleted while it ran. Returns whether there
    /// were any.
    async fn kill_unclaimed(&self) -> Result<bool, WatchFailed> {
        match self.spec.origin {
            AttemptOrigin::New => Ok(false),
            // An earlier engine may have started it.
            AttemptOrigin::MaybeStarted => {
                let (dir, mark) = (self.spec.dir.clone(), self.spec.mark.clone());
                let kill = move || supervisor::kill_marked_unclaimed(&dir, &mark);
                let killed = tokio::task::spawn_blocking(kill).await;
                let killed = killed.unwrap_or_else(|error| Err(io::Error::other(error)));
                Ok(killed.map_err(WatchFailed::Kill)? > 0)
            }
        }
    }

    /// Sets the deadline for the process to exit, if its report is valid.
    fn set_linger_deadline(&mut self) {
        if let Collected::Valid(..) = collect(&self.spec.dir, &self.spec.expected) {
            self.linger_deadline.get_or_insert_with(|| Instant::now() + self.spec.linger_timeout);
        }
    }

    /// Voids the claim so that no shim can start the attempt. Returns `false` if a shim has claimed it already.
    fn void_claim(&self) -> Result<bool, ClaimError> {
        match void(&self.spec.dir)? {
            VoidOutcome::Now | VoidOutcome::Already => Ok(true),
            VoidOutcome::ClaimedBy(_) => Ok(false),
        }
    }
}
