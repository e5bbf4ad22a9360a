//! Following a run whose engine is on another host, and taking it over when that engine ends.

use protocol::RunId;
use protocol::run::RunStatus;
use store::{AnyStore, EngineHolder, EngineLockError};

use super::Arguments;
use crate::control;
use crate::engine::progress::Progress;
use crate::engine::watcher::Watcher;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::query::RunHandle;
use crate::workspace::Workspace;

/// Returns the engine of the run if it is on another host.
pub(super) async fn remote_engine(store: &AnyStore, run: &RunId) -> Result<Option<EngineHolder>, Failure> {
    let holder = control::engine_of(store, run).await?;
    Ok(holder.filter(|holder| store.is_shared() && !holder.is_local()))
}

/// Returns whether to wait for the engine lock again: not if an engine on this host has it.
pub(super) async fn may_wait_for_lock(store: &AnyStore, run: &RunId) -> Result<bool, Failure> {
    Ok(store.is_shared() && control::engine_of(store, run).await?.is_none_or(|holder| !holder.is_local()))
}

/// Follows a run until it ends or stops, or until its engine on another host ends. Returns `None` if this host can take over.
pub(super) async fn follow(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    holder: EngineHolder,
    arguments: &Arguments,
) -> Result<Option<Exit>, Failure> {
    if arguments.detach || arguments.fail_at_once || arguments.abandon_host.is_some() {
        let EngineHolder { pid, host, .. } = holder;
        // Only its own host can see whether the process is stopped by SIGSTOP.
        let held = EngineLockError::Held { run: run.clone(), pid, host, stopped: false };
        return Err(Failure::from(held)
            .hint("try again when that engine has ended; if it died, its lease expires within a minute"));
    }
    output::note(format_args!(
        "the engine is on `{}`; following it until this host can take over (Ctrl-C ends only this command)",
        holder.host
    ));
    let handle = RunHandle { workspace: workspace.clone(), store: store.clone(), run: run.clone() };
    let progress = Progress::new(workspace, run, arguments.engine.json);
    if let Some(exit) = Watcher::at(&handle, progress).await?.until_no_engine().await? {
        return Ok(Some(exit));
    }
    let status = workspace.load(store, run).await?.state.run.status;
    match status {
        // The run was paused or stopped after this command started. The later request wins.
        RunStatus::Paused | RunStatus::Stopping(_) => {
            let (_, word) = run_status::label(status);
            output::note(format_args!("the run is {word} now; run `callboard resume {run}` to continue it"));
            Ok(Some(Exit::NeedsPerson))
        }
        RunStatus::Running
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_)
        | RunStatus::Finished(_) => Ok(None),
    }
}
