//! An attempt that was given up while it worked. On one machine nobody gives up an attempt that lives; on a store that
//! several share, a person may have given up its whole host.

use std::path::Path;
use std::time::Duration;

use protocol::run::Run;
use protocol::{AttemptId, RunId};
use runner::RunAt;
use store::{AnyStore, Location};

use crate::config::Flags;
use crate::failure::Failure;
use crate::present::{Deed, Presentation};
use crate::workspace::{LocationArgs, Workspace};

/// An agent is not kept waiting for servers that do not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it is certain that the attempt is not at work any more, for the run as it is. If the store cannot be asked it
/// is not: the report lies in the attempt's directory, and is judged by whoever leads the run.
pub(super) async fn is_one(local_dir: &Path, run: &RunId, attempt: &AttemptId) -> bool {
    if !Location::is_of_shared(local_dir) {
        return false;
    }
    let asked = tokio::time::timeout(PATIENCE, ask(local_dir, run, attempt)).await;
    matches!(asked, Ok(Ok(Some(false))))
}

/// Whether the attempt is at work; nothing if there is no such run.
async fn ask(local_dir: &Path, run: &RunId, attempt: &AttemptId) -> Result<Option<bool>, Failure> {
    let workspace =
        Workspace::find(&LocationArgs { repo: None, store: Some(local_dir.to_owned()) }, Flags::default())?;
    let Some(store) = workspace.existing_store().await? else { return Ok(None) };
    workspace.with_run(&store, run, Looking { store: &store, run, attempt }).await
}

struct Looking<'a> {
    store: &'a AnyStore,
    run: &'a RunId,
    attempt: &'a AttemptId,
}

impl Deed for Looking<'_> {
    type Done = Option<bool>;

    async fn with<P: Presentation>(self) -> Result<Option<bool>, Failure> {
        let run_at = RunAt::<P>::at(self.store, self.run, None).await?;
        let is_it = |run_at: &RunAt<P>| {
            run_at.state.run.live_attempts().any(|(attempt, _)| Run::<P>::id(&attempt) == *self.attempt)
        };
        Ok(run_at.as_ref().map(is_it))
    }
}
