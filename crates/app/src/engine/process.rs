//! Finds the engine process of a run, and waits until it is gone.

use std::time::Duration;

use linux::ProcessEnd;
use protocol::RunId;
use store::{AnyStore, EngineHolder, LockPurpose};

use crate::failure::{Exit, Failure};

/// How often to read the lease of an engine on another host: nothing signals that a lease has expired.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The process that is the engine of a run.
#[derive(Debug)]
pub(crate) struct EngineProcess {
    pub(crate) holder: EngineHolder,
    /// `None` if the engine is on another host, whose processes cannot be watched.
    process_end: Option<ProcessEnd>,
}

impl EngineProcess {
    /// Returns the engine of the run. A command that holds the lock for one request is not an engine.
    pub(crate) async fn of(store: &AnyStore, run: &RunId) -> Result<Option<Self>, Failure> {
        let read = async || Ok::<_, Failure>(store.peek_engine_holder(run).await?.filter(is_engine));
        while let Some(holder) = read().await? {
            // Open the process first, then check that it still holds the lock. Otherwise the pid might belong to another
            // process by now.
            let process_end = holder.is_local().then(|| ProcessEnd::of(holder.pid));
            let process_end = process_end.transpose().map_err(|error| cannot_wait(&error))?;
            if read().await?.as_ref() == Some(&holder) {
                return Ok(Some(Self { holder, process_end }));
            }
        }
        Ok(None)
    }

    /// Waits until the engine has exited. Of one on another host: until it no longer holds the lease.
    pub(crate) async fn wait_until_gone(&self, store: &AnyStore, run: &RunId) -> Result<(), Failure> {
        if let Some(process_end) = &self.process_end {
            return process_end.wait().await.map_err(|error| cannot_wait(&error));
        }
        while store.peek_engine_holder(run).await?.is_some_and(|holder| holder == self.holder) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns its host, if it is not this one.
    pub(crate) fn host(&self) -> Option<String> {
        (!self.holder.is_local()).then(|| self.holder.host.clone())
    }
}

fn is_engine(holder: &EngineHolder) -> bool {
    holder.purpose == LockPurpose::Engine
}

/// Names a process, with its host if it is not this one.
pub(crate) fn process_name(pid: u32, host: Option<&str>) -> String {
    match host {
        None => format!("process {pid}"),
        Some(host) => format!("process {pid} on `{host}`"),
    }
}

fn cannot_wait(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Bug, "cannot wait for the engine").because(Some(error))
}
