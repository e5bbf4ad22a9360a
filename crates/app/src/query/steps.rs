//! What each unfinished step does or waits for.

use std::collections::BTreeMap;

use protocol::protocol_trait::StepStatus;
use protocol::run::{ActiveTurn, RunStatus, TurnStatus};
use protocol::{AttemptId, StepId, StepKind, Timestamp, Turn};
use runner::{History, RunAtRevision};
use serde::Serialize;

use super::attempts::last_output::LastOutput;
use super::attempts::slow_attempts::SlowAttempt;

/// What an unfinished step does or waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub(crate) enum StepActivity {
    Running {
        attempt: AttemptId,
        since: Timestamp,
        /// Whether an agent, a command or the engine does the work.
        #[serde(skip_serializing_if = "StepKind::is_agent")]
        kind: StepKind,
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
        since: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// Its agent has exited, and no engine has read the result yet.
    Ended { attempt: AttemptId, since: Timestamp },
    /// Waits before the next attempt.
    BackingOff { since: Timestamp, until: Timestamp },
    /// Ready; all `--jobs` slots are in use.
    WaitingForSlot { since: Timestamp },
    /// Ready; the run has no engine.
    WaitingForEngine { since: Timestamp },
    /// Ready or backing off; the run is paused, stopping or stopped, so no attempt starts.
    WaitingForResume { since: Timestamp },
    /// Ready; a gate has failed and the loop-back has not happened yet.
    WaitingForLoopBack { since: Timestamp },
    /// A person is asked.
    WaitingForPerson {
        turn: Turn,
        since: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        question: Option<String>,
    },
    /// Conditions outside of the run must hold.
    WaitingForConditions { turn: Turn, since: Timestamp, conditions: Vec<String>, question: String },
    /// Needs steps that have not succeeded.
    WaitingForSteps { steps: Vec<StepId> },
}

/// What can be observed of an attempt that is running according to the journal.
pub(crate) enum AttemptPresence {
    /// It was started on another host.
    Remote { host: String },
    /// It was started here, and its agent cannot be running any more.
    Ended,
    /// It was started here, and its agent may be running.
    Local,
}

/// Returns the activity of every unfinished step.
pub(crate) fn activities(
    run_at: &RunAtRevision,
    history: &History,
    has_engine: bool,
    presence: impl Fn(&AttemptId) -> AttemptPresence,
) -> BTreeMap<StepId, StepActivity> {
    let run = &run_at.state.run;
    if matches!(run.status, RunStatus::Finished(_)) {
        return BTreeMap::new();
    }
    let machine = run_at.machine();
    // A deferred loop-back waits until these steps have no attempt alive.
    let to_be_reset = machine.deferred().map(|deferred| deferred.must_be_idle).unwrap_or_default();
    let activity = |step: &StepId| match run.active_turns.get(step) {
        Some(active) => {
            let before_loop_back = to_be_reset.contains(step);
            Some(turn_activity(run_at, history, has_engine, step, active, before_loop_back, &presence))
        }
        None => waiting_for_steps(run_at, step),
    };
    machine.steps().into_iter().filter_map(|step| Some((step.clone(), activity(&step)?))).collect()
}

/// Returns the activity of a step with an active turn.
fn turn_activity(
    run_at: &RunAtRevision,
    history: &History,
    has_engine: bool,
    step: &StepId,
    active: &ActiveTurn,
    before_loop_back: bool,
    presence: impl Fn(&AttemptId) -> AttemptPresence,
) -> StepActivity {
    let attempt = active.attempt_id(step);
    let record = history.newest_of(step).filter(|record| record.id == attempt);
    let started = record.map_or(run_at.state.at, |record| record.started_at);
    let since = history.idle_since.get(step).copied().unwrap_or(run_at.state.at);
    let host = match presence(&attempt) {
        AttemptPresence::Ended if !has_engine && active.status.has_live_attempt() => {
            return StepActivity::Ended { attempt, since: started };
        }
        AttemptPresence::Remote { host } => Some(host),
        AttemptPresence::Ended | AttemptPresence::Local => None,
    };
    let starts_steps = run_at.state.run.status.may_start_steps();
    match active.status {
        TurnStatus::Running => {
            let kind = run_at.machine().step_kind(step);
            StepActivity::Running { attempt, since: started, kind, host, slow: None, last_output: None }
        }
        TurnStatus::Waiting => {
            let machine = run_at.machine();
            let question = machine.question(step).map(|question| question.text);
            let (turn, conditions) = (active.turn, machine.conditions(step));
            if conditions.is_empty() {
                return StepActivity::WaitingForPerson { turn, since, question };
            }
            let question = question.unwrap_or_default();
            StepActivity::WaitingForConditions { turn, since, conditions, question }
        }
        TurnStatus::Stopping => {
            let stop_requested = record.and_then(|record| record.stop_requested_at);
            StepActivity::Stopping { attempt, since: stop_requested.unwrap_or(started), host }
        }
        TurnStatus::BackingOff if starts_steps => {
            let until = run_at.state.timers.get(&attempt).map_or(since, |timer| timer.fires_at);
            StepActivity::BackingOff { since, until }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if !starts_steps => {
            StepActivity::WaitingForResume { since }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if before_loop_back => {
            StepActivity::WaitingForLoopBack { since }
        }
        TurnStatus::Queued | TurnStatus::BackingOff if has_engine => StepActivity::WaitingForSlot { since },
        TurnStatus::Queued | TurnStatus::BackingOff => StepActivity::WaitingForEngine { since },
    }
}

/// Returns the unmet needs of an unfinished step that was not queued yet.
fn waiting_for_steps(run_at: &RunAtRevision, step: &StepId) -> Option<StepActivity> {
    let machine = run_at.machine();
    if machine.step_status(step) != StepStatus::Unfinished {
        return None;
    }
    let needs = machine.needs(step).into_iter();
    let missing = needs.filter(|need| !machine.unblocks_dependents(need));
    Some(StepActivity::WaitingForSteps { steps: missing.collect() })
}
