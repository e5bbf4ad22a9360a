//! The loop: one input, one decision, one commit, then the actions; and again.
//!
//! Its parts lie beside: `decisions` turns inputs into commits, `attempts` carries out the outbox, `showing` writes the
//! views, `timers` keeps the back-offs, `elsewhere` knows what is another host's affair.

mod attempts;
mod decisions;
mod partials;
mod remote;
mod showing;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use protocol::entry::Author;
use protocol::run::{Fact, Refusal, Request, RunStatus, StopCause};
use protocol::{AttemptId, Epoch, Outcome, Protocol, Revision, RunId};
use store::{CommitError, EngineLock, EngineLockError, ReadError, Store, Tenure, WriteError};
use supervisor::DirWatcher;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::partials::Partials;
use self::remote::Hosts;
use self::showing::Showing;
pub(crate) use self::timers::until;
use self::timers::{Deadlines, rested};
use crate::attempt::{AttemptEvent, Orders, WatchFailed};
use crate::engine_config::EngineConfig;
use crate::journal::{Journal, LoadError};
use crate::notice::{Notice, Observer};
use crate::restore::{Corruption, RestoreError};

/// How an engine leaves its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineExit {
    Finished(Outcome),
    Stopped(StopCause),
    /// Nothing is left to do here: attempts that may be alive are on other hosts.
    Remote,
    /// Told three times to go: attempts may be alive, and can be adopted.
    Abandoned,
}

/// What the command that makes us the engine wants of the run.
#[derive(Debug, Clone)]
pub struct EngineRequest<S> {
    pub request: Request<S>,
    /// Who wants it, if it is not just us taking the lead.
    pub by: Option<Author>,
    pub reason: Option<String>,
}

impl<S> EngineRequest<S> {
    /// To go on with the run, in our own name: the journal shows which engine took the lead, and why.
    pub fn to_resume(reason: Option<String>) -> Self {
        Self { request: Request::Resume, by: None, reason }
    }
}

/// Why an engine had to stop. What was committed stands, attempts work on, `resume` goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no run `{0}`")]
    NoSuchRun(RunId),
    #[error(transparent)]
    EngineLock(#[from] EngineLockError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Marks(#[from] WriteError),
    #[error("it was refused: {0}")]
    Refused(#[from] Refusal),
    /// Nobody of the run is on the host that was to be given up.
    #[error("no attempt of it is on `{host}`{}", whereabouts(remote))]
    NothingToAbandon {
        host: String,
        /// Whether that is this host.
        here: bool,
        remote: Vec<(AttemptId, String)>,
    },
    #[error("nobody plays agent `{agent}`, which `{step}` asks for")]
    NoProfile { agent: String, step: String },
    #[error("could not set up the watch over attempts")]
    DirWatcher(#[source] std::io::Error),
    #[error("could not attach to `{attempt}`")]
    Attach { attempt: AttemptId, source: WatchFailed },
    #[error("could not write `{}`", path.display())]
    View { path: PathBuf, source: std::io::Error },
}

fn whereabouts(remote: &[(AttemptId, String)]) -> String {
    let all: Vec<_> = remote.iter().map(|(attempt, host)| format!("`{attempt}` is on `{host}`")).collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) }
}

/// The one process that acts for a run.
pub struct Engine<'o, P: Protocol, S: Store> {
    journal: Journal<P, S>,
    lock: EngineLock,
    engine_config: EngineConfig,
    hosts: Hosts,
    dir_watcher: DirWatcher,
    observer: &'o mut dyn Observer<P>,
    /// Attempts we attend.
    attached: BTreeMap<AttemptId, Orders>,
    news: mpsc::UnboundedSender<AttemptEvent<P::Step>>,
    heard: mpsc::UnboundedReceiver<AttemptEvent<P::Step>>,
    /// Actions that were carried out; the acknowledgement rides in the next commit.
    performed: BTreeSet<String>,
    showing: Showing,
    partials: Partials<P::Step>,
    deadlines: Deadlines,
    /// The journal shows that we lead.
    introduced: bool,
    interrupts: u32,
    /// Held so that ended shims stay ours to reap, whatever we inherited.
    _children: Signal,
}

impl<P: Protocol, S: Store> fmt::Debug for Engine<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("run", &self.journal.run).field("attached", &self.attached).finish()
    }
}

impl<'o, P: Protocol, S: Store> Engine<'o, P, S> {
    /// Takes the lead of a run and loads it. Whoever [plays](Self::play) it is its engine; to [handle](Self::handle) is an
    /// errand.
    pub async fn lock(
        store: &S,
        engine_config: EngineConfig,
        run: &RunId,
        tenure: Tenure,
        observer: &'o mut dyn Observer<P>,
    ) -> Result<Self, EngineError> {
        let lock = store.lock_engine_for(run, tenure).await?;
        match prepare(store, &engine_config, run, lock.epoch(), observer).await {
            Ok((journal, dir_watcher, children)) => {
                Ok(Self::new(journal, lock, engine_config, dir_watcher, children, observer))
            }
            Err(error) => {
                lock.release().await;
                Err(error)
            }
        }
    }

    fn new(
        journal: Journal<P, S>,
        lock: EngineLock,
        engine_config: EngineConfig,
        dir_watcher: DirWatcher,
        children: Signal,
        observer: &'o mut dyn Observer<P>,
    ) -> Self {
        let (news, heard) = mpsc::unbounded_channel();
        let hosts = Hosts::of(&journal.store, engine_config.host());
        let repository = Path::new(&journal.spec.options.location.repo_dir);
        Self {
            showing: Showing::new(
                &journal.views,
                engine_config.quarantine(&journal.run),
                hosts.here(),
                repository,
            ),
            hosts,
            journal,
            lock,
            dir_watcher,
            engine_config,
            observer,
            attached: BTreeMap::new(),
            news,
            heard,
            performed: BTreeSet::new(),
            partials: Partials::new(),
            deadlines: Deadlines::default(),
            introduced: false,
            interrupts: 0,
            _children: children,
        }
    }

    /// Does nothing, and lets others lead. However an engine ends, they know before it is gone: on a store that several
    /// machines share they would else wait for its lease to run out.
    pub async fn leave(self) {
        let Self { lock, .. } = self;
        lock.release().await;
    }

    /// Forgets what was decided here and reads the run again.
    async fn reload(&mut self) -> Result<(), EngineError> {
        let Self { journal, lock, engine_config, observer, .. } = self;
        *journal =
            Box::pin(load(&journal.store, engine_config, &journal.run, lock.epoch(), *observer)).await?;
        Ok(())
    }

    pub fn journal(&self) -> &Journal<P, S> {
        &self.journal
    }

    /// Does the one thing asked for, starts nothing, and leaves.
    pub async fn handle(mut self, asked: EngineRequest<P::Step>) -> Result<(), EngineError> {
        let obliged = self.handle_now(asked).await;
        self.leave().await;
        obliged
    }

    async fn handle_now(&mut self, asked: EngineRequest<P::Step>) -> Result<(), EngineError> {
        self.recognise_views().await?;
        self.engine_config.slots = 0;
        let obliged = self.request(asked).await;
        self.write_all_views().await?;
        obliged
    }

    /// Writes every view that is missing or damaged, starts nothing, and leaves.
    pub async fn show_all(mut self) -> Result<(), EngineError> {
        let shown = self.show_all_now().await;
        self.leave().await;
        shown
    }

    async fn show_all_now(&mut self) -> Result<(), EngineError> {
        self.recognise_views().await?;
        self.write_all_views().await
    }

    /// Acts until the run rests. Each message on `interrupts` is one wish of the user that we go.
    pub async fn drive(
        mut self,
        asked: EngineRequest<P::Step>,
        interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<EngineExit, EngineError> {
        let rest = self.drive_until_rest(asked, interrupts).await;
        self.leave().await;
        rest
    }

    async fn drive_until_rest(
        &mut self,
        asked: EngineRequest<P::Step>,
        mut interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<EngineExit, EngineError> {
        self.recognise_views().await?;
        let granted = self.would_grant(&asked.request).map_err(EngineError::from);
        if let Err(refused) = granted.and_then(|()| self.may_abandon()) {
            // An earlier engine may have gone before it could show how the run ended.
            self.write_all_views().await?;
            return Err(refused);
        }
        // Watch first, look second: what is committed in between is seen twice, not missed.
        let watch = self.journal.store.watch(&self.journal.run, self.journal.position.revision).await?;
        let mut others = follow(watch);
        self.take_up()?;
        self.abandon().await?;
        self.request(asked).await?;
        loop {
            self.proceed().await?;
            self.perform()?;
            self.show();
            if let Some(rest) = self.rest() {
                self.write_all_views().await?;
                return Ok(rest);
            }
            let (timer, view_due, partial_due) = (self.next_timer(), self.showing.due(), self.partials.due());
            tokio::select! {
                Some(event) = self.heard.recv() => self.absorb_event(event).await?,
                attempt = rested(timer) => self.absorb(Fact::BackoffElapsed { attempt }, None).await?,
                () = until(view_due) => {}
                () = until(partial_due) => self.enter_partials().await?,
                Some(news) = others.recv() => {
                    let News { newest, is_foreign } = news?;
                    if is_foreign || newest > self.journal.position.revision {
                        self.catch_up().await?;
                    }
                }
                Some(()) = interrupts.recv() => {
                    if self.interrupt().await? {
                        self.write_all_views().await?;
                        return Ok(EngineExit::Abandoned);
                    }
                }
            }
        }
    }

    fn rest(&mut self) -> Option<EngineExit> {
        if !self.attached.is_empty() {
            return None;
        }
        match self.journal.state.run.status {
            RunStatus::Finished(outcome) => Some(EngineExit::Finished(outcome)),
            RunStatus::Stopped(cause) => Some(EngineExit::Stopped(cause)),
            // Whoever could go on must be able to lead, so we do not wait for it.
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => {
                let waits = self.next_timer().is_some();
                (!waits && !self.remote().is_empty()).then_some(EngineExit::Remote)
            }
        }
    }
}

/// All that an engine needs and may not get.
async fn prepare<P: Protocol, S: Store>(
    store: &S,
    engine_config: &EngineConfig,
    run: &RunId,
    epoch: Epoch,
    observer: &mut dyn Observer<P>,
) -> Result<(Journal<P, S>, DirWatcher, Signal), EngineError> {
    let journal = Box::pin(load(store, engine_config, run, epoch, observer)).await?;
    let dir_watcher = DirWatcher::new().map_err(EngineError::DirWatcher)?;
    let children = signal(SignalKind::child()).map_err(EngineError::DirWatcher)?;
    Ok((journal, dir_watcher, children))
}

/// Loads the run; a document that is not what was written is put back first, if that loses nothing or we may. So is one
/// that another client has written over, unless that can be absorbed.
async fn load<P: Protocol, S: Store>(
    store: &S,
    engine_config: &EngineConfig,
    run: &RunId,
    epoch: Epoch,
    observer: &mut dyn Observer<P>,
) -> Result<Journal<P, S>, EngineError> {
    let loaded = match Journal::load(store, &engine_config.clock, run).await {
        Err(LoadError::Corrupted { revision, what, .. }) => {
            let corruption = Corruption::<P>::examine(store, run, revision, what).await?;
            let (by, quarantine) = (engine_config.author.clone(), engine_config.quarantine(run));
            let restored = corruption.restore(
                store,
                &engine_config.clock,
                by,
                Some(epoch),
                &quarantine,
                engine_config.overrides.recover,
            );
            observer.notice(Notice::Restored(&restored.await?));
            Journal::load(store, &engine_config.clock, run).await?
        }
        loaded => loaded?,
    };
    let mut journal = loaded.ok_or_else(|| EngineError::NoSuchRun(run.clone()))?;
    Box::pin(journal.settle()).await?;
    if let Some(settled) = journal.settled.take() {
        observer.notice(Notice::Settled(&settled));
    }
    Ok(journal)
}

/// What others did.
struct News {
    newest: Revision,
    /// Somebody wrote in the place of the document.
    is_foreign: bool,
}

/// Follows the journal beside the loop, which need not look at the store at every turn.
fn follow(mut watch: store::Watch) -> mpsc::UnboundedReceiver<Result<News, ReadError>> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let entries = watch.next().await;
            let news = entries.map(|entries| News { newest: watch.after(), is_foreign: entries.is_empty() });
            let failed = news.is_err();
            if tell.send(news).is_err() || failed {
                return;
            }
        }
    });
    told
}
