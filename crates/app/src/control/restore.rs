//! A run whose document is not what was written: restored before anything else is done with the run.

use protocol::RunId;
use runner::{Engine, EngineConfig, Journal, LoadError, Notice, Observer, Restored};
use store::{AnyStore, Tenure};

use crate::control;
use crate::engine;
use crate::failure::{Code, Failure};
use crate::output::{self, YELLOW, styled};
use crate::present::Presentation;
use crate::workspace::Workspace;

/// Puts the document of a run back if it has to be, and says whether it had to. Agents may not: they could lose what
/// others have written.
pub(crate) async fn restore<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    engine_config: &EngineConfig,
    run: &RunId,
) -> Result<bool, Failure> {
    match Journal::<P, _>::load(store, &workspace.clock, run).await {
        Err(LoadError::Corrupted { .. }) => {
            control::refuse_agents_outright("recover a run")?;
            let (engine_config, mut teller) = (engine::at_home(engine_config.clone(), store)?, Teller);
            let engine =
                Engine::<P, _>::lock(store, engine_config, run, Tenure::OneShot, &mut teller).await?;
            engine.release().await;
            Ok(true)
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(false),
    }
}

/// What people are told of it.
pub(crate) fn told(restored: &Restored) -> String {
    let Restored { run, from, bad, what, kept } = restored;
    let source = if from == bad {
        "what was committed last is put back".to_owned()
    } else {
        format!("it is put back as it was at revision {from}; what came after is lost")
    };
    format!(
        "{} [{}] the document of run `{run}` was not what was written at revision {bad} ({what}); {source}; the bad bytes are kept in {}",
        styled(YELLOW, "!"),
        Code::Corrupted,
        kept.display()
    )
}

struct Teller;

impl<P: Presentation> Observer<P> for Teller {
    fn notice(&mut self, notice: Notice<'_, P>) {
        if let Notice::Restored(restored) = notice {
            output::talk(told(restored));
        }
    }
}
