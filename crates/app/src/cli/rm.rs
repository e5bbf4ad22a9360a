//! `callboard rm RUN`.

use std::fs;
use std::io;
use std::path::Path;

use protocol::RunId;
use protocol::run::RunStatus;
use runner::Journal;
use store::{AnyStore, EngineLock, EngineLockError, LockPurpose};

use super::block_on;
use crate::config::Flags;
use crate::control;
use crate::engine::notify::notified_dir;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::{self, LocationArgs, Workspace};

/// Remove a run with its journal, attempts and files
///
/// Only a run that has ended or was stopped is removed. Its integration branch stays, and so do worktrees and branches of steps
/// with changes that it does not have, and files that another program has changed. A new run can have the same name if none of
/// these branches and worktrees is left. On a shared store, files on other machines stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard rm f8c1a491
  callboard stop f8c1a491 && callboard rm f8c1a491
  callboard export f8c1a491 && callboard rm f8c1a491   # keep an archive")]
pub(super) struct Arguments {
    /// The whole name of the run
    run: String,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    control::refuse_inside_attempt("remove a run")?;
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let store = workspace.store_for_run(&arguments.run).await?;
        // A prefix would be too easy to mistype.
        let run = workspace::parse_run_name(&arguments.run)?;
        if store.protocol(&run).await?.is_none() {
            return Err(workspace.no_such_run(run.as_str()));
        }
        let context = format!("cannot remove run `{run}`");
        let lock = match store.lock_engine_for(&run, LockPurpose::OneShot).await {
            Err(error @ EngineLockError::Held { .. }) => {
                return Err(Failure::from_error(Exit::Refused, &error)
                    .context(context)
                    .hint(format_args!("run `callboard stop {run}` first")));
            }
            locked => locked?,
        };
        let removed = remove(&workspace, &store, &run, &lock).await;
        lock.release().await;
        removed.map_err(|failure| failure.context(context))?;
        output::message(format_args!("removed run `{run}`"));
        Ok(Exit::Success)
    })
}

async fn remove(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    lock: &EngineLock,
) -> Result<(), Failure> {
    let journal = workspace.load(store, run).await?;
    refuse_unfinished(&journal)?;
    // Files first: if this is interrupted the run is still there, and can be removed again.
    remove_files(store, &journal)?;
    Ok(store.remove_run(lock, journal.position).await?)
}

/// Refuses a run that is neither stopped nor finished.
pub(super) fn refuse_unfinished(journal: &Journal) -> Result<(), Failure> {
    let (run, state) = (&journal.run, &journal.state.run);
    let stop = format!("run `callboard stop {run}` first");
    let alive: Vec<_> = state.live_attempts().map(|(attempt, _)| format!("`{attempt}`")).collect();
    if !alive.is_empty() {
        let what = format!("its attempts may be alive: {}", alive.join(", "));
        return Err(Failure::new(Exit::Refused, what).hint(stop));
    }
    match state.status {
        RunStatus::Stopped(_) | RunStatus::Finished(_) => Ok(()),
        RunStatus::Running if state.is_waiting() => {
            let what = "it waits for a person";
            Err(Failure::new(Exit::Refused, what).hint("run `callboard inbox` to see for what").hint(stop))
        }
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => {
            let what = format!("it is unfinished: {}", run_status::label(state.status).1);
            Err(Failure::new(Exit::Refused, what).hint(stop))
        }
    }
}

/// Removes the views, the directory, the worktrees, the engine's log and the attempts of a run, as far as they are on this
/// machine.
fn remove_files(store: &AnyStore, journal: &Journal) -> Result<(), Failure> {
    let run = &journal.run;
    let options = &journal.spec.options;
    let run_dir = options.location.run_dir();
    let mut keeps_run_dir = false;
    for view in journal.document().views() {
        let path = Path::new(&view.path);
        match fs::read(path) {
            Ok(found) if found == view.body.as_bytes() => expect_removed(path, fs::remove_file(path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => {
                let why = found.map_or_else(
                    |error| format!("cannot read it: {error}"),
                    |_| "another program has changed it".to_owned(),
                );
                output::note(format_args!("kept `{}`: {why}", path.display()));
                keeps_run_dir |= path.starts_with(&run_dir);
            }
        }
    }
    if !keeps_run_dir {
        expect_removed(Path::new(&run_dir), fs::remove_dir_all(&run_dir))?;
    }
    if let Some(run_worktrees) = options.run_worktrees() {
        let kept = run_worktrees.remove().map_err(|error| Failure::from_error(Exit::Store, &error))?;
        for tree in kept {
            output::note(format_args!("kept the worktree `{}`: it has changes of its own", tree.display()));
        }
    }
    let local_dir = store.local_dir_for_repo(Path::new(&options.location.repo_dir));
    let local_dir = local_dir.unwrap_or_else(|_| store.local_dir().clone());
    // Which questions `[notify]` was told. A later run of that name has its own.
    let notified = notified_dir(store).join(run.as_str());
    expect_removed(&notified, fs::remove_dir_all(&notified))?;
    let log = local_dir.engines_dir().join(format!("{run}.log"));
    expect_removed(&log, fs::remove_file(&log))?;
    let attempts = local_dir.attempts_dir().join(run.as_str());
    expect_removed(&attempts, fs::remove_dir_all(&attempts))
}

/// Fails if a path was not removed. One that was missing is no error.
fn expect_removed(path: &Path, result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new(Exit::Store, format!("cannot remove `{}`", path.display()))
                .because(Some(&error)))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
