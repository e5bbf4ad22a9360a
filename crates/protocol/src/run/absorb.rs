//! Facts: they have happened, so they are absorbed. Stale news is named as such and changes nothing.

use serde::{Deserialize, Serialize};

use super::INTERRUPTIONS;
use super::change::{Action, Change, Decision, EndReason, Exit};
use super::state::{Attempt, Chair, Halt, Phase, Posture, Run};
use crate::rules::{Event, Move, Next, Outcome, Protocol};

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact<S, V> {
    /// The attempt is over: no process of it is left.
    Over { attempt: Attempt<S>, ending: Ending<V> },
    /// The back-off after this attempt has elapsed.
    Rested { attempt: Attempt<S> },
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
    AlreadyOver,
    #[error("the step does not rest")]
    NotResting,
}

/// Absorbs a fact and moves the run by the changes it answers.
pub fn absorb<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    fact: Fact<P::Step, P::Verdict>,
) -> Absorbed<P> {
    match fact {
        Fact::Rested { attempt } => rested(run, &attempt),
        Fact::Over { attempt, ending } => over(definition, run, attempt, ending),
    }
}

fn current<'run, P: Protocol>(run: &'run Run<P>, attempt: &Attempt<P::Step>) -> Result<&'run Chair, Stale> {
    let chair = run.chairs.get(&attempt.step).ok_or(Stale::NoTurn)?;
    if (chair.turn, chair.try_no) == (attempt.turn, attempt.try_no) {
        Ok(chair)
    } else {
        Err(Stale::Superseded)
    }
}

fn rested<P: Protocol>(run: &mut Run<P>, attempt: &Attempt<P::Step>) -> Absorbed<P> {
    match current(run, attempt).map(|chair| chair.posture) {
        Err(stale) => Absorbed::Ignored(stale),
        Ok(Posture::Called | Posture::Playing | Posture::Ending) => Absorbed::Ignored(Stale::NotResting),
        Ok(Posture::Resting) => {
            let mut decision = Decision::nothing();
            decision.make(run, Change::Rested { step: attempt.step.clone() });
            Absorbed::Decided(decision)
        }
    }
}

fn over<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    attempt: Attempt<P::Step>,
    ending: Ending<P::Verdict>,
) -> Absorbed<P> {
    let chair = match current(run, &attempt) {
        Ok(chair) => chair.clone(),
        Err(stale) => return Absorbed::Ignored(stale),
    };
    let asked_to_end = match chair.posture {
        Posture::Called | Posture::Resting => return Absorbed::Ignored(Stale::AlreadyOver),
        Posture::Playing => false,
        Posture::Ending => true,
    };
    let (exit, event) = match ending {
        // A report that made it before the end counts, whoever asked for the end: finished work is not done twice.
        Ending::Reported(verdict) => {
            (Exit::Reported, Some(Event::Reported { step: attempt.step.clone(), verdict }))
        }
        Ending::Failed | Ending::Interrupted | Ending::Stopped if asked_to_end => {
            (dismissal(run.phase), None)
        }
        Ending::Failed => fails::<P>(definition, run.phase, &chair, &attempt),
        // Somebody else ended it: to us that is an interruption.
        Ending::Interrupted | Ending::Stopped => interrupted::<P>(run.phase, &chair, &attempt),
    };
    let mut decision = Decision::nothing();
    decision.make(run, Change::Over { attempt, exit });
    if let Some(event) = event {
        play(definition, run, event, &mut decision);
    }
    settle(run, &mut decision);
    Absorbed::Decided(decision)
}

/// How an attempt leaves, and what the protocol is told of it.
type Departure<P> = (Exit, Option<Event<<P as Protocol>::Step, <P as Protocol>::Verdict>>);

fn fails<P: Protocol>(
    definition: &P::Definition,
    phase: Phase,
    chair: &Chair,
    attempt: &Attempt<P::Step>,
) -> Departure<P> {
    let failures = chair.failures + 1;
    if failures >= P::tries(definition, &attempt.step).get() {
        gives_up::<P>(attempt)
    } else if is_over(phase) {
        (Exit::Drained, None)
    } else {
        (Exit::Repeats { failures, next: attempt.try_no.next() }, None)
    }
}

fn interrupted<P: Protocol>(phase: Phase, chair: &Chair, attempt: &Attempt<P::Step>) -> Departure<P> {
    let interruptions = chair.interruptions + 1;
    if interruptions > INTERRUPTIONS {
        gives_up::<P>(attempt)
    } else if is_over(phase) {
        (Exit::Dismissed, None)
    } else {
        (Exit::Interrupted { interruptions }, None)
    }
}

fn gives_up<P: Protocol>(attempt: &Attempt<P::Step>) -> Departure<P> {
    (Exit::GaveUp, Some(Event::GaveUp { step: attempt.step.clone() }))
}

/// How an attempt that was asked to end leaves: a halted run keeps its turn, one that is over does not.
fn dismissal(phase: Phase) -> Exit {
    if is_over(phase) { Exit::Dismissed } else { Exit::Halted }
}

/// Whether the outcome is known: then nothing is tried again.
fn is_over(phase: Phase) -> bool {
    match phase {
        // Open or paused again: the run was resumed while the attempt was still ending.
        Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => false,
        Phase::Draining(_) | Phase::Closing(_) | Phase::Finished(_) => true,
    }
}

/// Lets the protocol decide, and carries its move into the run.
pub(super) fn play<P: Protocol>(
    definition: &P::Definition,
    run: &mut Run<P>,
    event: Event<P::Step, P::Verdict>,
    decision: &mut Decision<P>,
) {
    let then = P::decide(definition, &run.play, event);
    carry_out(run, then, decision);
}

pub(super) fn carry_out<P: Protocol>(
    run: &mut Run<P>,
    Move { changes, next }: Move<P::Change, P::Step>,
    decision: &mut Decision<P>,
) {
    for play in changes {
        decision.make(run, Change::Play { play });
    }
    match next {
        Next::Finish(outcome) => close(run, outcome, decision),
        Next::Drain(outcome) => drain(run, outcome, decision),
        // What becomes ready when the outcome is known is found again should the run be reopened.
        Next::Call(_) | Next::Recall(_) if is_over(run.phase) => {}
        Next::Call(steps) => {
            for step in steps {
                assert!(!run.chairs.contains_key(&step), "BUG: `{step}` is called while it has a turn");
                call(run, step, decision);
            }
        }
        Next::Recall(steps) => {
            for step in steps {
                if !run.chairs.contains_key(&step) {
                    call(run, step, decision);
                }
            }
        }
    }
}

fn call<P: Protocol>(run: &mut Run<P>, step: P::Step, decision: &mut Decision<P>) {
    let turn = run.turns.get(&step).copied().unwrap_or_default().next();
    decision.make(run, Change::Called { step, turn });
}

/// The outcome is known: whoever waits loses the turn, whoever plays is asked to end. The first outcome stands.
fn close<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    let outcome = match run.phase {
        Phase::Closing(_) | Phase::Finished(_) => return,
        Phase::Draining(first) => first,
        Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Halted(_) => outcome,
    };
    decision.make(run, Change::Phase { phase: Phase::Closing(outcome) });
    uncall_all(run, decision);
    ask_all_to_end(run, EndReason::Outcome, decision);
}

/// The outcome is known: whoever waits loses the turn, whoever plays may end by itself.
fn drain<P: Protocol>(run: &mut Run<P>, outcome: Outcome, decision: &mut Decision<P>) {
    match run.phase {
        Phase::Draining(_) | Phase::Closing(_) | Phase::Finished(_) => return,
        // Attempts are being ended already: there is nothing to wait for.
        Phase::Halting(_) | Phase::Halted(_) => return close(run, outcome, decision),
        Phase::Open | Phase::Paused => {}
    }
    decision.make(run, Change::Phase { phase: Phase::Draining(outcome) });
    uncall_all(run, decision);
}

fn uncall_all<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    let waiting: Vec<_> = run
        .chairs
        .iter()
        .filter(|(_, chair)| !chair.posture.holds_place())
        .map(|(step, _)| step.clone())
        .collect();
    for step in waiting {
        decision.make(run, Change::Uncalled { step });
    }
}

pub(super) fn ask_all_to_end<P: Protocol>(run: &mut Run<P>, reason: EndReason, decision: &mut Decision<P>) {
    let playing: Vec<_> = run
        .live_attempts()
        .filter(|(_, chair)| chair.posture == Posture::Playing)
        .map(|(attempt, _)| attempt)
        .collect();
    for attempt in playing {
        decision.make(run, Change::AskedToEnd { attempt: attempt.clone(), reason });
        decision.actions.push(Action::End { attempt });
    }
}

/// When nobody is alive any more, halting becomes halted, and a run whose outcome is known is finished.
pub(super) fn settle<P: Protocol>(run: &mut Run<P>, decision: &mut Decision<P>) {
    if run.live_attempts().next().is_some() {
        return;
    }
    let settled = match run.phase {
        Phase::Halting(halt) => Phase::Halted(halt),
        Phase::Draining(outcome) | Phase::Closing(outcome) => Phase::Finished(outcome),
        Phase::Open
        | Phase::Paused
        | Phase::Halted(Halt::Interrupted | Halt::Stopped)
        | Phase::Finished(_) => return,
    };
    decision.make(run, Change::Phase { phase: settled });
}
