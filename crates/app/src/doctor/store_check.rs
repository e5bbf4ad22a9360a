//! The store: where it is and why, its format, whether SQLite finds it sound, who may look inside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use store::{AnyStore, Examined, Location, SqliteStore};

use super::{Finding, Ground};
use crate::failure::{Code, Failure};
use crate::output::{shell_word, size};
use crate::workspace::traces::Traces;

const CHECK: &str = "store";

/// A log larger than this is not emptied any more: somebody reads all the time, or a process hangs.
const LARGE_LOG: u64 = 64 << 20;

/// The findings, and the store for whoever wants to read in it.
pub(super) fn check(ground: &Ground) -> (Vec<Finding>, Option<AnyStore>) {
    let location = match &ground.location {
        Ok(location) => location,
        Err(failure) => return (vec![Finding::failure(CHECK, failure)], None),
    };
    let mut findings: Vec<_> = permissions(location.root()).into_iter().collect();
    let place = format!("{} ({})", location.root().display(), ground.chosen_by);
    let store = match SqliteStore::examine(location) {
        Ok(None) => {
            findings.insert(0, none(ground, &place));
            None
        }
        Ok(Some(examined)) => {
            findings.insert(0, soundness(location, &place, &examined, &ground.flags));
            findings.extend(log(location));
            examined.store.map(AnyStore::from)
        }
        Err(error) => {
            let finding = Finding::failure(CHECK, &Failure::from(error));
            findings.insert(0, finding.detail(format!("found at {place}")));
            None
        }
    };
    (findings, store)
}

/// A new place, or one that has lost its store.
fn none(ground: &Ground, place: &str) -> Finding {
    let traces = Traces::of(&ground.repo);
    match (traces.what(), traces.remedy()) {
        (Some(what), Some(remedy)) => Finding::note(CHECK, what)
            .detail(format!("it would be {place}; if it was moved, move it back or say where with `--store`"))
            .remedy(remedy + &ground.flags),
        _ => Finding::fine(CHECK, format!("none yet; it would be {place}")),
    }
}

fn soundness(location: &Location, place: &str, examined: &Examined, flags: &str) -> Finding {
    let Examined { format, known, problems, .. } = examined;
    let bytes = size(fs::metadata(location.database()).map_or(0, |database| database.len()));
    if !problems.is_empty() {
        return Finding::act(CHECK, format!("{place}: damaged"))
            .code(Code::Damaged)
            .details(problems.iter().map(|problem| format!("SQLite: {problem}")))
            .detail("`callboard recover` keeps it byte for byte, and builds a new one from what can be read")
            .remedy(format!("callboard recover --dry-run{flags}"));
    }
    if format < known {
        return Finding::note(CHECK, format!("{place}: format {format}, {bytes}, sound"))
            .detail(format!("the next command that writes brings it to format {known}"));
    }
    Finding::fine(CHECK, format!("{place}: format {format}, {bytes}, sound"))
}

fn log(location: &Location) -> Option<Finding> {
    let log = fs::metadata(location.log()).ok()?.len();
    (log > LARGE_LOG).then(|| {
        Finding::note(CHECK, format!("its write-ahead log has {} and is not emptied", size(log)))
            .detail("a process that reads or hangs keeps it; it shrinks when the last one ends")
    })
}

/// Whether others may look into what agents leave there.
pub(super) fn permissions(root: &Path) -> Option<Finding> {
    let mode = fs::metadata(root).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        Finding::act(CHECK, format!("others may look into it: its mode is {mode:o}"))
            .detail("prompts, logs and reports of agents are in it")
            .remedy(format!("chmod 700 {}", shell_word(root)))
    })
}
