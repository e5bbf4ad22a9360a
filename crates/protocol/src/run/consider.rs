//! Requests: somebody wants something, and may be refused.

use serde::{Deserialize, Serialize};

use super::absorb::{ask_all_to_end, play, settle};
use super::change::{Change, Decision, EndReason};
use super::state::{Halt, Phase, Run};
use crate::rules::{Event, Outcome, Protocol};

/// What somebody may ask of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start nothing more; let attempts play on.
    Pause,
    /// Go on after a pause or a halt.
    Resume,
    /// End all attempts and rest until resumed.
    Stop,
    /// The same, because the engine has to go.
    Interrupt,
}

/// Why a request makes no sense now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it was delivered")]
    Delivered,
    #[error("it ended undelivered")]
    Undelivered,
    #[error("it is closing: its outcome is known")]
    Closing,
    #[error("it is stopped")]
    Stopped,
}

/// Opens a run: the first decision of all.
pub fn open<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Decision<P> {
    let mut decision = Decision::nothing();
    play(definition, run, Event::Opened, &mut decision);
    settle(run, &mut decision);
    decision
}

/// Decides a request and moves the run by the changes it answers. What is already so is granted and changes nothing.
pub fn consider<P: Protocol>(run: &mut Run<P>, request: Request) -> Result<Decision<P>, Refusal> {
    match run.phase {
        Phase::Finished(Outcome::Delivered) => return Err(Refusal::Delivered),
        Phase::Finished(Outcome::Undelivered) => return Err(Refusal::Undelivered),
        Phase::Closing(_) => return closing(request),
        Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => {}
    }
    let mut decision = Decision::nothing();
    match request {
        Request::Pause => pause(run, &mut decision)?,
        Request::Resume => resume(run, &mut decision),
        Request::Stop => halt(run, Halt::Stopped, &mut decision),
        Request::Interrupt => halt(run, Halt::Interrupted, &mut decision),
    }
    Ok(decision)
}

/// A closing run is ending its attempts anyway: it grants what that gives, and an engine that has to go may go.
fn closing<P: Protocol>(request: Request) -> Result<Decision<P>, Refusal> {
    match request {
        Request::Resume | Request::Stop | Request::Interrupt => Ok(Decision::nothing()),
        Request::Pause => Err(Refusal::Closing),
    }
}

fn pause<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) -> Result<(), Refusal> {
    match run.phase {
        Phase::Open => decision.make(run, Change::Phase { phase: Phase::Paused }),
        Phase::Halting(_) | Phase::Halted(_) => return Err(Refusal::Stopped),
        Phase::Paused | Phase::Closing(_) | Phase::Finished(_) => {}
    }
    Ok(())
}

fn resume<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    match run.phase {
        Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => {
            decision.make(run, Change::Phase { phase: Phase::Open });
        }
        Phase::Open | Phase::Closing(_) | Phase::Finished(_) => {}
    }
}

fn halt<P: Protocol>(run: &mut Run<P>, halt: Halt, decision: &mut Decision<P>) {
    match run.phase {
        Phase::Open | Phase::Paused => {
            decision.make(run, Change::Phase { phase: Phase::Halting(halt) });
            ask_all_to_end(run, EndReason::Halt, decision);
            settle(run, decision);
        }
        Phase::Halting(_) | Phase::Halted(_) | Phase::Closing(_) | Phase::Finished(_) => {}
    }
}
