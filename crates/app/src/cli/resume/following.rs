//! A run that another host leads is followed, and taken over when it is free.

use protocol::RunId;
use protocol::run::RunStatus;
use store::{AnyStore, EngineHolder, EngineLockError, Store as _};

use super::Arguments;
use crate::control;
use crate::engine::progress::Progress;
use crate::engine::watcher::Watcher;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::Presentation;
use crate::present::run_status;
use crate::query::RunHandle;
use crate::workspace::Workspace;

/// The engine of the run, if it is on another host.
pub(super) async fn remote(store: &AnyStore, run: &RunId) -> Result<Option<EngineHolder>, Failure> {
    let holder = control::engine_of(store, run).await?;
    Ok(holder.filter(|holder| store.is_shared() && !holder.is_local()))
}

/// Whether a run that was led when we wanted to lead it is worth another look: an engine on this host is not waited for.
pub(super) async fn may_be_free_soon(store: &AnyStore, run: &RunId) -> Result<bool, Failure> {
    Ok(store.is_shared() && control::engine_of(store, run).await?.is_none_or(|holder| !holder.is_local()))
}

/// Follows a run that another host leads, until it rests or is free to be led from here.
pub(super) async fn follow<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    holder: EngineHolder,
    arguments: &Arguments,
) -> Result<Option<Exit>, Failure> {
    if arguments.detach || arguments.at_once || arguments.abandon_host.is_some() {
        let EngineHolder { pid, host, .. } = holder;
        let held = EngineLockError::Held { run: run.clone(), pid, host, stopped: false };
        return Err(Failure::from(held).hint(
            "it leads until it lets go or its lease runs out, in less than a minute; then type the same again",
        ));
    }
    output::note(format_args!(
        "`{}` leads it; following it: this host takes over when that engine leads no more, Ctrl-C leaves",
        holder.host
    ));
    let handle = RunHandle { workspace: workspace.clone(), store: store.clone(), run: run.clone() };
    let progress = Progress::new(workspace, run, arguments.show.json);
    if let Some(exit) = Watcher::<P>::at(&handle, progress).await?.until_free().await? {
        return Ok(Some(exit));
    }
    let status = workspace.load::<P>(store, run).await?.state.run.status;
    match status {
        // Somebody wanted it so after we were told to go on: the later word holds.
        RunStatus::Paused | RunStatus::Stopping(_) => {
            let (_, word) = run_status::word(status);
            output::note(format_args!("it is {word} since; `callboard resume {run}` goes on with it"));
            Ok(Some(Exit::NeedsPerson))
        }
        RunStatus::Running
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_)
        | RunStatus::Finished(_) => Ok(None),
    }
}
