//! Processes that carry an attempt's mark although the attempt has ended.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use supervisor::MarkedProcess;

use super::runs::{Runs, Unfinished};
use super::{DoctorContext, Finding};
use crate::output::{count, shell_word};

const CHECK: &str = "orphans";

/// Finds orphans among the `marked` processes. They must be scanned before the store is read: an attempt is committed before
/// it has a process, so a scanned process whose attempt is not in `runs` is an orphan.
pub(super) fn check(
    context: &DoctorContext,
    marked: io::Result<Vec<MarkedProcess>>,
    runs: Option<&Runs>,
) -> Vec<Finding> {
    let marked = match marked {
        Ok(marked) => marked,
        Err(error) => {
            return vec![Finding::note(CHECK, "cannot read the process table").detail(error.to_string())];
        }
    };
    let store_dirs = store_dirs(context, runs.is_some());
    let (ours, others): (Vec<_>, Vec<_>) =
        marked.into_iter().partition(|process| store_dirs.contains(&canonical(&process.store)));
    let mut findings = match runs {
        Some(runs) => orphans_of_this_store(ours, runs),
        // Without a store there is no run, so every marked process is an orphan.
        None if context.nats.is_none() && !store_dirs.iter().any(|dir| dir.join("callboard.db").exists()) => {
            orphans_of_this_store(ours, &Runs { all: Vec::new(), unfinished: Vec::new() })
        }
        None if ours.is_empty() => Vec::new(),
        None => vec![
            Finding::note(
                CHECK,
                format!("{} of attempts of this store", count(ours.len(), "process", "processes")),
            )
            .detail("cannot tell whether their attempts have ended: the store cannot be read"),
        ],
    };
    findings.extend(processes_of_other_stores(&others));
    findings
}

/// Returns the directories that a mark of this store may name. If the NATS servers were not read, their store is not known.
/// These are then the local directories of every store they have had, which are below the location of the embedded store.
fn store_dirs(context: &DoctorContext, store_was_read: bool) -> Vec<PathBuf> {
    match (&context.nats, &context.location) {
        (Some(settings), Ok(embedded)) if !store_was_read => {
            let known = context.store_dir().into_iter().map(Path::to_owned);
            embedded.local_dirs_at(&settings.server()).into_iter().chain(known).map(canonical).collect()
        }
        _ => context.store_dir().into_iter().map(canonical).collect(),
    }
}

fn orphans_of_this_store(ours: Vec<MarkedProcess>, runs: &Runs) -> Vec<Finding> {
    let is_expected = |process: &MarkedProcess| {
        let may_run = |run: &Unfinished| run.may_be_running(&process.attempt);
        runs.unfinished.iter().any(|run| run.run.as_str() == process.run && may_run(run))
    };
    let (expected, unexpected): (Vec<_>, Vec<_>) = ours.into_iter().partition(is_expected);
    // An attempt may have ended while the store was read; its processes are gone by now.
    let rescan =
        if unexpected.is_empty() { Vec::new() } else { supervisor::find_marked().unwrap_or_default() };
    let is_alive = |process: &MarkedProcess| {
        rescan.iter().any(|now| (now.pid, now.start_time) == (process.pid, process.start_time))
    };
    let orphans: Vec<_> = unexpected.into_iter().filter(is_alive).collect();
    if orphans.is_empty() {
        let expected = count(expected.len(), "process", "processes");
        return vec![Finding::ok(CHECK, format!("none; {expected} of running attempts"))];
    }
    let details = orphans.iter().map(|process| {
        let MarkedProcess { pid, run, attempt, command, .. } = process;
        let known = runs.all.iter().any(|row| row.run.as_str() == run);
        let why = if known { "which has ended" } else { "which is not in the store" };
        format!("process {pid} of `{attempt}` of run `{run}`, {why}: {command}")
    });
    let processes = count(orphans.len(), "process belongs", "processes belong");
    let message = format!("{processes} to no running attempt");
    vec![Finding::problem(CHECK, message).details(details).command(format!("kill {}", pids(&orphans)))]
}

/// Lists the pids of the processes and of their descendants, each once.
fn pids(processes: &[MarkedProcess]) -> String {
    let mut pids: Vec<_> = processes
        .iter()
        .flat_map(|process| process.unmarked_descendants.iter().copied().chain([process.pid]))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

/// Lists processes of other stores. Only those stores know whether the attempts have ended.
fn processes_of_other_stores(others: &[MarkedProcess]) -> Vec<Finding> {
    let mut by_store: BTreeMap<&Path, Vec<&MarkedProcess>> = BTreeMap::new();
    for process in others {
        by_store.entry(&process.store).or_default().push(process);
    }
    let findings = by_store.into_iter().map(|(store, processes)| {
        let belong = count(processes.len(), "process belongs", "processes belong");
        let finding = Finding::note(CHECK, format!("{belong} to another store: {}", store.display()));
        if store.exists() {
            return finding.command(format!("callboard doctor --store {}", shell_word(store)));
        }
        let listed = processes.iter().map(|process| format!("process {}: {}", process.pid, process.command));
        finding.detail("that store does not exist any more").details(listed)
    });
    findings.collect()
}

fn canonical(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().canonicalize().unwrap_or_else(|_| path.as_ref().to_owned())
}
