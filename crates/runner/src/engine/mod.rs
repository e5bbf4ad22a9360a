//! The engine loop: one input, one decision, one commit, then the actions; and again.
//!
//! `decisions` turns inputs into commits, `attempts` performs the outbox, `views` writes the view files, `timers` waits
//! for back-offs, `answer_files` for answers in files, `partial_reports` commits what attempts report before their end,
//! and `remote` keeps track of attempts on other hosts.

mod answer_files;
mod attempts;
mod config;
mod decisions;
mod error;
mod observer;
mod partial_reports;
mod remote;
mod roles;
mod timers;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use linux::DirWatcher;
use protocol::run::{Fact, RunStatus};
use protocol::{AttemptId, Epoch, Revision, RunId, StepId, Turn};
use store::{EngineLock, LockPurpose, ReadError, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use self::answer_files::AnswerFiles;
pub use self::config::{AbandonedHost, AgentProfile, EngineConfig, GRACE, Overrides};
pub use self::error::{EngineError, EngineExit, EngineRequest};
pub use self::observer::{Notice, Observer};
use self::partial_reports::PartialReports;
use self::remote::ThisHost;
pub use self::roles::{Assigned, DEFAULT_ROLE, NoAdapter, Role, RoleName, RoleQuery};
pub(crate) use self::timers::sleep_until;
use self::timers::{Deadlines, backoff_elapsed};
use self::views::RunViews;
use crate::attempt::{AttemptEvent, TaskHandle};
use crate::recovery::Corruption;
use crate::run::{Journal, LoadError, RunAtRevision, find_kind};

/// The engine of one run: its loop and all that the loop needs.
pub struct Engine<'o> {
    journal: Journal,
    lock: EngineLock,
    engine_config: EngineConfig,
    this_host: ThisHost,
    dir_watcher: DirWatcher,
    observer: &'o mut dyn Observer,
    /// Attempts that have a task in this process.
    attached: BTreeMap<AttemptId, TaskHandle>,
    event_sender: mpsc::UnboundedSender<AttemptEvent>,
    events: mpsc::UnboundedReceiver<AttemptEvent>,
    /// The ids of outbox items that were performed. The next commit acknowledges them.
    performed: BTreeSet<String>,
    views: RunViews,
    partial_reports: PartialReports,
    deadlines: Deadlines,
    answer_files: AnswerFiles,
    /// The questions that were shown to the observer.
    asked: BTreeSet<(StepId, Turn)>,
    /// The journal has an entry of this engine.
    start_recorded: bool,
    interrupts: u32,
    /// A SIGCHLD handler: with an inherited `SIG_IGN`, the kernel would reap the shims before tokio can.
    _children: Signal,
}

impl fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("run", &self.journal.run).field("attached", &self.attached).finish()
    }
}

impl<'o> Engine<'o> {
    /// Takes the engine lock of a run and loads the run. [`drive`](Self::drive) runs the loop; [`handle`](Self::handle)
    /// performs a single request.
    pub async fn lock(
        store: &Arc<dyn Store>,
        engine_config: EngineConfig,
        run: &RunId,
        purpose: LockPurpose,
        observer: &'o mut dyn Observer,
    ) -> Result<Self, EngineError> {
        let lock = store.lock_engine_for(run, purpose).await?;
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
        journal: Journal,
        lock: EngineLock,
        engine_config: EngineConfig,
        dir_watcher: DirWatcher,
        children: Signal,
        observer: &'o mut dyn Observer,
    ) -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        let this_host = ThisHost::of(journal.store.as_ref(), engine_config.host());
        let answer_files = AnswerFiles::new(&journal);
        let repository = Path::new(&journal.spec.options.location.repo_dir);
        Self {
            views: RunViews::new(
                &journal.views,
                engine_config.quarantine(&journal.run),
                this_host.local(),
                repository,
            ),
            this_host,
            journal,
            lock,
            dir_watcher,
            engine_config,
            observer,
            attached: BTreeMap::new(),
            event_sender,
            events,
            performed: BTreeSet::new(),
            partial_reports: PartialReports::default(),
            deadlines: Deadlines::default(),
            answer_files,
            asked: BTreeSet::new(),
            start_recorded: false,
            interrupts: 0,
            _children: children,
        }
    }

    /// Releases the engine lock. Every exit must do so: on a shared store, other hosts would otherwise wait until the
    /// lease expires.
    pub async fn release(self) {
        let Self { lock, .. } = self;
        lock.release().await;
    }

    /// Drops decisions that were not committed, loads the run again, and shows the observer what other clients have committed.
    async fn reload(&mut self) -> Result<(), EngineError> {
        let Self { journal, lock, engine_config, observer, .. } = self;
        let known = journal.position.revision;
        *journal =
            Box::pin(load(&journal.store, engine_config, &journal.run, lock.epoch(), *observer)).await?;
        for revision in known.0 + 1..=journal.position.revision.0 {
            let revision = Revision(revision);
            if let Some(entry) = journal.entry(revision).await? {
                observer.notice(Notice::Committed { machine: journal.machine(), revision, entry: &entry });
            }
        }
        Ok(())
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Commits one request without starting anything, writes the views, and releases the lock.
    pub async fn handle(mut self, request: EngineRequest) -> Result<(), EngineError> {
        let result = self.handle_now(request).await;
        self.release().await;
        result
    }

    async fn handle_now(&mut self, request: EngineRequest) -> Result<(), EngineError> {
        self.recover_views().await?;
        // Without a slot the decision starts no attempt.
        self.engine_config.slots = 0;
        let result = self.request(request).await;
        self.write_all_views().await?;
        result
    }

    /// Writes every view that is missing or damaged, starts nothing, and releases the lock.
    pub async fn write_views(mut self) -> Result<(), EngineError> {
        let result = self.write_views_now().await;
        self.release().await;
        result
    }

    /// Performs deferred transitions, writes the views, starts nothing, and releases the lock.
    pub async fn make_deferred_transitions_only(mut self) -> Result<(), EngineError> {
        let result = self.make_transitions_and_write_views().await;
        self.release().await;
        result
    }

    async fn make_transitions_and_write_views(&mut self) -> Result<(), EngineError> {
        self.recover_views().await?;
        self.engine_config.slots = 0;
        self.make_deferred_transitions().await?;
        self.write_all_views().await
    }

    async fn write_views_now(&mut self) -> Result<(), EngineError> {
        self.recover_views().await?;
        self.write_all_views().await
    }

    /// Drives the run until it ends, stops, has live attempts on other hosts only, or, with `exit_when_waiting`, waits for an
    /// answer. Each message on `interrupts` is one request of the user to exit: the first stops the attempts gracefully, the
    /// second kills them, the third leaves them alive.
    pub async fn drive(
        self,
        request: EngineRequest,
        interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<EngineExit, EngineError> {
        self.drive_to_exit(request, interrupts).await.map(|(exit, _)| exit)
    }

    /// [Drives](Self::drive) the run, and returns it as the engine left it.
    pub async fn drive_to_exit(
        mut self,
        request: EngineRequest,
        interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<(EngineExit, RunAtRevision), EngineError> {
        let span = tracing::info_span!("run", id = %self.journal.run);
        let exit = self.run_loop(request, interrupts).instrument(span).await;
        let Self { lock, journal, .. } = self;
        lock.release().await;
        Ok((exit?, journal.into()))
    }

    async fn run_loop(
        &mut self,
        request: EngineRequest,
        mut interrupts: mpsc::UnboundedReceiver<()>,
    ) -> Result<EngineExit, EngineError> {
        self.recover_views().await?;
        let granted = self.would_grant(&request.request).map_err(EngineError::from);
        if let Err(refused) = granted.and_then(|()| self.check_abandoned_host()) {
            // The engine that ended the run may have exited before it wrote the views.
            self.write_all_views().await?;
            return Err(refused);
        }
        // Watch before the first decision, so that a commit in between is seen.
        let watch = self.journal.store.watch(&self.journal.run, self.journal.position.revision).await?;
        let mut commits = follow(watch);
        self.watch_first_view();
        self.adopt_attempts();
        self.interrupt_abandoned_host().await?;
        self.request(request).await?;
        loop {
            self.make_deferred_transitions().await?;
            self.perform();
            let before = self.journal.position.revision;
            self.watch_answer_files().await?;
            if self.journal.position.revision > before {
                continue;
            }
            self.notice_questions();
            self.write_views_if_due();
            if let Some(exit) = self.exit() {
                self.write_all_views().await?;
                return Ok(exit);
            }
            let timer = self.next_timer();
            let (next_view, next_report) = (self.views.next_write(), self.partial_reports.next_commit());
            tokio::select! {
                Some(event) = self.events.recv() => self.absorb_event(event).await?,
                attempt = backoff_elapsed(timer) => self.absorb(Fact::BackoffElapsed { attempt }, None).await?,
                question = self.answer_files.written() => self.read_answer_file(&question).await?,
                () = sleep_until(next_view) => {}
                () = self.views.changed() => self.replace_changed_view(),
                () = sleep_until(next_report) => self.commit_partial_reports().await?,
                Some(commit) = commits.recv() => {
                    let Commits { newest, has_external_write } = commit?;
                    if has_external_write || newest > self.journal.position.revision {
                        self.catch_up().await?;
                    }
                }
                Some(()) = interrupts.recv() => {
                    if self.interrupt().await? {
                        self.write_all_views().await?;
                        return Ok(EngineExit::AttemptsLeftAlive);
                    }
                }
            }
        }
    }

    /// Shows the observer every question that is new to it.
    fn notice_questions(&mut self) {
        let Self { journal, asked, observer, .. } = self;
        let run = &journal.state.run;
        for (step, turn) in run.waiting_steps() {
            if asked.insert((step.clone(), turn)) {
                let (spec, machine) = (&journal.spec, &*run.machine);
                observer.notice(Notice::Question { spec, machine, step, turn });
            }
        }
    }

    /// Returns how the engine exits, or `None` while it has something to do or to wait for.
    fn exit(&mut self) -> Option<EngineExit> {
        if !self.attached.is_empty() {
            return None;
        }
        let run = &self.journal.state.run;
        match run.status {
            RunStatus::Running if run.is_waiting() && self.engine_config.overrides.exit_when_waiting => {
                Some(EngineExit::Waiting)
            }
            RunStatus::Finished(outcome) => Some(EngineExit::Finished(outcome)),
            RunStatus::Stopped(cause) => Some(EngineExit::Stopped(cause)),
            // The engine of the other host needs the engine lock to adopt its attempts, so this engine does not wait for them.
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => {
                let has_timer = self.next_timer().is_some();
                (!has_timer && !self.remote_attempts().is_empty()).then_some(EngineExit::Remote)
            }
        }
    }
}

/// Loads the run and sets up the watchers of an engine.
async fn prepare(
    store: &Arc<dyn Store>,
    engine_config: &EngineConfig,
    run: &RunId,
    epoch: Epoch,
    observer: &mut dyn Observer,
) -> Result<(Journal, DirWatcher, Signal), EngineError> {
    let journal = Box::pin(load(store, engine_config, run, epoch, observer)).await?;
    let dir_watcher = DirWatcher::new().map_err(EngineError::DirWatcher)?;
    let children = signal(SignalKind::child()).map_err(EngineError::DirWatcher)?;
    Ok((journal, dir_watcher, children))
}

/// Loads the run. A corrupted document is restored first if that loses nothing, or if the command allows a loss. An
/// external write is accepted as an edit or rejected.
async fn load(
    store: &Arc<dyn Store>,
    engine_config: &EngineConfig,
    run: &RunId,
    epoch: Epoch,
    observer: &mut dyn Observer,
) -> Result<Journal, EngineError> {
    let (clock, protocols) = (&engine_config.clock, engine_config.protocols);
    let loaded = match Journal::load(store, clock, protocols, run).await {
        Err(LoadError::Corrupted { revision, what, .. }) => {
            let name = store.protocol(run).await?.unwrap_or_default();
            let kind = find_kind(protocols, run, &name)?;
            let corruption = Corruption::diagnose(store.as_ref(), kind, run, revision, what).await?;
            let (by, quarantine) = (engine_config.author.clone(), engine_config.quarantine(run));
            let restored = corruption.restore(
                store,
                clock,
                by,
                Some(epoch),
                &quarantine,
                engine_config.overrides.recover,
            );
            observer.notice(Notice::Restored(&restored.await?));
            Journal::load(store, clock, protocols, run).await?
        }
        loaded => loaded?,
    };
    let mut journal = loaded.ok_or_else(|| EngineError::NoSuchRun(run.clone()))?;
    Box::pin(journal.judge_external_write()).await?;
    if let Some(judged_external_write) = journal.judged_external_write.take() {
        observer.notice(Notice::ExternalWrite(&judged_external_write));
    }
    Ok(journal)
}

/// Changes of the run that the watch has seen.
struct Commits {
    newest: Revision,
    /// Another client wrote to the document without a commit.
    has_external_write: bool,
}

/// Follows the journal in a task, so that the loop does not read the store in every iteration.
fn follow(mut watch: store::Watch) -> mpsc::UnboundedReceiver<Result<Commits, ReadError>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let entries = watch.next().await;
            let commits = entries
                .map(|entries| Commits { newest: watch.after(), has_external_write: entries.is_empty() });
            let failed = commits.is_err();
            if sender.send(commits).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
