//! Following a run that another process plays.

use std::time::{Duration, Instant};

use protocol::entry::{Author, Entry};
use protocol::run::{Change, Run};
use runner::{EngineExit, Notice, Observer as _, RunAt};
use store::{Store as _, StoredEntry};

use crate::engine;
use crate::engine::process::{BETWEEN_LOOKS, Engine};
use crate::engine::progress::{EngineNews, Heir, Progress};
use crate::failure::{Exit, Failure};
use crate::present::Presentation;
use crate::query::RunHandle;
use crate::query::hosts;

/// How long an engine may stay unheard before we say that there is none: a few looks.
const DOUBT: Duration = Duration::from_secs(3);

/// Somebody who follows a run that another process plays.
pub(crate) struct Watcher<'a, P: Presentation> {
    handle: &'a RunHandle,
    /// The run as far as it has been shown.
    run_at: RunAt<P>,
    progress: Progress,
    /// The engine we have seen, until it ends.
    engine: Option<Engine>,
    /// What was last said about it.
    told: Option<EngineNews>,
    /// Since when none was found where there may be one.
    missed: Option<Instant>,
    /// Who goes on when it is gone.
    heir: Heir,
    /// It was stopped or interrupted when we came, and nothing has happened since.
    halted: bool,
}

/// Until when a run is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    EngineExit,
    /// Or until nobody leads it.
    Free,
}

/// Why somebody watches no more.
enum Seen {
    EngineExit(EngineExit),
    /// Nobody leads it, and it does not rest.
    Free,
    /// We were told to leave.
    Enough,
}

impl<'a, P: Presentation> Watcher<'a, P> {
    pub(crate) async fn at(handle: &'a RunHandle, progress: Progress) -> Result<Self, Failure> {
        let run_at = handle.run_at::<P>(None).await?;
        let halted = matches!(run_at.engine_exit(), Some(EngineExit::Stopped(_)));
        Ok(Self {
            handle,
            run_at,
            progress,
            engine: None,
            told: None,
            missed: None,
            heir: Heir::Anybody,
            halted,
        })
    }

    /// Watches until the run rests.
    pub(crate) async fn finish(self) -> Result<Exit, Failure> {
        let exit = self.until(Until::EngineExit).await?;
        Ok(exit.unwrap_or(Exit::Interrupted))
    }

    /// Watches until the run rests, or nobody leads it any more; then there is no exit code yet.
    pub(crate) async fn until_free(mut self) -> Result<Option<Exit>, Failure> {
        self.heir = Heir::Us;
        self.until(Until::Free).await
    }

    async fn until(mut self, until: Until) -> Result<Option<Exit>, Failure> {
        let seen = self.watch(until).await;
        self.progress.clear();
        match seen? {
            Seen::EngineExit(rest) => self.conclude(rest).await.map(Some),
            Seen::Enough => Ok(Some(Exit::Interrupted)),
            Seen::Free => Ok(None),
        }
    }

    async fn watch(&mut self, until: Until) -> Result<Seen, Failure> {
        let mut interrupts = engine::interrupts()?;
        // Watch first, look second: what is committed in between is seen.
        let mut journal = self.handle.store.watch(&self.handle.run, self.run_at.revision).await?;
        self.progress.found(&self.run_at);
        if let Some(rest) = self.rest(until) {
            return Ok(Seen::EngineExit(rest));
        }
        let mut led = self.find_engine(EngineNews::Missing).await?;
        self.show_those_at_work().await?;
        while led || until == Until::EngineExit {
            tokio::select! {
                news = journal.next() => {
                    for stored in news? {
                        self.show(&stored)?;
                    }
                    if let Some(rest) = self.rest(until) {
                        return Ok(Seen::EngineExit(rest));
                    }
                    if self.engine.is_none() {
                        led = self.find_engine(EngineNews::Missing).await?;
                    }
                }
                lost = gone(self.engine.as_ref(), self.handle) => led = self.lose_engine(lost?).await?,
                // One that lost its lease in an outage takes it again, and may not write to the journal for hours.
                () = tokio::time::sleep(BETWEEN_LOOKS), if self.engine.is_none() && self.handle.store.is_shared() => {
                    led = self.find_engine(EngineNews::Missing).await?;
                }
                _ = interrupts.recv() => return Ok(Seen::Enough),
            }
        }
        Ok(Seen::Free)
    }

    /// How the run rests, if that is the end for us. Whoever waits for its turn to resume a halted run may see it led by
    /// somebody who is about to do the same.
    fn rest(&self, until: Until) -> Option<EngineExit> {
        self.run_at.engine_exit().filter(|_| until == Until::EngineExit || !self.halted)
    }

    fn show(&mut self, stored: &StoredEntry) -> Result<(), Failure> {
        let entry: Entry<P> = Entry::decode(&stored.body).map_err(|error| {
            Failure::from_error(Exit::Store, &error).while_doing(format_args!(
                "cannot read entry {} of run `{}`",
                stored.revision, self.handle.run
            ))
        })?;
        self.run_at.state.fold(&entry);
        self.run_at.revision = stored.revision;
        self.halted &= matches!(self.run_at.engine_exit(), Some(EngineExit::Stopped(_)));
        self.progress.notice(Notice::Committed { revision: stored.revision, entry: &entry });
        for change in &entry.changes {
            if let Change::Started { attempt, .. } = change {
                let attempt = Run::<P>::id(attempt);
                let stdout = self.handle.dir(&attempt).stdout();
                let output: Notice<'_, P> = Notice::Output { attempt: &attempt, stdout };
                self.progress.notice(output);
            }
        }
        // Another engine than the one we know: that one is gone, or will be found to be.
        let is_another = |Engine { holder, .. }: &Engine| match &entry.by {
            Author::Engine { pid, host, .. } => (*pid, host) != (holder.pid, &holder.host),
            Author::Person { .. } | Author::Client { .. } => false,
        };
        self.engine.take_if(|engine| is_another(engine));
        Ok(())
    }

    /// Looks who the engine is, tells what is news about it, and says whether there is one.
    async fn find_engine(&mut self, otherwise: EngineNews) -> Result<bool, Failure> {
        self.engine = Engine::of(&self.handle.store, &self.handle.run).await?;
        let at_work = |engine: &Engine| EngineNews::AtWork { pid: engine.holder.pid, host: engine.host() };
        match self.engine.as_ref().map(at_work) {
            Some(news) => {
                self.missed = None;
                self.tell_of_engine(news);
            }
            None if otherwise == EngineNews::Missing && self.may_be_back_soon() => {}
            None => self.tell_of_engine(otherwise),
        }
        Ok(self.engine.is_some())
    }

    /// Whether an engine that we did not find may be one that has just not been heard: after an outage whoever asks first is
    /// told of no lease. A lock of this machine leaves no doubt, and whoever wants to lead finds out by trying.
    fn may_be_back_soon(&mut self) -> bool {
        let missed = *self.missed.get_or_insert_with(Instant::now);
        self.handle.store.is_shared() && self.heir == Heir::Anybody && missed.elapsed() < DOUBT
    }

    /// The engine leads no more. Its last word may have been that the run rests: then nobody else need lead, and the
    /// journal brings it.
    async fn lose_engine(&mut self, (pid, host): (u32, Option<String>)) -> Result<bool, Failure> {
        self.engine = None;
        let newest = self.handle.run_at::<P>(None).await?;
        if newest.revision > self.run_at.revision && newest.engine_exit().is_some() {
            return Ok(true);
        }
        self.find_engine(EngineNews::Gone { pid, host }).await
    }

    /// Says each thing once: that nobody is there stays true while others write to the journal.
    fn tell_of_engine(&mut self, news: EngineNews) {
        let nobody = |news: &EngineNews| matches!(news, EngineNews::Missing | EngineNews::Gone { .. });
        let known = self.told.as_ref().is_some_and(|told| *told == news || (nobody(told) && nobody(&news)));
        if !known {
            self.progress.engine(&news, self.heir);
        }
        self.told = Some(news);
    }

    async fn show_those_at_work(&mut self) -> Result<(), Failure> {
        let history = self.handle.history(&self.run_at).await?;
        let now = self.handle.workspace.clock.now();
        for (attempt, _) in self.run_at.state.run.live_attempts() {
            let attempt = Run::<P>::id(&attempt);
            let began = history.newest_of(&attempt.step).map_or(now, |attempted| attempted.began);
            let host = hosts::of(&self.handle.store, &self.run_at.state, &attempt);
            let stdout = self.handle.dir(&attempt).stdout();
            self.progress.at_work(&attempt, now.since(began), host, stdout);
        }
        Ok(())
    }

    async fn conclude(mut self, rest: EngineExit) -> Result<Exit, Failure> {
        let run_at = self.handle.run_at::<P>(Some(self.run_at.revision)).await?;
        self.progress.conclude(&self.handle.store, &run_at, rest);
        Ok(engine::exit_of(rest))
    }
}

/// Waits for the engine's end; for ever, if there is none.
async fn gone(engine: Option<&Engine>, handle: &RunHandle) -> Result<(u32, Option<String>), Failure> {
    let Some(engine) = engine else { return std::future::pending().await };
    engine.gone(&handle.store, &handle.run).await?;
    Ok((engine.holder.pid, engine.host()))
}
