//! Watches a run whose engine is another process.

use std::time::{Duration, Instant};

use protocol::entry::{Author, Entry};
use protocol::run::Change;
use runner::{EngineExit, Notice, Observer as _, RunAtRevision};
use store::StoredEntry;

use crate::engine;
use crate::engine::process::{EngineProcess, POLL_INTERVAL};
use crate::engine::progress::{EngineChange, Progress, WatchMode};
use crate::failure::{Exit, Failure};
use crate::query::RunHandle;
use crate::query::hosts;

/// How long a lease may be unreadable before the engine is reported missing: a few polls.
const MISSING_AFTER: Duration = Duration::from_secs(3);

pub(crate) struct Watcher<'a> {
    handle: &'a RunHandle,
    /// The run up to the last entry that was shown.
    run_at: RunAtRevision,
    progress: Progress,
    /// The current engine.
    engine: Option<EngineProcess>,
    /// The last change of the engine that was shown.
    last_shown: Option<EngineChange>,
    /// When the engine was first not found.
    missing_since: Option<Instant>,
    mode: WatchMode,
    /// The run was stopped when watching began, and has no new entry since.
    was_stopped: bool,
}

/// When to stop watching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    RunStops,
    /// The run stops, or has no engine.
    RunStopsOrHasNoEngine,
}

/// Why watching ended.
enum WatchEnd {
    RunStopped(EngineExit),
    /// The run is unfinished and has no engine.
    NoEngine,
    Interrupted,
}

impl<'a> Watcher<'a> {
    /// Begins at the newest entry.
    pub(crate) async fn at(handle: &'a RunHandle, progress: Progress) -> Result<Self, Failure> {
        let run_at = handle.run_at(None).await?;
        let was_stopped = matches!(run_at.engine_exit(), Some(EngineExit::Stopped(_)));
        Ok(Self {
            handle,
            run_at,
            progress,
            engine: None,
            last_shown: None,
            missing_since: None,
            mode: WatchMode::Observe,
            was_stopped,
        })
    }

    /// Watches until the run is stopped or finished.
    pub(crate) async fn finish(self) -> Result<Exit, Failure> {
        let exit = self.watch_until(Until::RunStops).await?;
        Ok(exit.unwrap_or(Exit::Interrupted))
    }

    /// Watches until the run is stopped or finished, or has no engine, so that this process can resume it. Returns `None` if it
    /// has no engine.
    pub(crate) async fn until_no_engine(mut self) -> Result<Option<Exit>, Failure> {
        self.mode = WatchMode::TakeOver;
        self.watch_until(Until::RunStopsOrHasNoEngine).await
    }

    async fn watch_until(mut self, until: Until) -> Result<Option<Exit>, Failure> {
        let end = self.watch(until).await;
        self.progress.clear();
        match end? {
            WatchEnd::RunStopped(exit) => self.show_result(exit).await.map(Some),
            WatchEnd::Interrupted => Ok(Some(Exit::Interrupted)),
            WatchEnd::NoEngine => Ok(None),
        }
    }

    async fn watch(&mut self, until: Until) -> Result<WatchEnd, Failure> {
        let mut interrupts = engine::interrupts()?;
        // Begin to watch before reading, so that no commit in between is missed.
        let mut journal = self.handle.store.watch(&self.handle.run, self.run_at.revision).await?;
        self.progress.show_snapshot(&self.run_at);
        if let Some(exit) = self.exit(until) {
            return Ok(WatchEnd::RunStopped(exit));
        }
        let mut has_engine = self.find_engine(EngineChange::Missing).await?;
        self.show_running().await?;
        while has_engine || until == Until::RunStops {
            tokio::select! {
                entries = journal.next() => {
                    for stored in entries? {
                        self.show_entry(&stored)?;
                    }
                    if let Some(exit) = self.exit(until) {
                        return Ok(WatchEnd::RunStopped(exit));
                    }
                    if self.engine.is_none() {
                        has_engine = self.find_engine(EngineChange::Missing).await?;
                    }
                }
                lost = wait_until_gone(self.engine.as_ref(), self.handle) => {
                    has_engine = self.lose_engine(lost?).await?;
                }
                // An engine that lost its lease in an outage takes it again, and may not commit for hours.
                () = tokio::time::sleep(POLL_INTERVAL), if self.engine.is_none() && self.handle.store.is_shared() => {
                    has_engine = self.find_engine(EngineChange::Missing).await?;
                }
                _ = interrupts.recv() => return Ok(WatchEnd::Interrupted),
            }
        }
        Ok(WatchEnd::NoEngine)
    }

    /// Returns the result of the run, if watching ends with it. A command that waits to resume a stopped run ignores that
    /// it is stopped: another process may be about to resume it.
    fn exit(&self, until: Until) -> Option<EngineExit> {
        self.run_at.engine_exit().filter(|_| until == Until::RunStops || !self.was_stopped)
    }

    /// Applies an entry to the run and shows it.
    fn show_entry(&mut self, stored: &StoredEntry) -> Result<(), Failure> {
        let state = &mut self.run_at.state;
        let entry = Entry::decode(&stored.body).and_then(|entry| state.fold(&entry).map(|()| entry));
        let entry = entry.map_err(|error| {
            Failure::from_error(Exit::Store, &error)
                .context(format_args!("cannot parse entry {} of run `{}`", stored.revision, self.handle.run))
        })?;
        self.run_at.revision = stored.revision;
        self.was_stopped &= matches!(self.run_at.engine_exit(), Some(EngineExit::Stopped(_)));
        // Only a table needs the document.
        if self.run_at.machine().step_table().is_some() {
            let recorded = self.run_at.state.run.machine.record(&entry);
            recorded.map_err(|error| Failure::from_error(Exit::Store, &error))?;
        }
        let machine = self.run_at.machine();
        self.progress.notice(Notice::Committed { machine, revision: stored.revision, entry: &entry });
        for change in &entry.changes {
            if let Change::Started { attempt, .. } = change {
                let stdout = self.handle.dir(attempt).stdout();
                self.progress.notice(Notice::StartingOrAdopting { attempt, stdout });
            }
        }
        // An entry of another engine: the one we know is gone or about to exit.
        let is_another = |EngineProcess { holder, .. }: &EngineProcess| match &entry.by {
            Author::Engine { pid, host, .. } => (*pid, host) != (holder.pid, &holder.host),
            Author::Person { .. } | Author::BucketClient { .. } => false,
        };
        self.engine.take_if(|engine| is_another(engine));
        Ok(())
    }

    /// Looks for an engine and shows what has changed. Returns whether the run has one; if not, shows `if_none`.
    async fn find_engine(&mut self, if_none: EngineChange) -> Result<bool, Failure> {
        self.engine = EngineProcess::of(&self.handle.store, &self.handle.run).await?;
        let running =
            |engine: &EngineProcess| EngineChange::Running { pid: engine.holder.pid, host: engine.host() };
        match self.engine.as_ref().map(running) {
            Some(change) => {
                self.missing_since = None;
                self.show_engine(change);
            }
            None if if_none == EngineChange::Missing && self.record_missing() => {}
            None => self.show_engine(if_none),
        }
        Ok(self.engine.is_some())
    }

    /// Records that the engine is missing, and returns whether to wait before this is shown: after an outage the servers may
    /// report no lease at first, although the engine lives. A local lock does not come back. A command that takes over does
    /// not wait.
    fn record_missing(&mut self) -> bool {
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        self.handle.store.is_shared() && self.mode == WatchMode::Observe && since.elapsed() < MISSING_AFTER
    }

    /// Handles the end of the engine, and returns whether to go on watching without looking for another: its last entry, which
    /// the journal has not delivered yet, may have stopped or finished the run.
    async fn lose_engine(&mut self, (pid, host): (u32, Option<String>)) -> Result<bool, Failure> {
        self.engine = None;
        let newest = self.handle.run_at(None).await?;
        if newest.revision > self.run_at.revision && newest.engine_exit().is_some() {
            return Ok(true);
        }
        self.find_engine(EngineChange::Gone { pid, host }).await
    }

    /// Shows a change of the engine, and its absence only once: requests may be committed while there is none.
    fn show_engine(&mut self, change: EngineChange) {
        let is_absent =
            |change: &EngineChange| matches!(change, EngineChange::Missing | EngineChange::Gone { .. });
        let is_known = self
            .last_shown
            .as_ref()
            .is_some_and(|last| *last == change || (is_absent(last) && is_absent(&change)));
        if !is_known {
            self.progress.show_engine(&change, self.mode);
        }
        self.last_shown = Some(change);
    }

    async fn show_running(&mut self) -> Result<(), Failure> {
        let history = self.handle.history(&self.run_at).await?;
        let now = self.handle.workspace.clock.now();
        for (attempt, _) in self.run_at.state.run.live_attempts() {
            let started = history.newest_of(&attempt.step).map_or(now, |record| record.started_at);
            let host = hosts::of(&self.handle.store, &self.run_at.state, &attempt);
            let stdout = self.handle.dir(&attempt).stdout();
            self.progress.show_running(&attempt, now.since(started), host, stdout);
        }
        Ok(())
    }

    async fn show_result(mut self, exit: EngineExit) -> Result<Exit, Failure> {
        let run_at = self.handle.run_at(Some(self.run_at.revision)).await?;
        self.progress.show_result(&self.handle.store, &run_at, exit);
        Ok(engine::exit_code(exit))
    }
}

/// Waits until the engine is gone. Never returns if there is none.
async fn wait_until_gone(
    engine: Option<&EngineProcess>,
    handle: &RunHandle,
) -> Result<(u32, Option<String>), Failure> {
    let Some(engine) = engine else { return std::future::pending().await };
    engine.wait_until_gone(&handle.store, &handle.run).await?;
    Ok((engine.holder.pid, engine.host()))
}
