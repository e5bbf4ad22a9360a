//! Facts: they have happened, so they are absorbed. Stale news is named as such and changes nothing.

use serde::{Deserialize, Serialize};

use super::MAX_INTERRUPTIONS;
use super::change::{Action, Change, Decision, Exit, StopReason};
use super::state::{ActiveTurn, Attempt, Run, RunStatus, StopCause, TurnStatus};
use crate::rules::{Event, Move, Next, Outcome, Protocol};

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact<S, V> {
    /// The attempt is over: no process of it is left.
    Ended { attempt: Attempt<S>, ending: Ending<V> },
    /// The back-off after this attempt has elapsed.
    BackoffElapsed { attempt: Attempt<S> },
}

/// How an attempt ended, as far as deciding goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending<V> {
    /// With a valid report.
    Reported(V),
    /// Without one, or with one that says so.
    Failed,
    /// Not by its own doing and not by ours: the shim was killed, the machine went down.
    Interrupted,
    /// Because we asked it to end.
    Stopped,
}

/// What became of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absorbed<P: Protocol> {
    Decided(Decision<P>),
    Ignored(Stale),
}

/// Why a fact changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    #[error("the step has no turn")]
    NoTurn,
    #[error("the step is in another turn or try")]
    Superseded,
    #[error("the attempt is already over")]
    AlreadyEnded,
    #[error("the step does not rest")]
    NotBackingOff,
}

/// Absorbs a fact and moves the run by the changes it answers.
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
            decision.make(run, Change::BackoffElapsed { step: attempt.step.clone() });
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
    let asked_to_end = match active.status {
        TurnStatus::Queued | TurnStatus::BackingOff => return Absorbed::Ignored(Stale::AlreadyEnded),
        TurnStatus::Running => false,
        TurnStatus::Stopping => true,
    };
    let (exit, event) = match ending {
        // A report that made it before the end counts, whoever asked for the end: finished work is not done twice.
        Ending::Reported(verdict) => {
            (Exit::Reported, Some(Event::Reported { step: attempt.step.clone(), verdict }))
        }
        Ending::Failed | Ending::Interrupted | Ending::Stopped if asked_to_end => (stopped(run.status), None),
        Ending::Failed => fails::<P>(definition, run.status, &active, &attempt),
        // Somebody else ended it: to us that is an interruption.
        Ending::Interrupted | Ending::Stopped => interrupted::<P>(run.status, &active, &attempt),
    };
    let mut decision = Decision::nothing();
    decision.make(run, Change::Ended { attempt, exit });
    if let Some(event) = event {
        decide(definition, run, event, &mut decision);
    }
    settle(run, &mut decision);
    Absorbed::Decided(decision)
}

/// How an attempt leaves, and what the protocol is told of it.
type Departure<P> = (Exit, Option<Event<<P as Protocol>::Step, <P as Protocol>::Verdict>>);

fn fails<P: Protocol>(
    definition: &P::Definition,
    status: RunStatus,
    active: &ActiveTurn,
    attempt: &Attempt<P::Step>,
) -> Departure<P> {
    let failures = active.failures + 1;
    if failures >= P::max_attempts(definition, &attempt.step).get() {
        gives_up::<P>(attempt)
    } else if is_over(status) {
        (Exit::Drained, None)
    } else {
        (Exit::WillRetry { failures, next: attempt.attempt_no.next() }, None)
    }
}

fn interrupted<P: Protocol>(
    status: RunStatus,
    active: &ActiveTurn,
    attempt: &Attempt<P::Step>,
) -> Departure<P> {
    let interruptions = active.interruptions + 1;
    if interruptions > MAX_INTERRUPTIONS {
        gives_up::<P>(attempt)
    } else if is_over(status) {
        (Exit::Released, None)
    } else {
        (Exit::Interrupted { interruptions }, None)
    }
}

fn gives_up<P: Protocol>(attempt: &Attempt<P::Step>) -> Departure<P> {
    (Exit::Exhausted, Some(Event::Exhausted { step: attempt.step.clone() }))
}

/// How an attempt that was asked to end leaves: a halted run keeps its turn, one that is over does not.
fn stopped(status: RunStatus) -> Exit {
    if is_over(status) { Exit::Released } else { Exit::Stopped }
}

/// Whether the outcome is known: then nothing is tried again.
fn is_over(status: RunStatus) -> bool {
    match status {
        // Open or paused again: the run was resumed while the attempt was still ending.
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => false,
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => true,
    }
}

/// Lets the protocol decide, and carries its move into the run.
pub(super) fn decide<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    event: Event<P::Step, P::Verdict>,
    decision: &mut Decision<P>,
) {
    let then = P::decide(definition, &run.state, event);
    carry_out(run, then, decision);
}

pub(super) fn carry_out<P: Protocol>(
    run: &mut Run<P>,
    Move { changes, next }: Move<P::Change, P::Step>,
    decision: &mut Decision<P>,
) {
    for transition in changes {
        decision.make(run, Change::Protocol { transition });
    }
    match next {
        Next::Finish(outcome) => finish(run, outcome, decision),
        Next::Drain(outcome) => drain(run, outcome, decision),
        // What becomes ready when the outcome is known is found again should the run be reopened.
        Next::Queue(_) | Next::Requeue(_) if is_over(run.status) => {}
        Next::Queue(steps) => {
            for step in steps {
                assert!(!run.active_turns.contains_key(&step), "BUG: `{step}` is called while it has a turn");
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
    decision.make(run, Change::Queued { step, turn });
}

/// The outcome is known: whoever waits loses the turn, whoever plays is asked to end. The first outcome stands.
fn finish<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    let outcome = match run.status {
        RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        RunStatus::Draining(first) => first,
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => outcome,
    };
    decision.make(run, Change::Status { status: RunStatus::Finishing(outcome) });
    dequeue_all(run, decision);
    stop_all(run, StopReason::RunEnds, decision);
}

/// The outcome is known: whoever waits loses the turn, whoever plays may end by itself.
fn drain<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    match run.status {
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        // Attempts are being ended already: there is nothing to wait for.
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return finish(run, outcome, decision),
        RunStatus::Running | RunStatus::Paused => {}
    }
    decision.make(run, Change::Status { status: RunStatus::Draining(outcome) });
    dequeue_all(run, decision);
}

fn dequeue_all<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    let waiting: Vec<_> = run
        .active_turns
        .iter()
        .filter(|(_, active)| !active.status.holds_slot())
        .map(|(step, _)| step.clone())
        .collect();
    for step in waiting {
        decision.make(run, Change::Dequeued { step });
    }
}

pub(super) fn stop_all<P: Protocol>(run: &mut Run<P>, reason: StopReason, decision: &mut Decision<P>) {
    let playing: Vec<_> = run
        .live_attempts()
        .filter(|(_, active)| active.status == TurnStatus::Running)
        .map(|(attempt, _)| attempt)
        .collect();
    for attempt in playing {
        decision.make(run, Change::StopRequested { attempt: attempt.clone(), reason });
        decision.actions.push(Action::End { attempt });
    }
}

/// When nobody is alive any more, halting becomes halted, and a run whose outcome is known is finished.
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
    decision.make(run, Change::Status { status: settled });
}
