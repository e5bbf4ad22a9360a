//! The engine of a run, for whoever waits until it leads no more.

use std::time::Duration;

use protocol::RunId;
use store::{AnyStore, EngineHolder, Store as _, Tenure};
use supervisor::ProcessEnd;

use crate::failure::{Exit, Failure};

/// How often we look whether an engine on another host still leads: nobody tells when a lease runs out.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// An engine that we keep in sight.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) holder: EngineHolder,
    /// None of one on another host, whose process cannot be held from here.
    process_end: Option<ProcessEnd>,
}

impl Engine {
    /// The engine of the run, if it has one. Somebody on an errand is none.
    pub(crate) async fn of(store: &AnyStore, run: &RunId) -> Result<Option<Self>, Failure> {
        let look = async || Ok::<_, Failure>(store.peek_engine_holder(run).await?.filter(is_engine));
        while let Some(holder) = look().await? {
            // First hold the process, then see that it is still the engine: then its end is the engine's end.
            let process_end = holder.is_local().then(|| ProcessEnd::of(holder.pid));
            let process_end = process_end.transpose().map_err(|error| lost_sight(&error))?;
            if look().await?.as_ref() == Some(&holder) {
                return Ok(Some(Self { holder, process_end }));
            }
        }
        Ok(None)
    }

    /// Returns when it leads no more.
    pub(crate) async fn gone(&self, store: &AnyStore, run: &RunId) -> Result<(), Failure> {
        if let Some(process_end) = &self.process_end {
            return process_end.wait().await.map_err(|error| lost_sight(&error));
        }
        while store.peek_engine_holder(run).await?.is_some_and(|holder| holder == self.holder) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Ok(())
    }

    /// The host it is on, if that is not this one.
    pub(crate) fn host(&self) -> Option<String> {
        (!self.holder.is_local()).then(|| self.holder.host.clone())
    }
}

fn is_engine(holder: &EngineHolder) -> bool {
    holder.tenure == Tenure::Engine
}

/// A process as people are told of it: with its host, if that is another one.
pub(crate) fn process(pid: u32, host: Option<&str>) -> String {
    match host {
        None => format!("process {pid}"),
        Some(host) => format!("process {pid} on `{host}`"),
    }
}

fn lost_sight(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Bug, "cannot wait for the engine").because(Some(error))
}
