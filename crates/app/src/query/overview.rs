//! Answers what users ask about a stuck run: what runs or waits and since when, the last error, the iterations used, and
//! what takes longer than usual.

use std::collections::BTreeMap;

use protocol::entry::Author;
use protocol::run::RunStatus;
use protocol::{AttemptId, Revision, StepId, Timestamp};
use runner::{History, RunAtRevision};
use serde::Serialize;
use store::EngineHolder;
use supervisor::{AttemptDir, ShimStatus};

use super::attempts::last_error::{self, LastError};
use super::attempts::{last_output, slow_attempts};
use super::gates::{self, Gate};
use super::steps::{self, AttemptPresence, StepActivity};
use super::{RunHandle, hosts};
use crate::failure::Failure;
use crate::present::run_status::EnginePresence;

#[derive(Debug, Serialize)]
pub(crate) struct RunOverview {
    /// Now, or the time of the requested revision.
    pub(crate) at: Timestamp,
    pub(crate) engine: EngineStatus,
    /// The sources from which `recover` rebuilt the run.
    pub(crate) recovered: Vec<Recovered>,
    /// The request that paused or stopped the run.
    pub(crate) stopped_by: Option<StoppedBy>,
    /// Every step that is unfinished.
    pub(crate) steps: BTreeMap<StepId, StepActivity>,
    /// Attempts on other hosts, by host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) remote: BTreeMap<String, Vec<AttemptId>>,
    pub(crate) last_error: Option<LastError>,
    /// Why git refused to fast-forward the base branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_merged: Option<String>,
    pub(crate) gates: Vec<Gate>,
}

/// The engine of the run.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum EngineStatus {
    Running {
        pid: u32,
        host: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// Suspended by Ctrl-Z or a signal.
        suspended: bool,
    },
    /// The run is unfinished and has no engine.
    Missing,
    /// The store could not be asked.
    Unknown { why: String },
    /// The run needs no engine.
    NotNeeded,
    /// For a past revision only the last engine that wrote is known.
    LastWriter { by: Author },
}

impl EngineStatus {
    pub(crate) fn presence(&self) -> EnginePresence {
        match self {
            Self::Running { .. } => EnginePresence::Alive,
            Self::Missing => EnginePresence::Missing,
            Self::Unknown { .. } | Self::NotNeeded | Self::LastWriter { .. } => EnginePresence::NotChecked,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Recovered {
    pub(crate) revision: Revision,
    pub(crate) from: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoppedBy {
    pub(crate) by: Author,
    pub(crate) at: Timestamp,
    pub(crate) reason: Option<String>,
}

impl RunOverview {
    /// Reads the run at a revision, or at its newest one.
    pub(crate) async fn read(
        handle: &RunHandle,
        at: Option<Revision>,
    ) -> Result<(RunAtRevision, Self), Failure> {
        // Read the engine first: a run that finishes in between is then seen finished, not without an engine.
        let holder = match at {
            None => handle.engine().await,
            Some(_) => Ok(None),
        };
        let run_at = handle.run_at(at).await?;
        let history = handle.history(&run_at).await?;
        let engine = match at {
            None => current_engine(&run_at, &history, holder.map_err(|error| error.to_string())),
            Some(_) => past_engine(&run_at, &history),
        };
        // If the engine is unknown, the steps are shown as if there were one.
        let has_engine = !matches!(engine, EngineStatus::Missing);
        let presence = |attempt: &_| match hosts::of(&handle.store, &run_at.state, attempt) {
            Some(host) => AttemptPresence::Remote { host: host.to_owned() },
            None if at.is_none() && has_ended(&handle.dir(attempt)) => AttemptPresence::Ended,
            None => AttemptPresence::Local,
        };
        let mut steps = steps::activities(&run_at, &history, has_engine, presence);
        let now = match at {
            // The time of a run never goes backwards.
            None => handle.workspace.clock.now().max(run_at.state.at),
            Some(_) => run_at.state.at,
        };
        slow_attempts::mark_slow(handle, &run_at, &history, now, &mut steps).await?;
        if at.is_none() {
            last_output::add_to(handle, now, &mut steps);
        }
        let overview = Self {
            at: now,
            engine,
            remote: hosts::remote(&handle.store, &run_at.state),
            last_error: last_error::find(handle, &run_at, &history),
            not_merged: history.not_merged,
            recovered: history
                .recovered
                .iter()
                .map(|(revision, source)| Recovered { revision: *revision, from: source.to_string() })
                .collect(),
            stopped_by: history.stopped_by.map(|runner::StoppedBy { by, at, reason }| StoppedBy {
                by,
                at,
                reason,
            }),
            steps,
            gates: gates::of(&run_at),
        };
        Ok((run_at, overview))
    }
}

fn current_engine(
    run_at: &RunAtRevision,
    history: &History,
    holder: Result<Option<EngineHolder>, String>,
) -> EngineStatus {
    let holder = match holder {
        Ok(holder) => holder,
        Err(why) => return EngineStatus::Unknown { why },
    };
    let Some(holder) = holder else {
        return match run_at.state.run.status {
            RunStatus::Finished(_) | RunStatus::Stopped(_) => EngineStatus::NotNeeded,
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => EngineStatus::Missing,
        };
    };
    let is_holder = |by: &Author| matches!(by, Author::Engine { pid, host, .. } if *pid == holder.pid && *host == holder.host);
    let since = history.engine.as_ref().filter(|engine| is_holder(&engine.author)).map(|engine| engine.since);
    let suspended = holder.is_stopped();
    EngineStatus::Running { pid: holder.pid, host: holder.host, since, suspended }
}

fn past_engine(run_at: &RunAtRevision, history: &History) -> EngineStatus {
    match (&history.engine, run_at.state.run.status) {
        (_, RunStatus::Finished(_)) => EngineStatus::NotNeeded,
        (Some(engine), _) => EngineStatus::LastWriter { by: engine.author.clone() },
        (None, _) => EngineStatus::Missing,
    }
}

/// Whether no agent of the attempt can be running: it has exited, its shim is dead, or it was never started.
fn has_ended(dir: &AttemptDir) -> bool {
    dir.exit().exists()
        || match supervisor::shim_status(dir) {
            Ok(ShimStatus::Unclaimed | ShimStatus::Void | ShimStatus::Dead) => true,
            Ok(ShimStatus::Alive { .. } | ShimStatus::InOtherContainer) | Err(_) => false,
        }
}
