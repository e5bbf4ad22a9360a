//! Facts: they have happened, so they are never refused. A stale fact changes nothing.

use serde::{Deserialize, Serialize};

use super::MAX_INTERRUPTIONS;
use super::change::{Action, Change, Decision, Exit, StopReason};
use super::state::{ActiveTurn, Attempt, Run, RunStatus, StopCause, TurnStatus};
use crate::rules::{Event, Move, Next, Outcome, Protocol};

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact<S, V> {
    /// The attempt ended: no process of it is left.
    Ended { attempt: Attempt<S>, ending: Ending<V> },
    /// The back-off after this attempt has elapsed.
    BackoffElapsed { attempt: Attempt<S> },
}

/// How an attempt ended, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending<V> {
    /// With a valid report.
    Reported(V),
    /// Without a valid report, or with one that reports failure.
    Failed,
    /// By an outside cause: the shim was killed, the machine went down.
    Interrupted,
    /// Because the engine stopped it.
    Stopped,
}

/// The result of absorbing a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absorbed<P: Protocol> {
    Decided(Decision<P>),
    Ignored(Stale),
}

/// Why a fact changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("the step is not in a turn")]
    NoTurn,
    #[error("the step is in another turn or attempt")]
    Superseded,
    #[error("the attempt has already ended")]
    AlreadyEnded,
    #[error("the step is not backing off")]
    NotBackingOff,
}

/// Decides about a fact and applies the decision.
pub fn absorb<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    fact: Fact<P::Step, P::Verdict>,
) -> Absorbed<P> {
    match fact {
        Fact::BackoffElapsed { attempt } => backoff_elapsed(run, &attempt),
        Fact::Ended { attempt, ending } => ended(definition, run, attempt, ending),
    }
}

/// Returns the active turn of an attempt, if it is the latest attempt of that turn.
fn current<'run, P: Protocol>(
    run: &'run Run<P>,
    attempt: &Attempt<P::Step>,
) -> Result<&'run ActiveTurn, Stale> {
    let active = run.active_turns.get(&attempt.step).ok_or(Stale::NoTurn)?;
    if (active.turn, active.attempt_no) == (attempt.turn, attempt.attempt_no) {
        Ok(active)
    } else {
        Err(Stale::Superseded)
    }
}

fn backoff_elapsed<P: Protocol>(run: &mut Run<P>, attempt: &Attempt<P::Step>) -> Absorbed<P> {
    match current(run, attempt).map(|active| active.status) {
        Err(stale) => Absorbed::Ignored(stale),
        Ok(TurnStatus::Queued | TurnStatus::Running | TurnStatus::Stopping) => {
            Absorbed::Ignored(Stale::NotBackingOff)
        }
        Ok(TurnStatus::BackingOff) => {
            let mut decision = Decision::nothing();
            decision.apply(run, Change::BackoffElapsed { step: attempt.step.clone() });
            Absorbed::Decided(decision)
        }
    }
}

fn ended<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    attempt: Attempt<P::Step>,
    ending: Ending<P::Verdict>,
) -> Absorbed<P> {
    let active = match current(run, &attempt) {
        Ok(active) => active.clone(),
        Err(stale) => return Absorbed::Ignored(stale),
    };
    let is_stopping = match active.status {
        TurnStatus::Queued | TurnStatus::BackingOff => return Absorbed::Ignored(Stale::AlreadyEnded),
        TurnStatus::Running => false,
        TurnStatus::Stopping => true,
    };
    let (exit, event) = match ending {
        // A report counts even if the attempt was being stopped: finished work is not repeated.
        Ending::Reported(verdict) => {
            (Exit::Reported, Some(Event::Reported { step: attempt.step.clone(), verdict }))
        }
        Ending::Failed | Ending::Interrupted | Ending::Stopped if is_stopping => {
            (after_stop(run.status), None)
        }
        Ending::Failed => after_failure::<P>(definition, run.status, &active, &attempt),
        // The engine did not stop it, so it was an interruption.
        Ending::Interrupted | Ending::Stopped => after_interruption::<P>(run.status, &active, &attempt),
    };
    let mut decision = Decision::nothing();
    decision.apply(run, Change::Ended { attempt, exit });
    if let Some(event) = event {
        decide(definition, run, event, &mut decision);
    }
    settle(run, &mut decision);
    Absorbed::Decided(decision)
}

/// What the end of an attempt means for its turn, and the event for the protocol.
type Effect<P> = (Exit, Option<Event<<P as Protocol>::Step, <P as Protocol>::Verdict>>);

fn after_failure<P: Protocol>(
    definition: &P::Definition,
    status: RunStatus,
    active: &ActiveTurn,
    attempt: &Attempt<P::Step>,
) -> Effect<P> {
    let failures = active.failures + 1;
    if failures >= P::max_attempts(definition, &attempt.step).get() {
        exhausted::<P>(attempt)
    } else if outcome_is_known(status) {
        (Exit::Drained, None)
    } else {
        (Exit::WillRetry { failures, next: attempt.attempt_no.next() }, None)
    }
}

fn after_interruption<P: Protocol>(
    status: RunStatus,
    active: &ActiveTurn,
    attempt: &Attempt<P::Step>,
) -> Effect<P> {
    let interruptions = active.interruptions + 1;
    if interruptions > MAX_INTERRUPTIONS {
        exhausted::<P>(attempt)
    } else if outcome_is_known(status) {
        (Exit::Released, None)
    } else {
        (Exit::Interrupted { interruptions }, None)
    }
}

fn exhausted<P: Protocol>(attempt: &Attempt<P::Step>) -> Effect<P> {
    (Exit::Exhausted, Some(Event::Exhausted { step: attempt.step.clone() }))
}

/// Returns the exit of a stopped attempt. A run that can be resumed keeps the turn.
fn after_stop(status: RunStatus) -> Exit {
    if outcome_is_known(status) { Exit::Released } else { Exit::Stopped }
}

/// Returns whether the outcome is known, so that nothing is retried.
fn outcome_is_known(status: RunStatus) -> bool {
    match status {
        // Running or paused: the run was resumed while the attempt was still stopping.
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => false,
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => true,
    }
}

/// Lets the protocol decide about an event, and applies its move.
pub(super) fn decide<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    event: Event<P::Step, P::Verdict>,
    decision: &mut Decision<P>,
) {
    let then = P::decide(definition, &run.state, event);
    carry_out(run, then, decision);
}

/// Applies a protocol's move to the run.
pub(super) fn carry_out<P: Protocol>(
    run: &mut Run<P>,
    Move { changes, next }: Move<P::Change, P::Step>,
    decision: &mut Decision<P>,
) {
    for transition in changes {
        decision.apply(run, Change::Protocol { transition });
    }
    match next {
        Next::Finish(outcome) => finish(run, outcome, decision),
        Next::Drain(outcome) => drain(run, outcome, decision),
        // Steps that become ready now are found again if the run is reopened.
        Next::Queue(_) | Next::Requeue(_) if outcome_is_known(run.status) => {}
        Next::Queue(steps) => {
            for step in steps {
                assert!(
                    !run.active_turns.contains_key(&step),
                    "BUG: `{step}` is queued while it is in a turn"
                );
                queue(run, step, decision);
            }
        }
        Next::Requeue(steps) => {
            for step in steps {
                if !run.active_turns.contains_key(&step) {
                    queue(run, step, decision);
                }
            }
        }
    }
}

fn queue<P: Protocol>(run: &mut Run<P>, step: P::Step, decision: &mut Decision<P>) {
    let turn = run.turns.get(&step).copied().unwrap_or_default().next();
    decision.apply(run, Change::Queued { step, turn });
}

/// Finishes the run: queued steps lose their turn, running attempts are stopped. The first outcome wins.
fn finish<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    let outcome = match run.status {
        RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        RunStatus::Draining(first) => first,
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => outcome,
    };
    decision.apply(run, Change::Status { status: RunStatus::Finishing(outcome) });
    dequeue_all(run, decision);
    stop_all(run, StopReason::RunEnds, decision);
}

/// Drains the run: queued steps lose their turn, running attempts may end by themselves.
fn drain<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    match run.status {
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        // The attempts are being stopped already.
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return finish(run, outcome, decision),
        RunStatus::Running | RunStatus::Paused => {}
    }
    decision.apply(run, Change::Status { status: RunStatus::Draining(outcome) });
    dequeue_all(run, decision);
}

fn dequeue_all<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    let queued: Vec<_> = run
        .active_turns
        .iter()
        .filter(|(_, active)| !active.status.holds_slot())
        .map(|(step, _)| step.clone())
        .collect();
    for step in queued {
        decision.apply(run, Change::Dequeued { step });
    }
}

/// Stops all running attempts.
pub(super) fn stop_all<P: Protocol>(run: &mut Run<P>, reason: StopReason, decision: &mut Decision<P>) {
    let running: Vec<_> = run
        .live_attempts()
        .filter(|(_, active)| active.status == TurnStatus::Running)
        .map(|(attempt, _)| attempt)
        .collect();
    for attempt in running {
        decision.apply(run, Change::StopRequested { attempt: attempt.clone(), reason });
        decision.actions.push(Action::End { attempt });
    }
}

/// Completes a stop, or finishes a run whose outcome is known, once no attempt is alive.
pub(super) fn settle<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    if run.live_attempts().next().is_some() {
        return;
    }
    let settled = match run.status {
        RunStatus::Stopping(cause) => RunStatus::Stopped(cause),
        RunStatus::Draining(outcome) | RunStatus::Finishing(outcome) => RunStatus::Finished(outcome),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopped(StopCause::Interrupted | StopCause::Requested)
        | RunStatus::Finished(_) => return,
    };
    decision.apply(run, Change::Status { status: settled });
}
