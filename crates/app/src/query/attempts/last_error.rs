//! The last failed attempt of a run.

use std::path::PathBuf;

use protocol::present::StatusKind;
use protocol::run::AttemptConsequence;
use protocol::{AttemptId, Revision, StepKind, Timestamp};
use runner::{AttemptEndRecord, AttemptRecord, History, RunAtRevision};
use serde::Serialize;
use supervisor::AttemptDir;

use crate::query::RunHandle;

#[derive(Debug, Serialize)]
pub(crate) struct LastError {
    pub(crate) attempt: AttemptId,
    /// Whether an agent, a command, a person or the engine did the work.
    #[serde(skip_serializing_if = "StepKind::is_agent")]
    pub(crate) kind: StepKind,
    pub(crate) at: Timestamp,
    pub(crate) revision: Revision,
    pub(crate) error: String,
    /// The host that has its logs, if they are not here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// Its log or directory; `None` if it was removed or is on another host.
    pub(crate) log: Option<PathBuf>,
}

/// Returns the last attempt that failed up to this revision. A stopped attempt did not fail; an interrupted one did.
pub(crate) fn find(handle: &RunHandle, run_at: &RunAtRevision, history: &History) -> Option<LastError> {
    let failed = history.attempts.iter().filter_map(|record| {
        let end = record.end.as_ref()?;
        Some((end, record, error(run_at, history, record, end)?))
    });
    let (end, record, error) = failed.max_by_key(|(end, ..)| end.revision)?;
    let log = log(&handle.dir(&record.id));
    let is_remote = || handle.store.is_shared() && record.host != linux::host_name();
    Some(LastError {
        attempt: record.id.clone(),
        kind: record.kind,
        at: end.at,
        revision: end.revision,
        error,
        host: (log.is_none() && is_remote()).then(|| record.host.clone()),
        log,
    })
}

fn error(
    run_at: &RunAtRevision,
    history: &History,
    record: &AttemptRecord,
    end: &AttemptEndRecord,
) -> Option<String> {
    match end.consequence {
        AttemptConsequence::WillRetry { .. }
        | AttemptConsequence::Interrupted { .. }
        | AttemptConsequence::Exhausted
        | AttemptConsequence::FailedWhileDraining => {
            Some(end.error.clone().unwrap_or_else(|| "no reason recorded".to_owned()))
        }
        // A gate with a valid report fails if no iteration is left.
        AttemptConsequence::Reported => {
            let machine = run_at.machine();
            let step = Some(&record.id.step).filter(|step| machine.has_step(step))?;
            let summary = machine.step_summary(step);
            let is_newest = || history.newest_of(&record.id.step) == Some(record);
            (summary.kind == StatusKind::Failed && is_newest()).then_some(summary.error)?
        }
        AttemptConsequence::Stopped | AttemptConsequence::Released => None,
    }
}

/// Returns the log of stderr if it has output, or else that of stdout, or else the directory if it exists.
fn log(dir: &AttemptDir) -> Option<PathBuf> {
    let has_text = |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.len() > 0);
    [dir.stderr(), dir.stdout()]
        .into_iter()
        .find(has_text)
        .or_else(|| dir.path().is_dir().then(|| dir.path().to_owned()))
}
