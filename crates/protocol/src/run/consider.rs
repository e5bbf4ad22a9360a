//! Requests: somebody wants something, and may be refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::absorb::{ask_all_to_end, carry_out, play, settle};
use super::change::{Change, Decision, EndReason};
use super::state::{Halt, Phase, Run};
use crate::Turn;
use crate::rules::{Event, Move, Next, Outcome, Protocol, Standing};

/// What somebody may ask of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request<S> {
    /// Start nothing more; let attempts play on.
    Pause,
    /// Go on after a pause or a halt.
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
    #[error("it was delivered")]
    Delivered,
    #[error("it ended undelivered")]
    Undelivered,
    #[error("it is ending: its outcome is known")]
    Closing,
    #[error("it is stopped")]
    Stopped,
    #[error("nothing in it has failed")]
    NothingFailed,
    #[error("`{0}` has not failed")]
    NotFailed(String),
    #[error("`{0}` is done")]
    Done(String),
    #[error("`{0}` is at work")]
    AtWork(String),
    #[error("`{0}` cannot be left out: in a `{1}` run every step builds on the one before")]
    NeverSkipped(String, &'static str),
}

/// Opens a run: the first decision of all.
pub fn open<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Decision<P> {
    let mut decision = Decision::nothing();
    play(definition, run, Event::Opened, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Takes over a run that was not decided here: where it stands, and how many turns its steps had at least.
pub fn adopt<P: Protocol>(
    run: &mut Run<P>,
    stands: Move<P::Change, P::Step>,
    turns: BTreeMap<P::Step, Turn>,
) -> Decision<P> {
    let mut decision = Decision::nothing();
    // Called and uncalled: so a step's next turn is one that nobody had.
    for (step, turn) in turns {
        decision.make(run, Change::Called { step: step.clone(), turn });
        decision.make(run, Change::Uncalled { step });
    }
    // A run that had ended, or was about to, and now stands at an earlier place is open again.
    match (run.phase, &stands.next) {
        (Phase::Finished(_) | Phase::Closing(_) | Phase::Draining(_), Next::Call(_) | Next::Recall(_)) => {
            decision.make(run, Change::Phase { phase: Phase::Open });
        }
        (_, Next::Call(_) | Next::Recall(_) | Next::Finish(_) | Next::Drain(_)) => {}
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
        Request::Interrupt => halt(run, Halt::Interrupted, &mut decision)?,
        Request::Retry { step } => retry(definition, run, step.as_ref(), &mut decision)?,
        Request::Skip { step } => skip(definition, run, step, &mut decision)?,
    }
    Ok(decision)
}

fn finished(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Delivered => Refusal::Delivered,
        Outcome::Undelivered => Refusal::Undelivered,
    }
}

fn pause<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.phase {
        Phase::Open => decision.make(run, Change::Phase { phase: Phase::Paused }),
        Phase::Paused => {}
        Phase::Halting(_) | Phase::Halted(_) => return Err(Refusal::Stopped),
        Phase::Draining(_) | Phase::Closing(_) => return Err(Refusal::Closing),
        Phase::Finished(outcome) => return Err(finished(outcome)),
    }
    Ok(())
}

fn resume<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.phase {
        Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => {
            decision.make(run, Change::Phase { phase: Phase::Open });
        }
        // A run that ends may be resumed, so that somebody sees it to its end.
        Phase::Open | Phase::Draining(_) | Phase::Closing(_) => {}
        Phase::Finished(outcome) => return Err(finished(outcome)),
    }
    Ok(())
}

/// A protocol may take a stop for an end; then the run closes instead of resting.
fn stop<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    match run.phase {
        Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => {}
        Phase::Draining(_) | Phase::Closing(_) | Phase::Finished(_) => {
            return halt(run, Halt::Stopped, decision);
        }
    }
    match P::stopped(definition, &run.play) {
        None => halt(run, Halt::Stopped, decision),
        Some(end) => {
            carry_out(run, end, decision);
            settle(run, decision);
            Ok(())
        }
    }
}

fn halt<P: Protocol>(run: &mut Run<P>, halt: Halt, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.phase {
        Phase::Open | Phase::Paused => {
            decision.make(run, Change::Phase { phase: Phase::Halting(halt) });
            ask_all_to_end(run, EndReason::Halt, decision);
        }
        // The outcome is known: there is nothing to come back to, only somebody to wait for.
        Phase::Draining(outcome) => {
            decision.make(run, Change::Phase { phase: Phase::Closing(outcome) });
            ask_all_to_end(run, EndReason::Halt, decision);
        }
        Phase::Halting(_) | Phase::Halted(_) | Phase::Closing(_) => {}
        Phase::Finished(outcome) => return Err(finished(outcome)),
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
    let failed = P::failed(definition, &run.play);
    let steps = match step {
        Some(step) if failed.contains(step) => vec![step.clone()],
        Some(step) => return Err(Refusal::NotFailed(step.to_string())),
        None if failed.is_empty() => {
            return Err(match run.phase {
                Phase::Finished(Outcome::Delivered) => Refusal::Delivered,
                Phase::Finished(Outcome::Undelivered)
                | Phase::Open
                | Phase::Paused
                | Phase::Halting(_)
                | Phase::Halted(_)
                | Phase::Draining(_)
                | Phase::Closing(_) => Refusal::NothingFailed,
            });
        }
        None => failed,
    };
    reopen(run, decision)?;
    if let Phase::Halted(_) = run.phase {
        resume(run, decision)?;
    }
    play(definition, run, Event::Retried { steps }, decision);
    Ok(())
}

fn skip<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    step: &P::Step,
    decision: &mut Decision<P>,
) -> Result<(), Refusal> {
    if !P::SKIPS {
        return Err(Refusal::NeverSkipped(step.to_string(), P::NAME));
    }
    match P::standing(definition, &run.play, step) {
        Standing::Skipped => return Ok(()),
        Standing::Done => return Err(Refusal::Done(step.to_string())),
        Standing::Open | Standing::Failed => {}
    }
    let waits = match run.chairs.get(step) {
        Some(chair) if chair.posture.holds_place() => return Err(Refusal::AtWork(step.to_string())),
        Some(_) => true,
        None => false,
    };
    reopen(run, decision)?;
    if waits {
        decision.make(run, Change::Uncalled { step: step.clone() });
    }
    play(definition, run, Event::Skipped { step: step.clone() }, decision);
    settle(run, decision);
    Ok(())
}

/// A finished run opens again; one that is just ending is left alone until it has ended.
fn reopen<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.phase {
        Phase::Finished(Outcome::Undelivered) => {
            decision.make(run, Change::Phase { phase: Phase::Open });
            Ok(())
        }
        Phase::Open | Phase::Paused | Phase::Halted(_) => Ok(()),
        Phase::Halting(_) => Err(Refusal::Stopped),
        Phase::Draining(_) | Phase::Closing(_) => Err(Refusal::Closing),
        Phase::Finished(Outcome::Delivered) => Err(Refusal::Delivered),
    }
}
