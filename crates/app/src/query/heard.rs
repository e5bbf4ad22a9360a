//! What agents at work were last heard to say. A step without a time limit may hang for good: that it has written nothing
//! for long, and what the last thing was, tells a slow agent from one that waits for something that will not come.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{Stamp, StepId};
use serde::Serialize;
use supervisor::AttemptDir;

use super::RunHandle;
use super::steps::Doing;

/// One that has just begun need not have said anything.
const MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Heard {
    Nothing,
    Output {
        at: Stamp,
        /// Its last line with something on it.
        #[serde(skip_serializing_if = "Option::is_none")]
        line: Option<String>,
        log: PathBuf,
    },
}

/// Listens to all that are at work.
pub(crate) fn mark(handle: &RunHandle, now: Stamp, steps: &mut BTreeMap<StepId, Doing>) {
    for doing in steps.values_mut() {
        if let Doing::AtWork { attempt, since, heard, host: None, .. } = doing
            && now.since(*since) >= MARGIN
        {
            *heard = Some(listen(&handle.dir(attempt)));
        }
    }
}

fn listen(dir: &AttemptDir) -> Heard {
    let logs = [dir.stdout(), dir.stderr()].into_iter();
    let newest = logs.filter_map(|log| Some((written(&log)?, log))).max();
    match newest {
        None => Heard::Nothing,
        Some((at, log)) => Heard::Output { at, line: runner::last_line(&log), log },
    }
}

/// When something was last written to a file, if anything was.
fn written(log: &Path) -> Option<Stamp> {
    let data = fs::symlink_metadata(log).ok().filter(|data| data.is_file() && data.len() > 0)?;
    let at = jiff::Timestamp::try_from(data.modified().ok()?).ok()?;
    Some(Stamp::from_timestamp(at))
}
