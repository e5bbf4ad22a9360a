//! Writes the views of a run that has no engine: after an import, a recovery or an answer.

use std::path::PathBuf;

use protocol::RunId;
use runner::{Engine, EngineError, Notice, Observer, Overrides};
use store::{AnyStore, EngineLockError, LockPurpose};

use crate::engine;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The files of other programs that were at the paths of views: the path of each, and where it was moved.
pub(crate) type QuarantinedViews = Vec<(PathBuf, PathBuf)>;

/// Writes all views of a run and returns the files that it moved away for them. Returns `None` if the run has an
/// engine, which writes its views itself.
pub(crate) async fn write(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
) -> Result<Option<QuarantinedViews>, Failure> {
    let mut observer = QuarantineObserver::default();
    let engine_config =
        engine::with_local_dir(engine::engine_config(workspace, Overrides::default())?, store)?;
    let engine = match Engine::lock(store, engine_config, run, LockPurpose::OneShot, &mut observer).await {
        Err(EngineError::EngineLock(EngineLockError::Held { .. })) => return Ok(None),
        engine => engine?,
    };
    engine.write_views().await?;
    Ok(Some(observer.quarantined))
}

/// Makes the deferred transitions of a run and writes its views. Does nothing and returns true if the run has an engine, which
/// does both itself.
pub(crate) async fn make_deferred_transitions(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
) -> Result<bool, Failure> {
    let engine_config =
        engine::with_local_dir(engine::engine_config(workspace, Overrides::default())?, store)?;
    match Engine::lock(store, engine_config, run, LockPurpose::OneShot, &mut ()).await {
        Err(EngineError::EngineLock(EngineLockError::Held { .. })) => Ok(true),
        engine => {
            engine?.make_deferred_transitions_only().await?;
            Ok(false)
        }
    }
}

#[derive(Default)]
struct QuarantineObserver {
    quarantined: QuarantinedViews,
}

impl Observer for QuarantineObserver {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::ViewQuarantined { view, moved_to } = notice {
            self.quarantined.push((view, moved_to));
        }
    }
}
