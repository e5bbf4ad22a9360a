//! `callboard watch [RUN]`.

use protocol::entry::{Author, Entry};
use protocol::run::{Change, Run};
use runner::{Moment, Notice, Observer as _, Rest};
use store::{Store as _, StoredEntry};
use supervisor::Departure;

use super::block_on;
use crate::config::Flags;
use crate::face::{Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::{self, Here, Place};
use crate::look::Sight;
use crate::play;
use crate::progress::{EngineNews, Progress};

/// Watch a run from another terminal, until it rests
///
/// Shows what `run` shows, whoever the engine is, and whether there is one: it may start later, die, or be replaced.
/// Without RUN it watches the only unfinished run. Ends when the run is finished, stopped or interrupted, with the exit
/// code that `run` or `resume` would have had. Ctrl-C leaves with 130; the run does not notice.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run workflow.yaml --detach && callboard watch
  callboard watch f8c1a491 && notify-send delivered
  callboard watch f8c1a491 --json | jq 'select(.event == \"over\")'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: Option<String>,

    /// Print one JSON event per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    block_on(async {
        let named = arguments.run.as_deref();
        let Some(store) = here.existing_store().await? else {
            let failure = named.map_or_else(here::nothing_unfinished, |run| here.no_such_run(run));
            return Err(here.without_store(failure));
        };
        let run = match named {
            Some(run) => here.resolve(&store, run).await?,
            None => here::only_unfinished(&store, "watch").await?,
        };
        let progress = Progress::new(&here, &run, arguments.json);
        let sight = Sight { here, store, run };
        sight.with(Watching { sight: &sight, progress }).await
    })
}

struct Watching<'a> {
    sight: &'a Sight,
    progress: Progress,
}

impl Deed for Watching<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { sight, progress } = self;
        let moment = sight.moment::<P>(None).await?;
        let mut watcher = Watcher { sight, moment, progress, engine: None, told: None };
        let rest = watcher.watch().await;
        watcher.progress.clear();
        match rest? {
            Some(rest) => watcher.conclude(rest).await,
            None => Ok(Exit::Interrupted),
        }
    }
}

/// Somebody who follows a run that another process plays.
struct Watcher<'a, P: Face> {
    sight: &'a Sight,
    /// The run as far as it has been shown.
    moment: Moment<P>,
    progress: Progress,
    /// The engine we have seen, until it ends.
    engine: Option<(u32, Departure)>,
    /// What was last said about it.
    told: Option<EngineNews>,
}

impl<P: Face> Watcher<'_, P> {
    /// Shows what happens until the run rests, or until we are told to leave.
    async fn watch(&mut self) -> Result<Option<Rest>, Failure> {
        let mut interrupts = play::interrupts()?;
        // Watch first, look second: what is committed in between is seen.
        let mut journal = self.sight.store.watch(&self.sight.run, self.moment.revision).await?;
        self.progress.found(&self.moment);
        if let Some(rest) = self.moment.rest() {
            return Ok(Some(rest));
        }
        self.find_engine(EngineNews::Missing).await?;
        self.show_those_at_work().await?;
        loop {
            tokio::select! {
                news = journal.next() => {
                    for stored in news? {
                        self.show(&stored)?;
                    }
                    if let Some(rest) = self.moment.rest() {
                        return Ok(Some(rest));
                    }
                    if self.engine.is_none() {
                        self.find_engine(EngineNews::Missing).await?;
                    }
                }
                pid = gone(self.engine.as_ref()) => self.lose_engine(pid?).await?,
                _ = interrupts.recv() => return Ok(None),
            }
        }
    }

    fn show(&mut self, stored: &StoredEntry) -> Result<(), Failure> {
        let entry: Entry<P> = Entry::decode(&stored.body).map_err(|error| {
            Failure::from_error(Exit::Store, &error).while_doing(format_args!(
                "cannot read entry {} of run `{}`",
                stored.revision, self.sight.run
            ))
        })?;
        self.moment.folded.fold(&entry);
        self.moment.revision = stored.revision;
        self.progress.notice(Notice::Committed { revision: stored.revision, entry: &entry });
        for change in &entry.changes {
            if let Change::Began { attempt, .. } = change {
                let attempt = Run::<P>::id(attempt);
                let stdout = self.sight.dir(&attempt).stdout();
                let output: Notice<'_, P> = Notice::Output { attempt: &attempt, stdout };
                self.progress.notice(output);
            }
        }
        // Another engine than the one we know: that one is gone, or will be found to be.
        if let (Author::Engine { pid, .. }, Some((known, _))) = (&entry.by, &self.engine)
            && pid != known
        {
            self.engine = None;
        }
        Ok(())
    }

    /// Looks who the engine is, and tells what is news about it.
    async fn find_engine(&mut self, otherwise: EngineNews) -> Result<(), Failure> {
        while let Some(leader) = self.sight.engine().await? {
            // First hold the process, then see that it is still the engine: then its end is the engine's end.
            let departure = Departure::of(leader.pid).map_err(lost_sight)?;
            let still = self.sight.engine().await?;
            if still.is_some_and(|still| still.pid == leader.pid) {
                self.engine = Some((leader.pid, departure));
                self.tell_of_engine(EngineNews::AtWork { pid: leader.pid });
                return Ok(());
            }
        }
        self.tell_of_engine(otherwise);
        Ok(())
    }

    /// The engine's process has ended. Its last word may have been that the run rests.
    async fn lose_engine(&mut self, pid: u32) -> Result<(), Failure> {
        self.engine = None;
        if self.sight.moment::<P>(None).await?.rest().is_some() {
            return Ok(());
        }
        self.find_engine(EngineNews::Gone { pid }).await
    }

    /// Says each thing once: that nobody is there stays true while others write to the journal.
    fn tell_of_engine(&mut self, news: EngineNews) {
        let nobody = |news| matches!(news, EngineNews::Missing | EngineNews::Gone { .. });
        let known = self.told.is_some_and(|told| told == news || (nobody(told) && nobody(news)));
        if !known {
            self.progress.engine(news);
        }
        self.told = Some(news);
    }

    async fn show_those_at_work(&mut self) -> Result<(), Failure> {
        let history = self.sight.history(&self.moment).await?;
        let now = self.sight.here.clock.now();
        for (attempt, _) in self.moment.folded.run.seated() {
            let attempt = Run::<P>::id(&attempt);
            let began = history.newest_of(&attempt.seat).map_or(now, |attempted| attempted.began);
            self.progress.at_work(&attempt, now.since(began), self.sight.dir(&attempt).stdout());
        }
        Ok(())
    }

    async fn conclude(mut self, rest: Rest) -> Result<Exit, Failure> {
        let moment = self.sight.moment::<P>(Some(self.moment.revision)).await?;
        self.progress.conclude(&self.sight.store, &moment, rest);
        Ok(play::exit_of(rest))
    }
}

/// Waits for the engine's end; for ever, if there is none.
async fn gone(engine: Option<&(u32, Departure)>) -> Result<u32, Failure> {
    let Some((pid, departure)) = engine else { return std::future::pending().await };
    departure.happened().await.map_err(lost_sight)?;
    Ok(*pid)
}

fn lost_sight(error: std::io::Error) -> Failure {
    Failure::new(Exit::Bug, "cannot wait for the engine").because(Some(&error))
}
