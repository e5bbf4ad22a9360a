//! Restores the document of a run whose stored bytes were changed from outside.

use protocol::RunId;
use runner::{Engine, EngineConfig, Journal, LoadError, Notice, Observer, Restored};
use store::{AnyStore, LockPurpose};

use crate::control;
use crate::engine;
use crate::failure::{Code, Failure};
use crate::output::{self, YELLOW, styled};
use crate::workspace::Workspace;

/// Restores the document if it is corrupted, and returns whether it was. Refused inside an attempt, because an agent could use
/// it to discard what others have written.
pub(crate) async fn restore_document(
    workspace: &Workspace,
    store: &AnyStore,
    engine_config: &EngineConfig,
    run: &RunId,
) -> Result<bool, Failure> {
    match Journal::load(store, &workspace.clock, workspace.protocols, run).await {
        Err(LoadError::Corrupted { .. }) => {
            control::refuse_inside_attempt("recover a run")?;
            let engine_config = engine::with_local_dir(engine_config.clone(), store)?;
            let mut observer = RestoreObserver;
            // Taking the lock loads the run, and loading it restores the document.
            let engine = Engine::lock(store, engine_config, run, LockPurpose::OneShot, &mut observer).await?;
            engine.release().await;
            Ok(true)
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

/// Describes a restored document in one line.
pub(crate) fn restored_line(restored: &Restored) -> String {
    let Restored { run, from, corrupted_revision, problem, backup } = restored;
    let source = if from == corrupted_revision {
        "restored the last commit".to_owned()
    } else {
        format!("restored revision {from}, later changes are lost")
    };
    format!(
        "{} [{}] the document of run `{run}` was changed outside callboard at revision {corrupted_revision} ({problem}); {source}; \
         a backup of the changed document is in {}",
        styled(YELLOW, "!"),
        Code::Corrupted,
        backup.display()
    )
}

struct RestoreObserver;

impl Observer for RestoreObserver {
    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Restored(restored) = notice {
            output::message(restored_line(restored));
        }
    }
}
