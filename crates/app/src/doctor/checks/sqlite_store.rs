//! The embedded store: its directory, format, integrity and permissions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use store::{AnyStore, Location, SqliteStore, StoreInspection};

use super::{DoctorContext, Finding};
use crate::failure::{Code, Failure};
use crate::output::{shell_word, size};
use crate::workspace::lost_store::LostStore;

const CHECK: &str = "store";

/// Returns the findings, and the store if other checks can read it.
pub(super) fn check(context: &DoctorContext) -> (Vec<Finding>, Option<AnyStore>) {
    let location = match &context.location {
        Ok(location) => location,
        Err(failure) => return (vec![Finding::failure(CHECK, failure)], None),
    };
    let mut findings: Vec<_> = permissions(location.root()).into_iter().collect();
    let path = format!("{} ({})", location.root().display(), context.store_reason);
    let store = match SqliteStore::inspect(location) {
        Ok(None) => {
            findings.insert(0, no_store(context, &path));
            None
        }
        Ok(Some(examined)) => {
            findings.insert(0, integrity(location, &path, &examined, &context.flags));
            examined.store.map(AnyStore::from)
        }
        Err(error) => {
            let finding = Finding::failure(CHECK, &Failure::from(error));
            findings.insert(0, finding.detail(format!("store: {path}")));
            None
        }
    };
    (findings, store)
}

fn no_store(context: &DoctorContext, path: &str) -> Finding {
    let lost = LostStore::find(&context.repo);
    match (lost.summary(), lost.command()) {
        (Some(summary), Some(command)) => Finding::note(CHECK, summary)
            .detail(format!("expected at {path}; if you moved it, move it back or name it with `--store`"))
            .command(command + &context.flags),
        _ => Finding::ok(CHECK, format!("no store yet; the first run creates {path}")),
    }
}

fn integrity(location: &Location, path: &str, examined: &StoreInspection, flags: &str) -> Finding {
    let StoreInspection { format, problems, .. } = examined;
    if !problems.is_empty() {
        return Finding::problem(CHECK, format!("{path}: damaged"))
            .code(Code::Damaged)
            .details(problems.iter().map(|problem| format!("SQLite: {problem}")))
            .detail("`callboard recover` backs it up and builds a new store from what can be read")
            .command(format!("callboard recover --dry-run{flags}"));
    }
    let bytes = size(fs::metadata(location.database()).map_or(0, |database| database.len()));
    Finding::ok(CHECK, format!("{path}: format {format}, {bytes}, intact"))
}

/// Checks that other users cannot access the store's directory. Returns a finding if they can.
pub(super) fn permissions(root: &Path) -> Option<Finding> {
    let mode = fs::metadata(root).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        Finding::problem(CHECK, format!("other users can access its directory (mode {mode:o})"))
            .detail("it contains prompts, logs and reports of agents")
            .command(format!("chmod 700 {}", shell_word(root)))
    })
}
