//! The last thing that went wrong.

use std::path::PathBuf;

use protocol::run::Exit;
use protocol::{AttemptId, Revision, Stamp};
use runner::{AttemptEnd, AttemptRecord, History, RunAt};
use serde::Serialize;
use store::Store as _;
use supervisor::AttemptDir;

use super::RunHandle;
use crate::present::{self, Presentation, StatusKind};

/// An attempt that failed.
#[derive(Debug, Serialize)]
pub(crate) struct Trouble {
    pub(crate) attempt: AttemptId,
    pub(crate) at: Stamp,
    pub(crate) revision: Revision,
    pub(crate) error: String,
    /// The host that has its logs, if that is not this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// Where to read more; nothing if its directory is gone, or elsewhere.
    pub(crate) log: Option<PathBuf>,
}

/// The last attempt that failed before this run_at. One that somebody stopped did not fail.
pub(crate) fn last<P: Presentation>(
    handle: &RunHandle,
    run_at: &RunAt<P>,
    history: &History,
) -> Option<Trouble> {
    let failed = history.attempts.iter().filter_map(|attempted| {
        let over = attempted.over.as_ref()?;
        Some((over, attempted, error(run_at, history, attempted, over)?))
    });
    let (over, attempted, error) = failed.max_by_key(|(over, ..)| over.revision)?;
    let log = log(&handle.dir(&attempted.id));
    let is_elsewhere = || handle.store.is_shared() && attempted.host != store::host_name();
    Some(Trouble {
        attempt: attempted.id.clone(),
        at: over.at,
        revision: over.revision,
        error,
        host: (log.is_none() && is_elsewhere()).then(|| attempted.host.clone()),
        log,
    })
}

fn error<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    attempted: &AttemptRecord,
    over: &AttemptEnd,
) -> Option<String> {
    match over.exit {
        Exit::WillRetry { .. } | Exit::Interrupted { .. } | Exit::Exhausted | Exit::Drained => {
            Some(over.error.clone().unwrap_or_else(|| "no reason was kept".to_owned()))
        }
        // A good report, of a gate that failed once too often.
        Exit::Reported => {
            let step = present::find_step::<P>(&run_at.spec.definition, &attempted.id.step)?;
            let shown = P::shown(&run_at.document, &step);
            let is_newest = || history.newest_of(&attempted.id.step) == Some(attempted);
            (shown.kind == StatusKind::Failed && is_newest()).then_some(shown.error)?
        }
        Exit::Stopped | Exit::Released => None,
    }
}

/// Where the attempt's last words are.
fn log(dir: &AttemptDir) -> Option<PathBuf> {
    let has_text = |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.len() > 0);
    [dir.stderr(), dir.stdout()]
        .into_iter()
        .find(has_text)
        .or_else(|| dir.path().is_dir().then(|| dir.path().to_owned()))
}
