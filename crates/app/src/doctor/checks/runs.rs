//! Unfinished runs: whether they have an engine, whether their attempts are alive.

use std::path::{Path, PathBuf};

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::run::RunStatus;
use protocol::{AttemptId, RunId};
use runner::{Clock, Journal, Summary};
use store::{AnyStore, Location, RunListing};
use supervisor::{AttemptDir, ClaimError, ShimStatus};

use super::locks::{Locks, RunningEngine};
use super::{DoctorContext, Finding};
use crate::engine;
use crate::failure::{Code, Failure};
use crate::output::{count, location_flags, shell_word};
use crate::present::run_status;
use crate::query::hosts;
use crate::workspace;

const CHECK: &str = "runs";

/// Lists at most this many unfinished runs one by one.
const MAX_LISTED: usize = 20;

/// Reads this many runs concurrently, because servers may be far away.
const CONCURRENT_READS: usize = 32;

/// The runs of the store.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) all: Vec<RunListing>,
    pub(super) unfinished: Vec<Unfinished>,
}

#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) run: RunId,
    pub(super) status: Option<RunStatus>,
    /// Whether only the answer of a person can move it.
    is_waiting: bool,
    pub(super) engine: Option<RunningEngine>,
    pub(super) live_attempts: Result<Vec<LiveAttempt>, Failure>,
    /// The run's repository, if it is on this machine and has another local directory: the attempts are there.
    other_repository: Option<PathBuf>,
}

/// The result of [`find_live_attempts`].
#[derive(Debug)]
struct RunAttempts {
    live_attempts: Vec<LiveAttempt>,
    other_repository: Option<PathBuf>,
}

/// An attempt that may be alive.
#[derive(Debug)]
pub(super) struct LiveAttempt {
    attempt: AttemptId,
    /// The host of the attempt, if it is not this one. Then `shim` says nothing, because the process is not visible here.
    host: Option<String>,
    shim: Result<ShimStatus, ClaimError>,
}

impl Unfinished {
    /// Whether the attempt may be running. True for every attempt of a run that cannot be read.
    pub(super) fn may_be_running(&self, attempt: &str) -> bool {
        match &self.live_attempts {
            Ok(live_attempts) => live_attempts.iter().any(|live| live.attempt.to_string() == attempt),
            Err(_) => true,
        }
    }

    /// Whether the run waits for the user to resume it.
    fn waits_for_resume(&self) -> bool {
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
    pub(super) async fn load(location: &Location, store: &AnyStore, locks: &Locks) -> Result<Self, Failure> {
        let all = store.runs().await?;
        let rows = all.iter().map(|row| (row, workspace::summary(row)));
        let is_finished = |summary: &Summary| matches!(summary.status, RunStatus::Finished(_));
        let unfinished = rows.filter(|(_, summary)| !summary.as_ref().is_some_and(is_finished));
        let reads = unfinished.map(async |(row, summary)| {
            // An unreadable run has no protocol; reading the protocol again gives the reason.
            let found = if row.protocol.is_empty()
                && let Err(error) = store.protocol(&row.run).await
            {
                Err(error.into())
            } else {
                find_live_attempts(location, store, &row.run).await
            };
            let engine = match locks.engines.get(row.run.as_str()) {
                Some(engine) => Some(engine.clone()),
                None => RunningEngine::from_lease(store, &row.run).await?,
            };
            let (live_attempts, other_repository) = match found {
                Ok(RunAttempts { live_attempts, other_repository }) => (Ok(live_attempts), other_repository),
                Err(failure) => (Err(failure), None),
            };
            let run = row.run.clone();
            let is_waiting = summary.as_ref().is_some_and(|summary| summary.is_waiting);
            let status = summary.map(|summary| summary.status);
            Ok::<_, Failure>(Unfinished { run, status, is_waiting, engine, live_attempts, other_repository })
        });
        let unfinished = futures_util::stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        Ok(Self { all, unfinished })
    }
}

/// Finds the attempts of a run that may be alive.
async fn find_live_attempts(
    location: &Location,
    store: &AnyStore,
    run: &RunId,
) -> Result<RunAttempts, Failure> {
    let journal = Journal::load(store, &Clock::system(), crate::program().protocols, run).await?;
    let Some(journal) = journal else {
        return Ok(RunAttempts { live_attempts: Vec::new(), other_repository: None });
    };
    let live_attempts = journal.state.run.live_attempts().map(|(attempt, _)| {
        let dir = AttemptDir::new(&location.attempts_dir(), run, &attempt);
        let host = hosts::of(store, &journal.state, &attempt).map(str::to_owned);
        LiveAttempt { shim: supervisor::shim_status(&dir), host, attempt }
    });
    let live_attempts = live_attempts.collect();
    let repository = Path::new(&journal.spec.options.location.repo_dir);
    // A repository that is not on this machine has no local directory here.
    let uses_our_local_dir = !repository.is_dir() || engine::uses_local_dir_of(store, repository)?;
    Ok(RunAttempts { live_attempts, other_repository: (!uses_our_local_dir).then(|| repository.to_owned()) })
}

pub(super) fn check(context: &DoctorContext, runs: &Runs) -> Vec<Finding> {
    let mut findings: Vec<_> =
        runs.unfinished.iter().take(MAX_LISTED).flat_map(|run| check_run(context, run)).collect();
    let more = runs.unfinished.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        findings.push(
            Finding::note(CHECK, count(more, "more unfinished run", "more unfinished runs"))
                .command(format!("callboard ls --unfinished{}", context.flags)),
        );
    }
    if findings.is_empty() {
        let running = runs.unfinished.len();
        let finished = runs.all.len() - running;
        findings.push(Finding::ok(CHECK, format!("{running} running, {finished} finished")));
    }
    findings
}

fn check_run(context: &DoctorContext, unfinished: &Unfinished) -> Vec<Finding> {
    let Unfinished { run, status, is_waiting, engine, live_attempts, other_repository } = unfinished;
    // Only with the address of a server does each repository have a local directory of its own. A directory in `--store` is used
    // from every repository.
    let other_repository = other_repository.as_ref().filter(|_| context.has_server_address());
    let live_attempts = match live_attempts {
        Ok(live_attempts) => live_attempts,
        Err(failure) => {
            let finding = Finding::failure(CHECK, failure).detail(format!("run `{run}`"));
            // Damage of an embedded store is reported by the check of the store.
            let recover = (failure.code == Some(Code::Damaged) && context.nats.is_some())
                .then(|| format!("callboard recover{}", context.flags));
            return vec![recover.into_iter().fold(finding, Finding::command)];
        }
    };
    let mut findings: Vec<_> = live_attempts.iter().filter_map(stopped_shim).collect();
    let resume = match (other_repository, context.store()) {
        (Some(repo), Some(store)) => {
            format!("callboard resume {run} --repo {} --store {}", shell_word(repo), shell_word(&store))
        }
        _ => format!("callboard resume {run}{}", context.flags),
    };
    match (engine, status) {
        (Some(_), _) => {}
        (None, None) => findings.push(
            Finding::problem(CHECK, format!("run `{run}` was written by another version of callboard"))
                .code(Code::Newer),
        ),
        (None, Some(status)) if unfinished.waits_for_resume() => {
            let (_, word) = run_status::label(*status);
            findings.push(Finding::note(CHECK, format!("run `{run}` is {word}")).command(resume));
        }
        (None, Some(_)) if *is_waiting => findings.push(
            Finding::note(CHECK, format!("run `{run}` waits for a person"))
                .command(format!("callboard inbox{}", context.flags)),
        ),
        (None, Some(_)) => {
            let finding = Finding::problem(CHECK, format!("run `{run}` is unfinished and has no engine"));
            let finding = match other_repository {
                Some(repo) => finding.detail(format!(
                    "it belongs to the repository {}, where its attempts are",
                    repo.display()
                )),
                None => finding.details(live_attempts.iter().map(|live| on_resume(run, live))),
            };
            findings.push(finding.command(resume));
        }
    }
    findings
}

fn stopped_shim(LiveAttempt { attempt, host, shim }: &LiveAttempt) -> Option<Finding> {
    let (None, Ok(ShimStatus::Alive { pid, stopped: true })) = (host, shim) else { return None };
    Some(
        Finding::problem(CHECK, format!("the shim of `{attempt}`, process {pid}, is stopped"))
            .detail("until it continues, the attempt has no timeout and its exit is not noticed")
            .command(format!("kill -CONT {pid}")),
    )
}

/// Says what happens to an attempt when the run is resumed.
fn on_resume(run: &RunId, LiveAttempt { attempt, host, shim }: &LiveAttempt) -> String {
    if let Some(host) = host {
        return location_flags::add_to(&hosts::advice(run, host, std::slice::from_ref(attempt))).into_owned();
    }
    match shim {
        Ok(ShimStatus::Alive { pid, .. }) => {
            format!("`{attempt}` is running under process {pid}; resuming adopts it")
        }
        Ok(ShimStatus::Dead) => format!("`{attempt}` has no process any more; resuming reads its report"),
        Ok(ShimStatus::Unclaimed) => format!("`{attempt}` was not started yet; resuming starts it"),
        Ok(ShimStatus::Void) => format!("`{attempt}` was stopped before it started"),
        Ok(ShimStatus::InOtherContainer) => {
            format!("`{attempt}` is running in another container, which cannot be reached from here")
        }
        Err(error) => format!("`{attempt}`: {error}"),
    }
}
