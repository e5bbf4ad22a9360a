//! Writing a run's files outside of a play: for a run that came from elsewhere, or whose files were lost.

use std::path::PathBuf;

use protocol::RunId;
use runner::{Engine, EngineError, Notice, Observer, Overrides};
use store::{AnyStore, EngineLockError, Tenure};

use crate::engine;
use crate::failure::Failure;
use crate::present::Presentation;
use crate::workspace::Workspace;

/// Strangers' bytes: where they were, where they are.
pub(crate) type SetAside = Vec<(PathBuf, PathBuf)>;

/// Writes all files of a run, and tells what had to be set aside. Nothing is done if the run has an engine, which writes
/// them itself.
pub(crate) async fn write<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
) -> Result<Option<SetAside>, Failure> {
    let mut watcher = Watcher::default();
    let engine_config = engine::at_home(engine::engine_config(workspace, Overrides::default())?, store)?;
    let engine = match Engine::<P, _>::lock(store, engine_config, run, Tenure::OneShot, &mut watcher).await {
        Err(EngineError::EngineLock(EngineLockError::Held { .. })) => return Ok(None),
        engine => engine?,
    };
    engine.write_views().await?;
    Ok(Some(watcher.set_aside))
}

/// Remembers whose bytes were moved away.
#[derive(Default)]
struct Watcher {
    set_aside: SetAside,
}

impl<P: Presentation> Observer<P> for Watcher {
    fn notice(&mut self, notice: Notice<'_, P>) {
        if let Notice::ViewQuarantined { view, moved_to } = notice {
            self.set_aside.push((view, moved_to));
        }
    }
}
