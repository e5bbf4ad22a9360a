//! Attempts that were abandoned while they ran. This happens only on a shared store, by `resume --abandon-host`.

use std::path::Path;
use std::time::Duration;

use protocol::{AttemptId, RunId};
use runner::RunAtRevision;
use store::Location;

use crate::config::Flags;
use crate::failure::Failure;
use crate::workspace::{LocationArgs, Workspace};

/// Servers that do not answer must not block an agent.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns whether the run does not count the attempt as running any more. Returns `false` if the store cannot be read:
/// the report is in the attempt's directory, and the engine decides.
pub(super) async fn is_abandoned(local_dir: &Path, run: &RunId, attempt: &AttemptId) -> bool {
    // The store is embedded.
    if !Location::is_local_dir(local_dir) {
        return false;
    }
    let is_live = tokio::time::timeout(TIMEOUT, is_live(local_dir, run, attempt)).await;
    matches!(is_live, Ok(Ok(Some(false))))
}

/// Returns whether the attempt is running or stopping according to the journal, or `None` if there is no such run.
async fn is_live(local_dir: &Path, run: &RunId, attempt: &AttemptId) -> Result<Option<bool>, Failure> {
    let workspace =
        Workspace::find(&LocationArgs { repo: None, store: Some(local_dir.to_owned()) }, Flags::default())?;
    let Some(store) = workspace.existing_store().await? else { return Ok(None) };
    let run_at = RunAtRevision::load(store.as_ref(), workspace.protocols, run, None).await?;
    Ok(run_at.map(|run_at| run_at.state.run.live_attempts().any(|(live, _)| live == *attempt)))
}
