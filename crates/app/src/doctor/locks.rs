//! Who holds what: the writer lock of the store, and the lock of each run's engine. Nothing is locked to find out.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use protocol::RunId;
use store::{AnyStore, HeldLock, Location, ProcessInfo, ReadError, Store as _};

use super::runs::Unfinished;
use super::{Finding, Ground};
use crate::failure::Code;
use crate::output;

const CHECK: &str = "locks";

/// The process that is the engine of a run.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    pub(super) pid: u32,
    /// Where it is, if the store is shared.
    host: Option<String>,
    pub(super) stopped: bool,
    /// How long it has led.
    since: Option<Duration>,
}

/// The locks of a store at one run_at.
#[derive(Debug, Default)]
pub(super) struct Locks {
    writer_lock: Vec<ProcessInfo>,
    pub(super) engines: BTreeMap<String, Engine>,
}

impl Engine {
    /// Who holds the lease of a run, in a store that has leases.
    pub(super) async fn leading(store: &AnyStore, run: &RunId) -> Result<Option<Self>, ReadError> {
        match store {
            AnyStore::Embedded(_) => Ok(None),
            AnyStore::Nats(store, _) => Ok(store.engine_holder(run).await?.map(|holder| Self {
                stopped: holder.is_stopped(),
                pid: holder.pid,
                host: Some(holder.host),
                since: None,
            })),
        }
    }
}

impl Locks {
    /// Adds the engines of runs that were found by other means.
    pub(super) fn add(&mut self, runs: &[Unfinished]) {
        for Unfinished { run, engine, .. } in runs {
            if let Some(engine) = engine {
                self.engines.insert(run.to_string(), engine.clone());
            }
        }
    }

    pub(super) fn look(location: &Location) -> Self {
        let mut locks = Self::default();
        for HeldLock { file, holder } in store::held_locks(location.root()) {
            if file == location.writer_lock() {
                locks.writer_lock.push(holder);
            } else if let Some(run) = location.run_of_lock(&file) {
                // It is signed when it is taken.
                let signed = fs::metadata(&file).and_then(|file| file.modified()).ok();
                let since = signed.and_then(|signed| signed.elapsed().ok());
                locks
                    .engines
                    .insert(run, Engine { pid: holder.pid, host: None, stopped: holder.stopped, since });
            }
        }
        locks
    }
}

/// `is_read`: whether the store could be read, which alone tells who leads a run on NATS.
pub(super) fn check(ground: &Ground, locks: &Locks, is_read: bool) -> Vec<Finding> {
    if ground.nats.is_some() && !is_read {
        return vec![Finding::note(
            CHECK,
            "which engines are at work cannot be told: the store cannot be read",
        )];
    }
    let mut findings = Vec::new();
    for &ProcessInfo { pid, stopped, .. } in &locks.writer_lock {
        if stopped {
            findings.push(
                Finding::act(
                    CHECK,
                    format!("process {pid} holds the writer lock and is stopped: nobody can write"),
                )
                .detail("let it go on, or end it with `kill -9`: what it had not committed is undone")
                .remedy(format!("kill -CONT {pid}")),
            );
        }
    }
    for (run, Engine { pid, .. }) in locks.engines.iter().filter(|(_, engine)| engine.stopped) {
        findings.push(
            Finding::act(CHECK, format!("the engine of run `{run}`, process {pid}, is stopped"))
                .code(Code::Held)
                .detail(format!(
                    "or end it with `kill -9 {pid}`, then `callboard resume {run}{}`",
                    ground.flags
                ))
                .remedy(format!("kill -CONT {pid}")),
        );
    }
    let engines = locks.engines.iter().map(|(run, Engine { pid, host, since, .. })| {
        let host = host.as_ref().map(|host| format!(" on `{host}`")).unwrap_or_default();
        let since = since.map(|since| format!(" for {}", output::duration(since))).unwrap_or_default();
        format!("run `{run}`: process {pid}{host}{since}")
    });
    let what = match locks.engines.len() {
        0 => "no engine is at work".to_owned(),
        some => output::count(some, "engine is at work", "engines are at work"),
    };
    if findings.is_empty() {
        findings.push(Finding::fine(CHECK, what).details(engines));
    }
    findings
}
