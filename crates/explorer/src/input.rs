//! Every input that could come next.

use protocol::StepId;
use protocol::run::{
    Ending, Fact, Request, Run, RunStatus, TurnStatus, make_deferred_transition, start_queued,
};
use serde_json::Value;

use super::model::{Model, Scheduling};
use super::{Explored, WriteInput, to_json, typed};

/// One input of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Fact(Fact),
    /// A deferred transition of the protocol.
    Deferred,
    /// The start of queued steps in free slots, in an entry of its own ([`Scheduling::Separate`]).
    StartQueued,
    Request(Request),
    /// An agent or a person writes to the document.
    Write(WriteInput),
}

impl Input {
    /// Returns whether a person answers a question. Answers do not guarantee progress: a person may never answer, or may
    /// reject again and again.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Fact(Fact::Answered { .. }))
    }
}

/// How often one turn is interrupted in an exploration. Each further interruption repeats the same states, until the run
/// gives up after `MAX_INTERRUPTIONS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruptions {
    Never,
    Once,
    Any,
}

impl Interruptions {
    fn allows(self, interruptions_so_far: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Once => interruptions_so_far == 0,
            Self::Any => true,
        }
    }
}

/// Returns the facts that could come, or the deferred transition, which the engine performs before it reads any
/// input.
pub(super) fn facts<P: Explored>(model: &Model<P>, run: &Run, interruptions: Interruptions) -> Vec<Input> {
    if make_deferred_transition(&mut run.clone()).is_some() {
        return vec![Input::Deferred];
    }
    let mut inputs = Vec::new();
    // This is one input among the facts: a fact may come before the engine has seen the request that queued the steps.
    if model.scheduling == Scheduling::Separate
        && !start_queued(&mut run.clone(), model.slots.count()).is_nothing()
    {
        inputs.push(Input::StartQueued);
    }
    for (step, active) in &run.active_turns {
        let attempt = active.attempt_id(step);
        let is_running = match active.status {
            TurnStatus::Queued => continue,
            TurnStatus::BackingOff => {
                inputs.push(Input::Fact(Fact::BackoffElapsed { attempt }));
                continue;
            }
            TurnStatus::Waiting => {
                let answer = |verdict| Fact::Answered { step: step.clone(), turn: active.turn, verdict };
                inputs.extend(verdicts::<P>(run, step).map(|verdict| Input::Fact(answer(verdict))));
                continue;
            }
            TurnStatus::Running => true,
            TurnStatus::Stopping => false,
        };
        let ended = |ending| Input::Fact(Fact::Ended { attempt: attempt.clone(), ending });
        inputs.extend(verdicts::<P>(run, step).map(|verdict| ended(Ending::Reported(verdict))));
        inputs.push(ended(Ending::Failed));
        if !is_running || interruptions.allows(active.interruptions) {
            inputs.extend([ended(Ending::Interrupted), ended(Ending::Stopped)]);
        }
    }
    inputs
}

/// Returns every verdict that a report of the step, or an answer to its question, can have.
pub(super) fn verdicts<P: Explored>(run: &Run, step: &StepId) -> impl Iterator<Item = Value> {
    let machine = typed::<P>(run);
    let step = P::step(&machine.definition, &machine.state, step).expect("BUG: a turn is of a step");
    P::verdicts(&machine.definition, &machine.state, &step).into_iter().map(|verdict| to_json(&verdict))
}

/// Returns every request, whether or not it makes sense.
pub(super) fn requests<P: Explored>(run: &Run) -> Vec<Request> {
    let mut requests = vec![
        Request::Pause,
        Request::Resume,
        Request::Stop,
        Request::Interrupt,
        Request::Retry { step: None },
    ];
    let steps = run.machine.steps();
    requests.extend(steps.iter().map(|step| Request::Retry { step: Some(step.clone()) }));
    requests.extend(steps.into_iter().map(|step| Request::Skip { step }));
    let machine = typed::<P>(run);
    let protocol_requests = P::requests(&machine.definition, &machine.state);
    requests.extend(protocol_requests.iter().map(|request| Request::Protocol(to_json(request))));
    requests
}

/// Returns whether the run must be able to progress without a request in this status.
pub(super) fn must_progress(status: RunStatus) -> bool {
    match status {
        RunStatus::Running | RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => {
            true
        }
        RunStatus::Paused | RunStatus::Stopped(_) | RunStatus::Finished(_) => false,
    }
}
