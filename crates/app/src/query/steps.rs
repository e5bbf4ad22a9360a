//! What each unfinished step does or waits for.

use std::collections::BTreeMap;

use protocol::rules::StepStatus;
use protocol::run::{ActiveTurn, RunStatus, TurnStatus};
use protocol::{AttemptId, Stamp, StepId};
use runner::{History, RunAt};
use serde::Serialize;

use super::baseline::SlowAttempt;
use super::last_output::LastOutput;
use crate::present::Presentation;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum StepActivity {
    Running {
        attempt: AttemptId,
        since: Stamp,
        /// Its host, if it is not this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        slow: Option<SlowAttempt>,
        /// Only for the newest revision, and for attempts that have run for a few seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_output: Option<LastOutput>,
    },
    /// The engine has asked its agent to stop.
    Stopping {
        attempt: AttemptId,
        since: Stamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// Its agent has exited, and no engine has read the result yet.
    Ended { attempt: AttemptId, since: Stamp },
    /// Waits before the next attempt.
    BackingOff { since: Stamp, until: Stamp },
    /// Ready; all `--jobs` slots are in use.
    WaitingForSlot { since: Stamp },
    /// Ready; the run has no engine.
    WaitingForEngine { since: Stamp },
    /// Ready; the run is paused, stopping or stopped.
    Held { since: Stamp },
    /// Ready; a gate has failed and the loop-back has not happened yet.
    WaitingForLoopBack { since: Stamp },
    /// Needs steps that have not succeeded.
    WaitingForSteps { steps: Vec<StepId> },
}

/// What can be observed of an attempt that is running according to the journal.
pub(crate) enum AttemptTrace {
    /// It was started on another host.
    Remote { host: String },
    /// It was started here, and its agent cannot be running any more.
    Ended,
    /// It was started here, and its agent may be running.
    Local,
}

/// Returns the activity of every unfinished step.
pub(crate) fn activities<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    has_engine: bool,
    trace: impl Fn(&AttemptId) -> AttemptTrace,
) -> BTreeMap<StepId, StepActivity> {
    let run = &run_at.state.run;
    if matches!(run.status, RunStatus::Finished(_)) {
        return BTreeMap::new();
    }
    let definition = &run_at.spec.definition;
    let held_back = P::deferred(definition, &run.state).map(|deferred| deferred.quiet).unwrap_or_default();
    let activity = |step: &P::Step| match run.active_turns.get(step) {
        Some(active) => {
            let before_loop_back = held_back.contains(step);
            let name = P::step_id(step);
            Some(turn_activity(run_at, history, has_engine, &name, active, before_loop_back, &trace))
        }
        None => waiting_for_steps(run_at, step),
    };
    let steps = P::steps(definition).into_iter();
    steps.filter_map(|step| Some((P::step_id(&step), activity(&step)?))).collect()
}

/// Returns the activity of a step with an active turn.
fn turn_activity<P: Presentation>(
    run_at: &RunAt<P>,
    history: &History,
    has_engine: bool,
    step: &StepId,
    active: &ActiveTurn,
    before_loop_back: bool,
    trace: impl Fn(&AttemptId) -> AttemptTrace,
) -> StepActivity {
    let attempt = AttemptId { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no };
    let attempted = history.newest_of(step).filter(|attempted| attempted.id == attempt);
    let started = attempted.map_or(run_at.state.at, |attempted| attempted.began);
    let since = history.waiting.get(step).copied().unwrap_or(run_at.state.at);
    let host = match trace(&attempt) {
        AttemptTrace::Ended if !has_engine && active.status.holds_slot() => {
            return StepActivity::Ended { attempt, since: started };
        }
        AttemptTrace::Remote { host } => Some(host),
        AttemptTrace::Ended | AttemptTrace::Local => None,
    };
    let starts_steps = run_at.state.run.status.starts();
    match active.status {
        TurnStatus::Running => {
            StepActivity::Running { attempt, since: started, host, slow: None, last_output: None }
        }
        TurnStatus::Stopping => {
            let asked = attempted.and_then(|attempted| attempted.asked_to_end);
            StepActivity::Stopping { attempt, since: asked.unwrap_or(started), host }
        }
        TurnStatus::BackingOff if starts_steps => {
            let until = run_at.state.timers.get(&attempt).map_or(since, |timer| timer.fires_at);
            StepActivity::BackingOff { since, until }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if !starts_steps => StepActivity::Held { since },
        TurnStatus::Queued | TurnStatus::BackingOff if before_loop_back => {
            StepActivity::WaitingForLoopBack { since }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if has_engine => StepActivity::WaitingForSlot { since },
        TurnStatus::Queued | TurnStatus::BackingOff => StepActivity::WaitingForEngine { since },
    }
}

/// Returns the unmet needs of an unfinished step that was not queued yet.
fn waiting_for_steps<P: Presentation>(run_at: &RunAt<P>, step: &P::Step) -> Option<StepActivity> {
    let (definition, state) = (&run_at.spec.definition, &run_at.state.run.state);
    if P::step_status(definition, state, step) != StepStatus::Unfinished {
        return None;
    }
    let needs = P::needs(definition, step).into_iter();
    let missing = needs.filter(|need| !P::unblocks_dependents(definition, state, need));
    Some(StepActivity::WaitingForSteps { steps: missing.map(|need| P::step_id(&need)).collect() })
}
