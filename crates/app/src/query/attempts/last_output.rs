//! The last output of running attempts.
//!
//! A step without a timeout may hang for ever. The age and text of its last line distinguish a slow agent from one that
//! waits for input.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{StepId, Timestamp};
use serde::Serialize;
use supervisor::AttemptDir;

use crate::query::RunHandle;
use crate::query::steps::StepActivity;

/// Younger attempts are left out: that they have written nothing yet is no sign of a problem.
const MIN_AGE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum LastOutput {
    Nothing,
    Output {
        at: Timestamp,
        /// The last line that is not blank.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<String>,
        log: PathBuf,
    },
}

/// Sets the last output of all running attempts of this host, for which `host` is `None`.
pub(crate) fn add_to(handle: &RunHandle, now: Timestamp, steps: &mut BTreeMap<StepId, StepActivity>) {
    for activity in steps.values_mut() {
        if let StepActivity::Running { attempt, since, last_output, host: None, .. } = activity
            && now.since(*since) >= MIN_AGE
        {
            *last_output = Some(read(&handle.dir(attempt)));
        }
    }
}

fn read(dir: &AttemptDir) -> LastOutput {
    let logs = [dir.stdout(), dir.stderr()].into_iter();
    let newest = logs.filter_map(|log| Some((written_at(&log)?, log))).max();
    match newest {
        None => LastOutput::Nothing,
        Some((at, log)) => LastOutput::Output { at, line: runner::last_line(&log), log },
    }
}

/// Returns when the file was last written, if it is not empty.
fn written_at(log: &Path) -> Option<Timestamp> {
    let data = fs::symlink_metadata(log).ok().filter(|data| data.is_file() && data.len() > 0)?;
    let at = jiff::Timestamp::try_from(data.modified().ok()?).ok()?;
    Some(Timestamp::from_jiff(at))
}
