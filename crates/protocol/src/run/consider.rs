//! Requests of users and of the engine, which may be refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::absorb::{carry_out, decide, settle, stop_all};
use super::change::{Change, Decision, StopReason};
use super::state::{Run, RunStatus, StopCause};
use crate::Turn;
use crate::rules::{Event, Move, Next, Outcome, Protocol, StepStatus};

/// What may be requested of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request<S> {
    /// Start nothing more, and let attempts continue.
    Pause,
    /// Continue after a pause or a stop.
    Resume,
    /// Stop all attempts. Some protocols end the run; in the others it can be resumed.
    Stop,
    /// Stop all attempts because the engine was interrupted. The run can be resumed.
    Interrupt,
    /// Retry a failed step, or all of them.
    Retry { step: Option<S> },
    /// Continue as if the step had succeeded.
    Skip { step: S },
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
}

/// Opens a run: its first decision.
pub fn open<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Decision<P> {
    let mut decision = Decision::nothing();
    decide(definition, run, Event::Opened, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Moves a run to a state that was read from a document. `turns` is the number of turns that each step had at least.
pub fn import<P: Protocol>(
    run: &mut Run<P>,
    imported: Move<P::Change, P::Step>,
    turns: BTreeMap<P::Step, Turn>,
) -> Decision<P> {
    let mut decision = Decision::nothing();
    // Queueing and dequeueing a turn makes the next one a number that was never used.
    for (step, turn) in turns {
        decision.apply(run, Change::Queued { step: step.clone(), turn });
        decision.apply(run, Change::Dequeued { step });
    }
    // A run that had finished, or was about to, is running again if the imported state has steps to start.
    match (run.status, &imported.next) {
        (
            RunStatus::Finished(_) | RunStatus::Finishing(_) | RunStatus::Draining(_),
            Next::Queue(_) | Next::Requeue(_),
        ) => {
            decision.apply(run, Change::Status { status: RunStatus::Running });
        }
        (_, Next::Queue(_) | Next::Requeue(_) | Next::Finish(_) | Next::Drain(_)) => {}
    }
    carry_out(run, imported, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Decides a request and applies the decision. A request for what is already the case succeeds and changes nothing.
pub fn consider<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    request: &Request<P::Step>,
) -> Result<Decision<P>, Refusal> {
    let mut decision = Decision::nothing();
    match request {
        Request::Pause => pause(run, &mut decision)?,
        Request::Resume => resume(run, &mut decision)?,
        Request::Stop => stop(definition, run, &mut decision)?,
        Request::Interrupt => stop_attempts(run, StopCause::Interrupted, &mut decision)?,
        Request::Retry { step } => retry(definition, run, step.as_ref(), &mut decision)?,
        Request::Skip { step } => skip(definition, run, step, &mut decision)?,
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

fn pause<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running => decision.apply(run, Change::Status { status: RunStatus::Paused }),
        RunStatus::Paused => {}
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => return Err(Refusal::Finishing),
        RunStatus::Finished(outcome) => return Err(refusal_after(outcome)),
    }
    Ok(())
}

fn resume<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
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

/// Stops the run. A protocol may take a stop for an end: then the run finishes and cannot be resumed.
fn stop<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {}
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => {
            return stop_attempts(run, StopCause::Requested, decision);
        }
    }
    match P::on_stop(definition, &run.state) {
        None => stop_attempts(run, StopCause::Requested, decision),
        Some(end) => {
            carry_out(run, end, decision);
            settle(run, decision);
            Ok(())
        }
    }
}

fn stop_attempts<P: Protocol>(
    run: &mut Run<P>,
    cause: StopCause,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running | RunStatus::Paused => {
            decision.apply(run, Change::Status { status: RunStatus::Stopping(cause) });
            stop_all(run, StopReason::RunStops, decision);
        }
        // The outcome is known, so there is nothing to resume: the run finishes.
        RunStatus::Draining(outcome) => {
            decision.apply(run, Change::Status { status: RunStatus::Finishing(outcome) });
            stop_all(run, StopReason::RunStops, decision);
        }
        RunStatus::Stopping(_) | RunStatus::Stopped(_) | RunStatus::Finishing(_) => {}
        RunStatus::Finished(outcome) => return Err(refusal_after(outcome)),
    }
    settle(run, decision);
    Ok(())
}

fn retry<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    step: Option<&P::Step>,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    let failed = P::failed_steps(definition, &run.state);
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
    decide(definition, run, Event::Retried { steps }, decision);
    Ok(())
}

fn skip<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    step: &P::Step,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    if !P::SKIPS {
        return Err(Refusal::CannotSkip(step.to_string(), P::NAME));
    }
    match P::step_status(definition, &run.state, step) {
        StepStatus::Skipped => return Ok(()),
        StepStatus::Succeeded => return Err(Refusal::Done(step.to_string())),
        StepStatus::Unfinished | StepStatus::Failed => {}
    }
    let is_queued = match run.active_turns.get(step) {
        Some(active) if active.status.holds_slot() => return Err(Refusal::Running(step.to_string())),
        Some(_) => true,
        None => false,
    };
    reopen(run, decision)?;
    if is_queued {
        decision.apply(run, Change::Dequeued { step: step.clone() });
    }
    decide(definition, run, Event::Skipped { step: step.clone() }, decision);
    settle(run, decision);
    Ok(())
}

/// Reopens a finished run. Refuses while the run is ending.
fn reopen<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
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
