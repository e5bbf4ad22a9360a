//! The runs that are not finished: whether they have an engine, whether their attempts live, whether their time is sane.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::run::{Run, RunStatus};
use protocol::{AttemptId, RunId, Stamp};
use runner::{Clock, Journal, Summary};
use store::{AnyStore, Location, RunRow, Store as _};
use supervisor::{AttemptDir, ClaimError, ShimStatus};

use super::locks::{Engine, Locks};
use super::{Finding, Ground};
use crate::engine;
use crate::failure::{Code, Failure};
use crate::output;
use crate::output::paste;
use crate::output::{count, shell_word};
use crate::present::run_status;
use crate::present::{self, Deed, Presentation};
use crate::query::hosts;
use crate::workspace;

const CHECK: &str = "runs";

/// As many unfinished runs are shown one by one.
const SHOWN: usize = 20;

/// How many runs are asked for at once: servers may be far.
pub(super) const AT_ONCE: usize = 32;

/// Clocks of one machine may differ by this much after a correction.
const SLACK: Duration = Duration::from_secs(5);

/// What the store says about its runs.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) all: Vec<RunRow>,
    pub(super) unfinished: Vec<Unfinished>,
}

/// A run that is not finished, as far as it can be read.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) run: RunId,
    pub(super) status: Option<RunStatus>,
    pub(super) engine: Option<Engine>,
    pub(super) live_attempts: Result<Vec<LiveAttempt>, Failure>,
    /// Where it takes place, if its attempts are kept beside another repository of this machine: nothing here tells of them.
    place: Option<PathBuf>,
}

/// What is known of a run that can be read.
#[derive(Debug)]
struct Looked {
    live_attempts: Vec<LiveAttempt>,
    place: Option<PathBuf>,
}

/// An attempt that may be alive.
#[derive(Debug)]
pub(super) struct LiveAttempt {
    attempt: AttemptId,
    /// If it is another one than this: then nothing here tells of the attempt.
    host: Option<String>,
    shim: Result<ShimStatus, ClaimError>,
}

impl Unfinished {
    /// Whether the attempt may be alive. Of a run that cannot be read, any may.
    pub(super) fn steps(&self, attempt: &str) -> bool {
        match &self.live_attempts {
            Ok(live_attempts) => live_attempts.iter().any(|live| live.attempt.to_string() == attempt),
            Err(_) => true,
        }
    }

    /// Whether it goes on only when somebody says so, because somebody said that it shall not.
    fn waits(&self) -> bool {
        match self.status {
            Some(RunStatus::Paused | RunStatus::Stopped(_)) => true,
            Some(
                RunStatus::Running
                | RunStatus::Stopping(_)
                | RunStatus::Draining(_)
                | RunStatus::Finishing(_)
                | RunStatus::Finished(_),
            )
            | None => false,
        }
    }
}

impl Runs {
    pub(super) async fn gather(
        location: &Location,
        store: &AnyStore,
        locks: &Locks,
    ) -> Result<Self, Failure> {
        let all = store.runs().await?;
        let phased = all.iter().map(|row| (row, workspace::summary(row).map(|summary| summary.status)));
        let unfinished = phased.filter(|(_, status)| !matches!(status, Some(RunStatus::Finished(_))));
        let looks = unfinished.map(async |(row, status)| {
            let looking = Looking { location, store, run: &row.run };
            // Of one that cannot be understood not even the protocol is known, and whoever asks is told why.
            let looked = if row.protocol.is_empty()
                && let Err(error) = store.protocol(&row.run).await
            {
                Err(error.into())
            } else {
                present::by_name(&row.protocol, &row.run, looking).await
            };
            let engine = match locks.engines.get(row.run.as_str()) {
                Some(engine) => Some(engine.clone()),
                None => Engine::leading(store, &row.run).await?,
            };
            let (live_attempts, place) = match looked {
                Ok(Looked { live_attempts, place }) => (Ok(live_attempts), place),
                Err(failure) => (Err(failure), None),
            };
            Ok::<_, Failure>(Unfinished { run: row.run.clone(), status, engine, live_attempts, place })
        });
        let unfinished = futures_util::stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        Ok(Self { all, unfinished })
    }

    /// The summaries of all runs that this program can read.
    fn summaries(&self) -> impl Iterator<Item = (&RunId, Summary)> {
        self.all.iter().filter_map(|row| Some((&row.run, workspace::summary(row)?)))
    }
}

/// To see which attempts of a run may be alive.
struct Looking<'a> {
    location: &'a Location,
    store: &'a AnyStore,
    run: &'a RunId,
}

impl Deed for Looking<'_> {
    type Done = Looked;

    async fn with<P: Presentation>(self) -> Result<Looked, Failure> {
        let Self { location, store, run } = self;
        let journal = Journal::<P, _>::load(store, &Clock::system(), run).await?;
        let Some(journal) = journal else { return Ok(Looked { live_attempts: Vec::new(), place: None }) };
        let live_attempts = journal.state.run.live_attempts().map(|(attempt, _)| {
            let attempt = Run::<P>::id(&attempt);
            let dir = AttemptDir::new(&location.attempts_dir(), run, &attempt);
            let host = hosts::of(store, &journal.state, &attempt).map(str::to_owned);
            LiveAttempt { shim: supervisor::shim_status(&dir), host, attempt }
        });
        let live_attempts = live_attempts.collect();
        let repository = Path::new(&journal.spec.options.location.repo_dir);
        let is_here = !repository.is_dir() || engine::is_kept_beside(store, repository)?;
        Ok(Looked { live_attempts, place: (!is_here).then(|| repository.to_owned()) })
    }
}

pub(super) fn check(ground: &Ground, runs: &Runs) -> Vec<Finding> {
    let mut findings: Vec<_> =
        runs.unfinished.iter().take(SHOWN).flat_map(|run| of_run(ground, run)).collect();
    let more = runs.unfinished.len().saturating_sub(SHOWN);
    if more > 0 {
        findings.push(
            Finding::note(CHECK, format!("{} more", count(more, "unfinished run", "unfinished runs")))
                .remedy("callboard ls"),
        );
    }
    // Not earlier: servers may have been waited for, and runs went on meanwhile.
    findings.extend(clock(Clock::system().now(), runs));
    if findings.is_empty() {
        let at_work = runs.unfinished.len();
        let finished = runs.all.len() - at_work;
        findings.push(Finding::fine(CHECK, format!("{at_work} at work, {finished} finished")));
    }
    findings
}

fn of_run(ground: &Ground, unfinished: &Unfinished) -> Vec<Finding> {
    let Unfinished { run, status, engine, live_attempts, place } = unfinished;
    // Whoever names the local_dir themselves knows which they are.
    let place = place.as_ref().filter(|_| ground.has_address());
    let live_attempts = match live_attempts {
        Ok(live_attempts) => live_attempts,
        Err(failure) => {
            let finding = Finding::failure(CHECK, failure).detail(format!("run `{run}`"));
            // Its other meanings are of an embedded store, which is looked at before its runs.
            let recover = (failure.code == Some(Code::Damaged) && ground.nats.is_some())
                .then(|| format!("callboard recover{}", ground.flags));
            return vec![recover.into_iter().fold(finding, Finding::remedy)];
        }
    };
    let mut findings: Vec<_> = live_attempts.iter().filter_map(stopped).collect();
    let resume = match (place, ground.store()) {
        (Some(place), Some(store)) => {
            format!("callboard resume {run} --repo {} --store {}", shell_word(place), shell_word(&store))
        }
        _ => format!("callboard resume {run}{}", ground.flags),
    };
    match (engine, status) {
        (Some(_), _) => {}
        (None, None) => findings.push(
            Finding::act(CHECK, format!("run `{run}` was written by another version of callboard"))
                .code(Code::Newer),
        ),
        (None, Some(status)) if unfinished.waits() => {
            let (_, word) = run_status::word(*status);
            findings.push(
                Finding::note(CHECK, format!("run `{run}` is {word} and waits for you")).remedy(resume),
            );
        }
        (None, Some(_)) => {
            let finding = Finding::act(CHECK, format!("run `{run}` is unfinished and has no engine"));
            let finding = match place {
                Some(place) => finding.detail(format!(
                    "it takes place in {}; what its agents leave is kept there",
                    place.display()
                )),
                None => finding.details(live_attempts.iter().map(|live| tell(run, live))),
            };
            findings.push(finding.remedy(resume));
        }
    }
    findings
}

fn stopped(LiveAttempt { attempt, host, shim }: &LiveAttempt) -> Option<Finding> {
    let (None, Ok(ShimStatus::Alive { pid, stopped: true })) = (host, shim) else { return None };
    Some(
        Finding::act(CHECK, format!("the shim of `{attempt}`, process {pid}, is stopped"))
            .detail("until it goes on, no time limit of the attempt is kept and its end is not noticed")
            .remedy(format!("kill -CONT {pid}")),
    )
}

/// What becomes of an attempt when the run is resumed.
fn tell(run: &RunId, LiveAttempt { attempt, host, shim }: &LiveAttempt) -> String {
    if let Some(host) = host {
        return paste::completed(&hosts::advice(run, host, std::slice::from_ref(attempt))).into_owned();
    }
    match shim {
        Ok(ShimStatus::Alive { pid, .. }) => {
            format!("`{attempt}` is at work under process {pid}; it will be adopted")
        }
        Ok(ShimStatus::Dead) => format!("`{attempt}` has no process any more; what it left will be judged"),
        Ok(ShimStatus::Unclaimed) => format!("`{attempt}` was never begun; it will be"),
        Ok(ShimStatus::Void) => format!("`{attempt}` was stopped before it began"),
        Ok(ShimStatus::Remote) => {
            format!("`{attempt}` is at work in another container, where we cannot reach it")
        }
        Err(error) => format!("`{attempt}`: {error}"),
    }
}

/// A run's time never runs backwards: with a wall clock that is behind, it stands still.
fn clock(now: Stamp, runs: &Runs) -> Option<Finding> {
    let ahead = runs.summaries().map(|(run, summary)| (summary.updated_at.since(now), run));
    let (ahead, run) = ahead.max_by_key(|(ahead, _)| *ahead)?;
    (ahead > SLACK).then(|| {
        let ahead = output::duration(ahead);
        Finding::act("clock", format!("the clock is {ahead} behind the last entry of run `{run}`"))
            .detail("the time of that run stands still until the clock has caught up")
            .remedy("date")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use protocol::{Progress, Revision};

    use super::*;

    #[test]
    fn a_clock_that_is_behind_the_last_entry_is_told_and_a_small_difference_is_not() {
        let now = Stamp::from_micros(1_000_000_000);
        let row = |name: &str, ahead| {
            let summary = Summary {
                title: "trial".to_owned(),
                repo_dir: "/".to_owned(),
                status: RunStatus::Running,
                progress: Progress { done: 0, total: 1 },
                running: 0,
                hosts: BTreeSet::new(),
                updated_at: now.plus(Duration::from_secs(ahead)),
            };
            RunRow {
                run: RunId::new(name).unwrap(),
                protocol: "steps".to_owned(),
                revision: Revision(1),
                created: jiff::Timestamp::UNIX_EPOCH,
                summary: serde_json::to_string(&summary).unwrap(),
            }
        };
        let runs = |rows| Runs { all: rows, unfinished: Vec::new() };
        assert_eq!(clock(now, &runs(vec![row("near", 3)])), None);
        let found = clock(now, &runs(vec![row("near", 3), row("far", 7200)])).unwrap();
        assert_eq!(found.what, "the clock is 2 h 00 min behind the last entry of run `far`");
    }
}
