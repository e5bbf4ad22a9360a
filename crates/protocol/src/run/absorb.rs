//! Facts: they have happened, so they are never refused. A stale fact changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MAX_INTERRUPTIONS;
use super::change::{Action, AttemptConsequence, AttemptStopReason, Change, Decision};
use super::state::{ActiveTurn, Run, RunStatus, RunStopCause, TurnStatus};
use crate::protocol_trait::{Event, Move, Next, Outcome, StepKind};
use crate::{AttemptId, StepId, Turn};

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact<V = Value> {
    /// The attempt ended: no process of it is left.
    Ended { attempt: AttemptId, ending: Ending<V> },
    /// The back-off after this attempt has elapsed.
    BackoffElapsed { attempt: AttemptId },
    /// A person has answered the question of this turn, or its conditions hold.
    Answered { step: StepId, turn: Turn, verdict: V },
}

/// How an attempt ended, as far as decisions depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending<V = Value> {
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
pub enum Absorbed {
    Decided(Decision),
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
    #[error("the step does not wait for an answer")]
    NotWaiting,
}

/// Decides about a fact and applies the decision.
pub fn absorb(run: &mut Run, fact: Fact) -> Absorbed {
    match fact {
        Fact::BackoffElapsed { attempt } => backoff_elapsed(run, &attempt),
        Fact::Ended { attempt, ending } => ended(run, attempt, ending),
        Fact::Answered { step, turn, verdict } => answered(run, step, turn, verdict),
    }
}

/// Returns the active turn of an attempt, if it is the latest attempt of that turn.
fn current<'run>(run: &'run Run, attempt: &AttemptId) -> Result<&'run ActiveTurn, Stale> {
    let active = run.active_turns.get(&attempt.step).ok_or(Stale::NoTurn)?;
    if (active.turn, active.attempt_no) == (attempt.turn, attempt.attempt_no) {
        Ok(active)
    } else {
        Err(Stale::Superseded)
    }
}

fn backoff_elapsed(run: &mut Run, attempt: &AttemptId) -> Absorbed {
    match current(run, attempt).map(|active| active.status) {
        Err(stale) => Absorbed::Ignored(stale),
        Ok(TurnStatus::Queued | TurnStatus::Waiting | TurnStatus::Running | TurnStatus::Stopping) => {
            Absorbed::Ignored(Stale::NotBackingOff)
        }
        Ok(TurnStatus::BackingOff) => {
            let mut decision = Decision::nothing();
            decision.apply(run, Change::BackoffElapsed { step: attempt.step.clone() });
            Absorbed::Decided(decision)
        }
    }
}

fn ended(run: &mut Run, attempt: AttemptId, ending: Ending) -> Absorbed {
    let active = match current(run, &attempt) {
        Ok(active) => active.clone(),
        Err(stale) => return Absorbed::Ignored(stale),
    };
    let is_stopping = match active.status {
        TurnStatus::Queued | TurnStatus::BackingOff | TurnStatus::Waiting => {
            return Absorbed::Ignored(Stale::AlreadyEnded);
        }
        TurnStatus::Running => false,
        TurnStatus::Stopping => true,
    };
    let (consequence, event) = match ending {
        // A report counts even if the attempt was being stopped: finished work is not repeated.
        Ending::Reported(verdict) => {
            (AttemptConsequence::Reported, Some(Event::Reported { step: attempt.step.clone(), verdict }))
        }
        Ending::Failed | Ending::Interrupted | Ending::Stopped if is_stopping => {
            (after_stop(run.status), None)
        }
        Ending::Failed => after_failure(run, &active, &attempt),
        // The engine did not stop it, so it was an interruption.
        Ending::Interrupted | Ending::Stopped => after_interruption(run.status, &active, &attempt),
    };
    let mut decision = Decision::nothing();
    let kind = run.machine.step_kind(&attempt.step);
    decision.apply(run, Change::Ended { attempt, consequence, kind });
    if let Some(event) = event {
        decide(run, event, &mut decision);
    }
    complete_stop_or_finish(run, &mut decision);
    Absorbed::Decided(decision)
}

fn answered(run: &mut Run, step: StepId, turn: Turn, verdict: Value) -> Absorbed {
    match run.active_turns.get(&step) {
        None => return Absorbed::Ignored(Stale::NoTurn),
        Some(active) if active.turn != turn => return Absorbed::Ignored(Stale::Superseded),
        Some(active) if active.status != TurnStatus::Waiting => return Absorbed::Ignored(Stale::NotWaiting),
        Some(_) => {}
    }
    let mut decision = Decision::nothing();
    let conditions = run.machine.conditions(&step);
    decision.apply(run, Change::Answered { step: step.clone(), conditions });
    decide(run, Event::Reported { step, verdict }, &mut decision);
    complete_stop_or_finish(run, &mut decision);
    Absorbed::Decided(decision)
}

/// What the end of an attempt means for its turn, and the event for the protocol.
type ConsequenceAndEvent = (AttemptConsequence, Option<Event>);

fn after_failure(run: &Run, active: &ActiveTurn, attempt: &AttemptId) -> ConsequenceAndEvent {
    let failures = active.failures + 1;
    if failures >= run.machine.max_attempts(&attempt.step).get() {
        exhausted(attempt)
    } else if outcome_is_known(run.status) {
        (AttemptConsequence::FailedWhileDraining, None)
    } else {
        (AttemptConsequence::WillRetry { failures, next: attempt.attempt_no.next() }, None)
    }
}

fn after_interruption(status: RunStatus, active: &ActiveTurn, attempt: &AttemptId) -> ConsequenceAndEvent {
    let interruptions = active.interruptions + 1;
    if interruptions > MAX_INTERRUPTIONS {
        exhausted(attempt)
    } else if outcome_is_known(status) {
        (AttemptConsequence::Released, None)
    } else {
        (AttemptConsequence::Interrupted { interruptions }, None)
    }
}

fn exhausted(attempt: &AttemptId) -> ConsequenceAndEvent {
    (AttemptConsequence::Exhausted, Some(Event::Exhausted { step: attempt.step.clone() }))
}

/// Returns what the end of a stopped attempt means for its turn. A run that can be resumed keeps the turn, and so does one that
/// was resumed while the attempt was still stopping.
fn after_stop(status: RunStatus) -> AttemptConsequence {
    if outcome_is_known(status) { AttemptConsequence::Released } else { AttemptConsequence::Stopped }
}

/// Returns whether the outcome is known, so that nothing is retried.
fn outcome_is_known(status: RunStatus) -> bool {
    match status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => false,
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => true,
    }
}

/// Lets the protocol decide about an event, and applies its move.
pub(super) fn decide(run: &mut Run, event: Event, decision: &mut Decision) {
    let protocol_move = run.machine.decide(event);
    apply_move(run, protocol_move, decision);
}

/// Applies a protocol's move to the run.
pub(super) fn apply_move(run: &mut Run, Move { changes, next }: Move, decision: &mut Decision) {
    for transition in changes {
        decision.apply(run, Change::Protocol { transition });
    }
    match next {
        Next::Finish(outcome) => finish(run, outcome, decision),
        Next::Drain(outcome) => drain(run, outcome, decision),
        // Steps that become ready now are found again if the run is reopened.
        Next::Queue(_) | Next::QueueUnlessInTurn(_) if outcome_is_known(run.status) => {}
        Next::Queue(steps) => {
            for step in steps {
                assert!(
                    !run.active_turns.contains_key(&step),
                    "BUG: `{step}` is queued while it is in a turn"
                );
                queue(run, step, decision);
            }
        }
        Next::QueueUnlessInTurn(steps) => {
            for step in steps {
                if !run.active_turns.contains_key(&step) {
                    queue(run, step, decision);
                }
            }
        }
    }
}

fn queue(run: &mut Run, step: StepId, decision: &mut Decision) {
    let turn = run.turns.get(&step).copied().unwrap_or_default().next();
    decision.apply(run, Change::Queued { step: step.clone(), turn });
    match run.machine.step_kind(&step) {
        StepKind::Person => {
            let conditions = run.machine.conditions(&step);
            decision.apply(run, Change::Waiting { step, conditions });
        }
        StepKind::Agent | StepKind::Command | StepKind::Effect => {}
    }
}

/// Finishes the run: turns without a live attempt end, running attempts are stopped. The first outcome wins.
fn finish(run: &mut Run, outcome: Outcome, decision: &mut Decision) {
    let outcome = match run.status {
        RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        RunStatus::Draining(first) => first,
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => outcome,
    };
    decision.apply(run, Change::Status { status: RunStatus::Finishing(outcome) });
    dequeue_all(run, decision);
    stop_all(run, AttemptStopReason::RunFinishes, decision);
}

/// Drains the run: turns without a live attempt end, running attempts may end by themselves.
fn drain(run: &mut Run, outcome: Outcome, decision: &mut Decision) {
    match run.status {
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => return,
        // The attempts are being stopped already.
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => return finish(run, outcome, decision),
        RunStatus::Running | RunStatus::Paused => {}
    }
    decision.apply(run, Change::Status { status: RunStatus::Draining(outcome) });
    dequeue_all(run, decision);
}

/// Ends every turn without a live attempt: those that are queued, back off or wait.
fn dequeue_all(run: &mut Run, decision: &mut Decision) {
    let to_dequeue: Vec<_> = run
        .active_turns
        .iter()
        .filter(|(_, active)| !active.status.has_live_attempt())
        .map(|(step, _)| step.clone())
        .collect();
    for step in to_dequeue {
        decision.apply(run, Change::Dequeued { step });
    }
}

/// Stops all running attempts.
pub(super) fn stop_all(run: &mut Run, reason: AttemptStopReason, decision: &mut Decision) {
    let running: Vec<_> = run
        .live_attempts()
        .filter(|(_, active)| active.status == TurnStatus::Running)
        .map(|(attempt, _)| attempt)
        .collect();
    for attempt in running {
        decision.apply(run, Change::StopRequested { attempt: attempt.clone(), reason });
        decision.actions.push(Action::Stop { attempt });
    }
}

/// Completes a stop, or finishes a run whose outcome is known, once no attempt is alive.
pub(super) fn complete_stop_or_finish(run: &mut Run, decision: &mut Decision) {
    if run.live_attempts().next().is_some() {
        return;
    }
    let settled = match run.status {
        RunStatus::Stopping(cause) => RunStatus::Stopped(cause),
        RunStatus::Draining(outcome) | RunStatus::Finishing(outcome) => RunStatus::Finished(outcome),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopped(RunStopCause::EngineInterrupted | RunStopCause::Requested)
        | RunStatus::Finished(_) => return,
    };
    decision.apply(run, Change::Status { status: settled });
}
