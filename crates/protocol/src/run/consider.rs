//! Requests of users and of the engine, which may be refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::absorb::{apply_move, complete_stop_or_finish, decide, stop_all};
use super::change::{AttemptStopReason, Change, Decision};
use super::state::{Run, RunStatus, RunStopCause};
use crate::protocol_trait::{Event, Move, Next, Outcome, RequestRefusal, StepStatus};
use crate::{StepId, Turn};

/// What may be requested of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request<R = Value> {
    /// Start nothing more, and let attempts continue.
    Pause,
    /// Continue after a pause or a stop.
    Resume,
    /// Stop all attempts. Some protocols end the run; in the others it can be resumed.
    Stop,
    /// Stop all attempts because the engine was interrupted. The run can be resumed.
    Interrupt,
    /// Retry a failed step, or all of them.
    Retry { step: Option<StepId> },
    /// Continue as if the step had succeeded.
    Skip { step: StepId },
    /// A request that only this protocol has.
    Protocol(R),
}

impl<R> Request<R> {
    /// Converts the protocol's own request.
    pub(crate) fn try_map<Q, E>(&self, read: impl FnOnce(&R) -> Result<Q, E>) -> Result<Request<Q>, E> {
        Ok(match self {
            Self::Pause => Request::Pause,
            Self::Resume => Request::Resume,
            Self::Stop => Request::Stop,
            Self::Interrupt => Request::Interrupt,
            Self::Retry { step } => Request::Retry { step: step.clone() },
            Self::Skip { step } => Request::Skip { step: step.clone() },
            Self::Protocol(own) => Request::Protocol(read(own)?),
        })
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it has succeeded")]
    Succeeded,
    #[error("it ended incomplete")]
    Incomplete,
    #[error("it has failed")]
    Failed,
    #[error("it is ending: its outcome is known")]
    Finishing,
    #[error("it is paused")]
    Paused,
    #[error("it is stopped")]
    Stopped,
    #[error("nothing in it has failed")]
    NothingFailed,
    #[error("`{0}` has not failed")]
    NotFailed(String),
    #[error("`{0}` is done")]
    Done(String),
    #[error("`{0}` is running")]
    Running(String),
    #[error("`{0}` cannot be skipped: in a `{1}` run every step builds on the one before")]
    CannotSkip(String, &'static str),
    /// The protocol refused a request of its own.
    #[error(transparent)]
    Protocol(#[from] RequestRefusal),
    #[error("a `{0}` run has no such request")]
    NoSuchRequest(&'static str),
}

/// Makes the first decision of a run.
pub fn open(run: &mut Run) -> Decision {
    let mut decision = Decision::nothing();
    decide(run, Event::Opened, &mut decision);
    complete_stop_or_finish(run, &mut decision);
    decision
}

/// Moves a run to a state that was read from a document. `turns` has the last known turn of each step.
pub fn import(run: &mut Run, imported: Move, turns: BTreeMap<StepId, Turn>) -> Decision {
    let mut decision = Decision::nothing();
    // Queue and dequeue the last known turn, so that the next turn gets a number that was never used.
    for (step, turn) in turns {
        decision.apply(run, Change::Queued { step: step.clone(), turn });
        decision.apply(run, Change::Dequeued { step });
    }
    carry_out_and_reopen(run, imported, &mut decision);
    complete_stop_or_finish(run, &mut decision);
    decision
}

/// Applies a move. If it queues steps, a run whose outcome was known is running again.
fn carry_out_and_reopen(run: &mut Run, protocol_move: Move, decision: &mut Decision) {
    match (run.status, &protocol_move.next) {
        (
            RunStatus::Finished(_) | RunStatus::Finishing(_) | RunStatus::Draining(_),
            Next::Queue(_) | Next::QueueUnlessInTurn(_),
        ) => {
            decision.apply(run, Change::Status { status: RunStatus::Running });
        }
        (_, Next::Queue(_) | Next::QueueUnlessInTurn(_) | Next::Finish(_) | Next::Drain(_)) => {}
    }
    apply_move(run, protocol_move, decision);
}

/// Decides a request and applies the decision. A request that would change nothing, such as pausing a paused run,
/// succeeds or, if the protocol says so, is refused.
pub fn consider(run: &mut Run, request: &Request) -> Result<Decision, Refusal> {
    let mut decision = Decision::nothing();
    match request {
        Request::Pause => pause(run, &mut decision)?,
        Request::Resume => resume(run, &mut decision)?,
        Request::Stop => stop(run, &mut decision)?,
        Request::Interrupt => stop_attempts(run, RunStopCause::EngineInterrupted, &mut decision)?,
        Request::Retry { step } => retry(run, step.as_ref(), &mut decision)?,
        Request::Skip { step } => skip(run, step, &mut decision)?,
        Request::Protocol(own) => consider_protocol_request(run, own, &mut decision)?,
    }
    Ok(decision)
}

fn refusal_after(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Succeeded => Refusal::Succeeded,
        Outcome::Incomplete => Refusal::Incomplete,
        Outcome::Failed => Refusal::Failed,
    }
}

fn pause(run: &mut Run, decision: &mut Decision) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running => decision.apply(run, Change::Status { status: RunStatus::Paused }),
        RunStatus::Paused if run.machine.kind().info().refuses_noop_requests => return Err(Refusal::Paused),
        RunStatus::Paused => {}
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => return Err(Refusal::Finishing),
        RunStatus::Finished(outcome) => return Err(refusal_after(outcome)),
    }
    Ok(())
}

fn resume(run: &mut Run, decision: &mut Decision) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {
            decision.apply(run, Change::Status { status: RunStatus::Running });
        }
        // A run that is ending may be resumed, so that an engine drives it to its end.
        RunStatus::Running | RunStatus::Draining(_) | RunStatus::Finishing(_) => {}
        RunStatus::Finished(outcome) => return Err(refusal_after(outcome)),
    }
    Ok(())
}

/// Stops the run. In some protocols a stop finishes the run, which then cannot be resumed.
fn stop(run: &mut Run, decision: &mut Decision) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {}
        // The outcome is known, so the protocol is not asked for another one.
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => {
            return stop_attempts(run, RunStopCause::Requested, decision);
        }
    }
    match run.machine.on_stop() {
        None => stop_attempts(run, RunStopCause::Requested, decision),
        Some(end) => {
            apply_move(run, end, decision);
            complete_stop_or_finish(run, decision);
            Ok(())
        }
    }
}

fn stop_attempts(run: &mut Run, cause: RunStopCause, decision: &mut Decision) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running | RunStatus::Paused => {
            decision.apply(run, Change::Status { status: RunStatus::Stopping(cause) });
            stop_all(run, AttemptStopReason::RunStops, decision);
        }
        // The outcome is known, so there is nothing to resume: the run finishes.
        RunStatus::Draining(outcome) => {
            decision.apply(run, Change::Status { status: RunStatus::Finishing(outcome) });
            stop_all(run, AttemptStopReason::RunStops, decision);
        }
        RunStatus::Stopping(_) | RunStatus::Stopped(_) | RunStatus::Finishing(_) => {}
        RunStatus::Finished(outcome) => return Err(refusal_after(outcome)),
    }
    complete_stop_or_finish(run, decision);
    Ok(())
}

fn retry(run: &mut Run, step: Option<&StepId>, decision: &mut Decision) -> Result<(), Refusal> {
    let failed = run.machine.failed_steps();
    let steps = match step {
        Some(step) if failed.contains(step) => vec![step.clone()],
        Some(step) => return Err(Refusal::NotFailed(step.to_string())),
        None if failed.is_empty() => {
            return Err(match run.status {
                RunStatus::Finished(Outcome::Succeeded) => Refusal::Succeeded,
                RunStatus::Finished(Outcome::Incomplete | Outcome::Failed)
                | RunStatus::Running
                | RunStatus::Paused
                | RunStatus::Stopping(_)
                | RunStatus::Stopped(_)
                | RunStatus::Draining(_)
                | RunStatus::Finishing(_) => Refusal::NothingFailed,
            });
        }
        None => failed,
    };
    reopen(run, decision)?;
    if let RunStatus::Stopped(_) = run.status {
        resume(run, decision)?;
    }
    decide(run, Event::Retried { steps }, decision);
    complete_stop_or_finish(run, decision);
    Ok(())
}

fn skip(run: &mut Run, step: &StepId, decision: &mut Decision) -> Result<(), Refusal> {
    let info = run.machine.kind().info();
    if !info.can_skip {
        return Err(Refusal::CannotSkip(step.to_string(), info.name));
    }
    match run.machine.step_status(step) {
        StepStatus::Skipped => return Ok(()),
        StepStatus::Succeeded => return Err(Refusal::Done(step.to_string())),
        StepStatus::Unfinished | StepStatus::Failed => {}
    }
    // The step, and the steps of its items if it is a data loop, as far as they have an active turn.
    let mut in_turn = run.machine.items(step);
    in_turn.push(step.clone());
    in_turn.retain(|step| run.active_turns.contains_key(step));
    if let Some(running) = in_turn.iter().find(|step| run.active_turns[*step].status.has_live_attempt()) {
        return Err(Refusal::Running(running.to_string()));
    }
    reopen(run, decision)?;
    for step in in_turn {
        decision.apply(run, Change::Dequeued { step });
    }
    decide(run, Event::Skipped { step: step.clone() }, decision);
    complete_stop_or_finish(run, decision);
    Ok(())
}

/// Reopens a run that finished without success. Refuses while attempts are being stopped or end by themselves.
fn reopen(run: &mut Run, decision: &mut Decision) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Finished(Outcome::Incomplete | Outcome::Failed) => {
            decision.apply(run, Change::Status { status: RunStatus::Running });
            Ok(())
        }
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopped(_) => Ok(()),
        RunStatus::Stopping(_) => Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => Err(Refusal::Finishing),
        RunStatus::Finished(Outcome::Succeeded) => Err(Refusal::Succeeded),
    }
}

/// Decides a request that only the run's protocol has. The protocol may reopen a finished run.
fn consider_protocol_request(run: &mut Run, request: &Value, decision: &mut Decision) -> Result<(), Refusal> {
    let outcome = match run.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopped(_) => None,
        RunStatus::Finished(outcome) => Some(outcome),
        RunStatus::Stopping(_) => return Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => return Err(Refusal::Finishing),
    };
    let protocol_move = run.machine.consider(request, outcome)?;
    carry_out_and_reopen(run, protocol_move, decision);
    complete_stop_or_finish(run, decision);
    Ok(())
}
