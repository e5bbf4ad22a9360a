//! View files of runs that rest, compared with what the store says was written last.

use std::fs;

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::run::RunStatus;
use store::{AnyStore, Digest, RunRow, Store as _};

use super::Finding;
use super::runs::{AT_ONCE, Runs};
use crate::failure::{Code, Failure};
use crate::output::count;
use crate::workspace;

const CHECK: &str = "views";

/// So many runs, the newest, are looked at: reading every file of a year would take longer than anybody waits.
const RUNS: usize = 100;

/// A run that rests has its views written. One that does not may be writing them now.
fn rests(row: &RunRow) -> bool {
    workspace::summary(row)
        .is_some_and(|summary| matches!(summary.status, RunStatus::Stopped(_) | RunStatus::Finished(_)))
}

pub(super) async fn check(store: &AnyStore, runs: &Runs) -> Vec<Finding> {
    let (mut same, mut missing, mut differ) = (0, Vec::new(), Vec::new());
    let rows = runs.all.iter().rev().filter(|row| rests(row)).take(RUNS);
    let loads = futures_util::stream::iter(rows.map(async |row| store.load(&row.run).await));
    let loaded: Vec<_> = match loads.buffered(AT_ONCE).try_collect().await {
        Ok(loaded) => loaded,
        Err(error) => {
            let failure = Failure::from(error);
            // A bucket that is gone was told with the store; it is one thing to do.
            let is_told = failure.code == Some(Code::NoStream);
            return if is_told { Vec::new() } else { vec![Finding::failure(CHECK, &failure)] };
        }
    };
    let host = store.is_shared().then(store::host_name);
    for loaded in loaded.into_iter().flatten() {
        for view in runner::marks_of_host(&loaded.views, host.as_deref()) {
            match fs::read(&view.path) {
                Ok(bytes) if Digest::of(&bytes) == view.digest => same += 1,
                Ok(_) => differ.push(view.path),
                Err(_) => missing.push(view.path),
            }
        }
    }
    let mut findings = Vec::new();
    if !differ.is_empty() {
        findings.push(
            Finding::note(
                CHECK,
                format!("{} not what callboard wrote", count(differ.len(), "file is", "files are")),
            )
            .code(Code::ViewSetAside)
            .details(differ)
            .detail("nothing is lost: they are never read, and the store has the runs"),
        );
    }
    if !missing.is_empty() {
        findings.push(
            Finding::note(
                CHECK,
                format!("{} missing or unreadable", count(missing.len(), "file is", "files are")),
            )
            .detail("nothing is lost: the store has the runs; `callboard show RUN` reads it"),
        );
    }
    if findings.is_empty() {
        findings.push(Finding::fine(CHECK, format!("{} as the store says", count(same, "file", "files"))));
    }
    findings
}
