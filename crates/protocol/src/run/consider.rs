//! Requests: somebody wants something, and may be refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::absorb::{carry_out, decide, settle, stop_all};
use super::change::{Change, Decision, StopReason};
use super::state::{Run, RunStatus, StopCause};
use crate::Turn;
use crate::rules::{Event, Move, Next, Outcome, Protocol, StepStatus};

/// What somebody may ask of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request<S> {
    /// Start nothing more; let attempts play on.
    Pause,
    /// Go on after a pause or a cause.
    Resume,
    /// End all attempts and rest until resumed.
    Stop,
    /// The same, because the engine has to go.
    Interrupt,
    /// Ask failed steps again: one, or all of them.
    Retry { step: Option<S> },
    /// Go on as if the step had been there.
    Skip { step: S },
}

/// Why a request makes no sense now.
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
    #[error("`{0}` is at work")]
    Running(String),
    #[error("`{0}` cannot be left out: in a `{1}` run every step builds on the one before")]
    CannotSkip(String, &'static str),
}

/// Opens a run: the first decision of all.
pub fn open<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Decision<P> {
    let mut decision = Decision::nothing();
    decide(definition, run, Event::Opened, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Takes over a run that was not decided here: where it stands, and how many turns its steps had at least.
pub fn import<P: Protocol>(
    run: &mut Run<P>,
    stands: Move<P::Change, P::Step>,
    turns: BTreeMap<P::Step, Turn>,
) -> Decision<P> {
    let mut decision = Decision::nothing();
    // Called and uncalled: so a step's next turn is one that nobody had.
    for (step, turn) in turns {
        decision.make(run, Change::Queued { step: step.clone(), turn });
        decision.make(run, Change::Dequeued { step });
    }
    // A run that had ended, or was about to, and now stands at an earlier place is open again.
    match (run.status, &stands.next) {
        (
            RunStatus::Finished(_) | RunStatus::Finishing(_) | RunStatus::Draining(_),
            Next::Queue(_) | Next::Requeue(_),
        ) => {
            decision.make(run, Change::Status { status: RunStatus::Running });
        }
        (_, Next::Queue(_) | Next::Requeue(_) | Next::Finish(_) | Next::Drain(_)) => {}
    }
    carry_out(run, stands, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Decides a request and moves the run by the changes it answers. What is already so is granted and changes nothing.
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

fn finished(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Succeeded => Refusal::Succeeded,
        Outcome::Incomplete => Refusal::Incomplete,
        Outcome::Failed => Refusal::Failed,
    }
}

fn pause<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Running => decision.make(run, Change::Status { status: RunStatus::Paused }),
        RunStatus::Paused => {}
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => return Err(Refusal::Finishing),
        RunStatus::Finished(outcome) => return Err(finished(outcome)),
    }
    Ok(())
}

fn resume<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {
            decision.make(run, Change::Status { status: RunStatus::Running });
        }
        // A run that ends may be resumed, so that somebody sees it to its end.
        RunStatus::Running | RunStatus::Draining(_) | RunStatus::Finishing(_) => {}
        RunStatus::Finished(outcome) => return Err(finished(outcome)),
    }
    Ok(())
}

/// A protocol may take a stop for an end; then the run closes instead of resting.
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
            decision.make(run, Change::Status { status: RunStatus::Stopping(cause) });
            stop_all(run, StopReason::RunStops, decision);
        }
        // The outcome is known: there is nothing to come back to, only somebody to wait for.
        RunStatus::Draining(outcome) => {
            decision.make(run, Change::Status { status: RunStatus::Finishing(outcome) });
            stop_all(run, StopReason::RunStops, decision);
        }
        RunStatus::Stopping(_) | RunStatus::Stopped(_) | RunStatus::Finishing(_) => {}
        RunStatus::Finished(outcome) => return Err(finished(outcome)),
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
    let waits = match run.active_turns.get(step) {
        Some(active) if active.status.holds_slot() => return Err(Refusal::Running(step.to_string())),
        Some(_) => true,
        None => false,
    };
    reopen(run, decision)?;
    if waits {
        decision.make(run, Change::Dequeued { step: step.clone() });
    }
    decide(definition, run, Event::Skipped { step: step.clone() }, decision);
    settle(run, decision);
    Ok(())
}

/// A finished run opens again; one that is just ending is left alone until it has ended.
fn reopen<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.status {
        RunStatus::Finished(Outcome::Incomplete | Outcome::Failed) => {
            decision.make(run, Change::Status { status: RunStatus::Running });
            Ok(())
        }
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopped(_) => Ok(()),
        RunStatus::Stopping(_) => Err(Refusal::Stopped),
        RunStatus::Draining(_) | RunStatus::Finishing(_) => Err(Refusal::Finishing),
        RunStatus::Finished(Outcome::Succeeded) => Err(Refusal::Succeeded),
    }
}
