//! Who runs, and who waits for what.

use std::collections::BTreeMap;

use protocol::rules::StepStatus;
use protocol::run::{ActiveTurn, RunStatus, TurnStatus};
use protocol::{AttemptId, Stamp, StepId};
use runner::{History, RunAt};
use serde::Serialize;

use super::heard::Heard;
use super::usual::Slow;
use crate::present::Presentation;

/// Whether somebody acts for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    There,
    Nobody,
}

/// What a step that is not behind us is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Doing {
    /// Its agent is at work.
    AtWork {
        attempt: AttemptId,
        since: Stamp,
        /// If it is another one than this.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        slow: Option<Slow>,
        /// Of the present, and of one that has been at work for a while.
        #[serde(skip_serializing_if = "Option::is_none")]
        heard: Option<Heard>,
    },
    /// Its agent has been asked to end.
    Ending {
        attempt: AttemptId,
        since: Stamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// No agent of it is at work any more, and there is no engine to take up what is left.
    Ended { attempt: AttemptId, since: Stamp },
    /// It rests after a failed attempt.
    Resting { since: Stamp, until: Stamp },
    /// It is ready; all places of `--jobs` are taken.
    WaitsForPlace { since: Stamp },
    /// It is ready; nobody is there to start it.
    WaitsForEngine { since: Stamp },
    /// It is ready; the run starts nothing now.
    Held { since: Stamp },
    /// It is ready; steps before it are about to be sent back.
    WaitsForWayBack { since: Stamp },
    /// It needs steps that are not done.
    WaitsFor { steps: Vec<StepId> },
}

/// What can be seen of an attempt that the journal says may be alive.
pub(crate) enum Trace {
    /// It is on another host: nothing.
    Remote {
        host: String,
    },
    /// No agent of it can be at work.
    Gone,
    Workspace,
}

/// What every step that is still to do something does, at this run_at.
pub(crate) fn doing<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    engine: Engine,
    trace: impl Fn(&AttemptId) -> Trace,
) -> BTreeMap<StepId, Doing> {
    let run = &run_at.state.run;
    if matches!(run.status, RunStatus::Finished(_)) {
        return BTreeMap::new();
    }
    let definition = &run_at.spec.definition;
    let held_back = P::deferred(definition, &run.state).map(|deferred| deferred.quiet).unwrap_or_default();
    let about = |step: &P::Step| match run.active_turns.get(step) {
        Some(active) => {
            let on_its_way = held_back.contains(step);
            Some(live_attempts(run_at, history, engine, &P::step_id(step), active, on_its_way, &trace))
        }
        None => unseated(run_at, step),
    };
    let steps = P::steps(definition).into_iter();
    steps.filter_map(|step| Some((P::step_id(&step), about(&step)?))).collect()
}

/// A step in its turn.
fn live_attempts<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    engine: Engine,
    step: &StepId,
    active: &ActiveTurn,
    held_back: bool,
    trace: impl Fn(&AttemptId) -> Trace,
) -> Doing {
    let attempt = AttemptId { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no };
    let attempted = history.newest_of(step).filter(|attempted| attempted.id == attempt);
    let began = attempted.map_or(run_at.state.at, |attempted| attempted.began);
    let since = history.waiting.get(step).copied().unwrap_or(run_at.state.at);
    let host = match trace(&attempt) {
        Trace::Gone if engine == Engine::Nobody && active.status.holds_slot() => {
            return Doing::Ended { attempt, since: began };
        }
        Trace::Remote { host } => Some(host),
        Trace::Gone | Trace::Workspace => None,
    };
    match active.status {
        TurnStatus::Running => Doing::AtWork { attempt, since: began, host, slow: None, heard: None },
        TurnStatus::Stopping => {
            let asked = attempted.and_then(|attempted| attempted.asked_to_end);
            Doing::Ending { attempt, since: asked.unwrap_or(began), host }
        }
        TurnStatus::BackingOff if run_at.state.run.status.starts() => {
            let deferred = run_at.state.timers.get(&attempt).map_or(since, |timer| timer.fires_at);
            Doing::Resting { since, until: deferred }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if !run_at.state.run.status.starts() => {
            Doing::Held { since }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if held_back => Doing::WaitsForWayBack { since },
        TurnStatus::Queued | TurnStatus::BackingOff => match engine {
            Engine::There => Doing::WaitsForPlace { since },
            Engine::Nobody => Doing::WaitsForEngine { since },
        },
    }
}

/// A step that has not been called, and is still to be done.
fn unseated<P: Presentation>(run_at: &RunAt<P>, step: &P::Step) -> Option<Doing> {
    let (definition, state) = (&run_at.spec.definition, &run_at.state.run.state);
    if P::step_status(definition, state, step) != StepStatus::Unfinished {
        return None;
    }
    let needs = P::needs(definition, step).into_iter();
    let missing = needs.filter(|need| !P::is_behind(definition, state, need));
    Some(Doing::WaitsFor { steps: missing.map(|need| P::step_id(&need)).collect() })
}
