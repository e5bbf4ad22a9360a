//! The four questions people ask a stuck run: who runs or waits and since when, what went wrong last, how many
//! iterations are used up, what takes longer than usual.

use std::collections::BTreeMap;

use protocol::entry::Author;
use protocol::run::RunStatus;
use protocol::{AttemptId, Revision, Stamp, StepId};
use runner::{History, RunAt};
use serde::Serialize;
use store::EngineHolder;
use supervisor::{AttemptDir, ShimStatus};

use super::RunHandle;
use super::gates::{self, Gate};
use super::heard;
use super::steps::{self, Doing, Engine, Trace};
use super::trouble::{self, Trouble};
use super::usual;
use crate::failure::Failure;
use crate::present::Presentation;
use crate::present::run_status::EnginePresence;
use crate::query::hosts;

/// The answers, at one run_at.
#[derive(Debug, Serialize)]
pub(crate) struct Answers {
    /// The run_at's own time: now, or that of the revision looked at.
    pub(crate) at: Stamp,
    #[serde(rename = "engine")]
    pub(crate) acts: Acts,
    /// What it was put together from, if it had to be.
    pub(crate) recovered: Vec<Recovered>,
    /// Who paused or stopped the run.
    pub(crate) held: Option<Held>,
    /// Every step that is still to do something.
    pub(crate) steps: BTreeMap<StepId, Doing>,
    /// Attempts on other hosts, by host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) remote: BTreeMap<String, Vec<AttemptId>>,
    pub(crate) last_error: Option<Trouble>,
    pub(crate) gates: Vec<Gate>,
}

/// Who acts for the run.
#[derive(Debug, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Acts {
    AtWork {
        pid: u32,
        host: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Stamp>,
        /// By Ctrl-Z or a signal: nothing happens until somebody continues it.
        stopped: bool,
    },
    /// Nobody, although the run is not finished.
    Missing,
    /// Nobody can be asked.
    Unknown { why: String },
    /// Nobody needs to.
    NotNeeded,
    /// Of the past we know only who wrote last.
    WroteLast { by: Author },
}

impl Acts {
    pub(crate) fn engine(&self) -> EnginePresence {
        match self {
            Self::AtWork { .. } => EnginePresence::Alive,
            Self::Missing => EnginePresence::Missing,
            Self::Unknown { .. } | Self::NotNeeded | Self::WroteLast { .. } => EnginePresence::NotAsked,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Recovered {
    pub(crate) revision: Revision,
    /// In words.
    pub(crate) from: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Held {
    pub(crate) by: Author,
    pub(crate) at: Stamp,
    pub(crate) reason: Option<String>,
}

impl Answers {
    /// Answers for the run as it is, or as it was at a revision.
    pub(crate) async fn about<P: Presentation>(
        handle: &RunHandle,
        at: Option<Revision>,
    ) -> Result<(RunAt<P>, Self), Failure> {
        // The engine first, the run second: one that finishes in between is seen finished, not left alone.
        let holder = match at {
            None => handle.engine().await,
            Some(_) => Ok(None),
        };
        let run_at = handle.run_at::<P>(at).await?;
        let history = handle.history(&run_at).await?;
        let acts = match at {
            None => acts_now(&run_at, &history, holder.map_err(|error| error.to_string())),
            Some(_) => acted(&run_at, &history),
        };
        let engine = match acts {
            Acts::AtWork { .. } | Acts::NotNeeded | Acts::WroteLast { .. } | Acts::Unknown { .. } => {
                Engine::There
            }
            Acts::Missing => Engine::Nobody,
        };
        let trace = |attempt: &_| match hosts::of(&handle.store, &run_at.state, attempt) {
            Some(host) => Trace::Remote { host: host.to_owned() },
            None if at.is_none() && is_gone(&handle.dir(attempt)) => Trace::Gone,
            None => Trace::Workspace,
        };
        let mut steps = steps::doing(&run_at, &history, engine, trace);
        let now = match at {
            // A run's time never runs backwards, whatever the wall clock says.
            None => handle.workspace.clock.now().max(run_at.state.at),
            Some(_) => run_at.state.at,
        };
        usual::mark(handle, &run_at, &history, now, &mut steps).await?;
        if at.is_none() {
            heard::mark(handle, now, &mut steps);
        }
        let answers = Self {
            at: now,
            acts,
            remote: hosts::remote(&handle.store, &run_at.state),
            last_error: trouble::last(handle, &run_at, &history),
            recovered: history
                .recovered
                .iter()
                .map(|(revision, source)| Recovered { revision: *revision, from: source.to_string() })
                .collect(),
            held: history.held.map(|runner::Hold { by, at, reason }| Held { by, at, reason }),
            steps,
            gates: gates::of(&run_at),
        };
        Ok((run_at, answers))
    }
}

/// Who acts now.
fn acts_now<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    holder: Result<Option<EngineHolder>, String>,
) -> Acts {
    let holder = match holder {
        Ok(holder) => holder,
        Err(why) => return Acts::Unknown { why },
    };
    let Some(holder) = holder else {
        return match run_at.state.run.status {
            // Of a run that is stopped or interrupted it is what was wanted.
            RunStatus::Finished(_) | RunStatus::Stopped(_) => Acts::NotNeeded,
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => Acts::Missing,
        };
    };
    let is_it = |by: &Author| matches!(by, Author::Engine { pid, host, .. } if *pid == holder.pid && *host == holder.host);
    let since = history.engine.as_ref().filter(|engine| is_it(&engine.who)).map(|engine| engine.since);
    let stopped = holder.is_stopped();
    Acts::AtWork { pid: holder.pid, host: holder.host, since, stopped }
}

/// Who had acted by then.
fn acted<P: Presentation>(run_at: &RunAt<P>, history: &History) -> Acts {
    match (&history.engine, run_at.state.run.status) {
        (_, RunStatus::Finished(_)) => Acts::NotNeeded,
        (Some(engine), _) => Acts::WroteLast { by: engine.who.clone() },
        (None, _) => Acts::Missing,
    }
}

/// Whether no agent of the attempt can be at work: it has ended, its shim is dead, or it never began.
fn is_gone(dir: &AttemptDir) -> bool {
    dir.exit().exists()
        || match supervisor::shim_status(dir) {
            Ok(ShimStatus::Unclaimed | ShimStatus::Void | ShimStatus::Dead) => true,
            Ok(ShimStatus::Alive { .. } | ShimStatus::Remote) | Err(_) => false,
        }
}
