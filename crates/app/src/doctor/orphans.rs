//! Processes that carry our mark and belong to nobody any more.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use supervisor::MarkedProcess;

use super::runs::Runs;
use super::{Finding, Ground};
use crate::output::{count, shell_word};

const CHECK: &str = "orphans";

/// `marked` was seen before the store was read: an attempt is in the store before it has a process.
pub(super) fn check(
    ground: &Ground,
    marked: io::Result<Vec<MarkedProcess>>,
    runs: Option<&Runs>,
) -> Vec<Finding> {
    let marked = match marked {
        Ok(marked) => marked,
        Err(error) => {
            return vec![Finding::note(CHECK, "the process table cannot be read").detail(error.to_string())];
        }
    };
    let roots = roots(ground, runs.is_some());
    let (ours, others): (Vec<_>, Vec<_>) =
        marked.into_iter().partition(|process| roots.contains(&real(&process.store)));
    let mut findings = match runs {
        Some(runs) => of_this_store(ours, runs),
        // No store, hence no run: whoever carries its mark is left over. One that cannot be read tells nothing.
        None if ground.nats.is_none() && !roots.iter().any(|root| root.join("callboard.db").exists()) => {
            of_this_store(ours, &Runs { all: Vec::new(), unfinished: Vec::new() })
        }
        None if ours.is_empty() => Vec::new(),
        None => vec![
            Finding::note(
                CHECK,
                format!("{} of this store's attempts", count(ours.len(), "process", "processes")),
            )
            .detail("whether their attempts are over cannot be told: the store cannot be read"),
        ],
    };
    findings.extend(of_other_stores(&others));
    findings
}

/// Where attempts of this store carry their mark from. While servers do not say which store they have, it is any that they
/// had before.
fn roots(ground: &Ground, is_read: bool) -> Vec<PathBuf> {
    match (&ground.nats, &ground.location) {
        (Some(settings), Ok(beside)) if !is_read => {
            let known = ground.root().into_iter().map(Path::to_owned);
            beside.local_dirs_at(&settings.server()).into_iter().chain(known).map(real).collect()
        }
        _ => ground.root().into_iter().map(real).collect(),
    }
}

fn of_this_store(ours: Vec<MarkedProcess>, runs: &Runs) -> Vec<Finding> {
    let belongs = |process: &MarkedProcess| {
        runs.unfinished.iter().any(|run| run.run.as_str() == process.run && run.steps(&process.attempt))
    };
    let (at_work, left): (Vec<_>, Vec<_>) = ours.into_iter().partition(belongs);
    // An attempt may have ended while we read the store: then its processes are gone by now.
    let still = if left.is_empty() { Vec::new() } else { supervisor::find_marked().unwrap_or_default() };
    let lives = |process: &MarkedProcess| {
        still.iter().any(|now| (now.pid, now.start_time) == (process.pid, process.start_time))
    };
    let left: Vec<_> = left.into_iter().filter(lives).collect();
    if left.is_empty() {
        let at_work = count(at_work.len(), "process", "processes");
        return vec![Finding::fine(CHECK, format!("none; {at_work} of attempts at work"))];
    }
    let details = left.iter().map(|process| {
        let MarkedProcess { pid, run, attempt, command, .. } = process;
        let known = runs.all.iter().any(|row| row.run.as_str() == run);
        let why = if known { "which is over" } else { "and there is no such run" };
        format!("process {pid} of `{attempt}` of run `{run}`, {why}: {command}")
    });
    let what = count(left.len(), "process belongs", "processes belong");
    let what = format!("{what} to no attempt at work");
    vec![Finding::act(CHECK, what).details(details).remedy(format!("kill {}", numbers(&left)))]
}

/// The numbers of the processes and of what they started, each once.
fn numbers(processes: &[MarkedProcess]) -> String {
    let mut numbers: Vec<_> =
        processes.iter().flat_map(|process| process.below.iter().copied().chain([process.pid])).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.iter().map(i32::to_string).collect::<Vec<_>>().join(" ")
}

/// Not ours to judge: each store knows its own runs.
fn of_other_stores(others: &[MarkedProcess]) -> Vec<Finding> {
    let mut by_store: BTreeMap<&Path, Vec<&MarkedProcess>> = BTreeMap::new();
    for process in others {
        by_store.entry(&process.store).or_default().push(process);
    }
    let findings = by_store.into_iter().map(|(store, processes)| {
        let what = count(processes.len(), "process belongs", "processes belong");
        let finding = Finding::note(CHECK, format!("{what} to another store: {}", store.display()));
        if store.exists() {
            return finding.remedy(format!("callboard doctor --store {}", shell_word(store)));
        }
        let listed = processes.iter().map(|process| format!("process {}: {}", process.pid, process.command));
        finding.detail("that store is gone").details(listed)
    });
    findings.collect()
}

fn real(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().canonicalize().unwrap_or_else(|_| path.as_ref().to_owned())
}
