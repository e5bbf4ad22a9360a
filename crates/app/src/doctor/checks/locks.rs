//! Checks whether holders of the writer lock and of engine locks are stopped. Takes no lock itself.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use linux::{HeldLock, ProcessInfo};
use protocol::RunId;
use store::{AnyStore, Backend, Location, ReadError, Store as _};

use super::runs::Unfinished;
use super::{DoctorContext, Finding};
use crate::failure::Code;
use crate::output;

const CHECK: &str = "locks";

/// The engine process of a run.
#[derive(Debug, Clone)]
pub(super) struct RunningEngine {
    pub(super) pid: u32,
    /// Its host, if the store is on NATS.
    host: Option<String>,
    /// Stopped by a signal, such as Ctrl-Z.
    pub(super) stopped: bool,
    /// How long it has held the lock.
    held_for: Option<Duration>,
}

/// The held locks of a store.
#[derive(Debug, Default)]
pub(super) struct Locks {
    writer_lock: Vec<ProcessInfo>,
    pub(super) engines: BTreeMap<String, RunningEngine>,
}

impl RunningEngine {
    /// Returns the holder of a run's lease on NATS. An embedded store has no leases.
    pub(super) async fn from_lease(store: &AnyStore, run: &RunId) -> Result<Option<Self>, ReadError> {
        match store.backend() {
            Backend::Embedded(_) => Ok(None),
            Backend::Nats(store, _) => Ok(store.engine_holder(run).await?.map(|holder| Self {
                stopped: holder.is_stopped(),
                pid: holder.pid,
                host: Some(holder.host),
                held_for: None,
            })),
        }
    }
}

impl Locks {
    /// Adds the engines that were found by their leases.
    pub(super) fn add(&mut self, runs: &[Unfinished]) {
        for Unfinished { run, engine, .. } in runs {
            if let Some(engine) = engine {
                self.engines.insert(run.to_string(), engine.clone());
            }
        }
    }

    /// Finds the holders of the lock files of an embedded store.
    pub(super) fn scan(location: &Location) -> Self {
        let mut locks = Self::default();
        for HeldLock { file, holder } in linux::held_locks(location.root()) {
            if file == location.writer_lock() {
                locks.writer_lock.push(holder);
            } else if let Some(run) = location.run_of_lock(&file) {
                // The holder writes its pid and host into the file when it takes the lock.
                let taken = fs::metadata(&file).and_then(|file| file.modified()).ok();
                let held_for = taken.and_then(|taken| taken.elapsed().ok());
                let engine = RunningEngine { pid: holder.pid, host: None, stopped: holder.stopped, held_for };
                locks.engines.insert(run, engine);
            }
        }
        locks
    }
}

/// Reports lock holders that are stopped; if there are none, lists the running engines. On NATS the engines are known only if
/// the store could be read (`store_was_read`).
pub(super) fn check(context: &DoctorContext, locks: &Locks, store_was_read: bool) -> Vec<Finding> {
    if context.nats.is_some() && !store_was_read {
        return vec![Finding::note(CHECK, "cannot list running engines: the store cannot be read")];
    }
    let mut findings = Vec::new();
    for &ProcessInfo { pid, stopped, .. } in &locks.writer_lock {
        if stopped {
            findings.push(
                Finding::problem(
                    CHECK,
                    format!("process {pid} holds the writer lock and is stopped: every other writer waits"),
                )
                .detail(format!("continue it, or run `kill -9 {pid}`: uncommitted work is rolled back"))
                .command(format!("kill -CONT {pid}")),
            );
        }
    }
    for (run, RunningEngine { pid, .. }) in locks.engines.iter().filter(|(_, engine)| engine.stopped) {
        findings.push(
            Finding::problem(CHECK, format!("the engine of run `{run}`, process {pid}, is stopped"))
                .code(Code::EngineLockHeld)
                .detail(format!(
                    "continue it, or run `kill -9 {pid}` and `callboard resume {run}{}`",
                    context.flags
                ))
                .command(format!("kill -CONT {pid}")),
        );
    }
    let engines = locks.engines.iter().map(|(run, RunningEngine { pid, host, held_for, .. })| {
        let host = host.as_ref().map(|host| format!(" on `{host}`")).unwrap_or_default();
        let time = held_for.map(|time| format!(" for {}", output::duration(time))).unwrap_or_default();
        format!("run `{run}`: process {pid}{host}{time}")
    });
    let message = match locks.engines.len() {
        0 => "no engine is running".to_owned(),
        running => output::count(running, "engine is running", "engines are running"),
    };
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, message).details(engines));
    }
    findings
}
