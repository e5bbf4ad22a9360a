//! Every input that could come next.

use protocol::StepId;
use protocol::run::{Ending, Fact, Request, Run, RunStatus, TurnStatus, proceed, start_queued};
use serde_json::Value;

use super::model::{Model, Scheduling};
use super::{Explored, WriteInput, json, typed};

/// One input of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Fact(Fact),
    /// A deferred transition of the protocol.
    Deferred,
    /// Queued steps are started in free slots, if that has an entry of its own.
    Slots,
    Request(Request),
    /// A client writes to the document.
    Write(WriteInput),
}

impl Input {
    /// Returns whether a person answers a question, which may take any time and be repeated for ever.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Fact(Fact::Answered { .. }))
    }
}

/// How often one turn is interrupted. More than once only repeats the same states up to the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruptions {
    Never,
    Once,
    Any,
}

impl Interruptions {
    fn allow(self, another_after: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Once => another_after == 0,
            Self::Any => true,
        }
    }
}

/// Returns the facts that could come, or the deferred transition, which the engine performs before it reads any
/// input.
pub(super) fn facts<P: Explored>(model: &Model<P>, run: &Run, interruptions: Interruptions) -> Vec<Input> {
    if proceed(&mut run.clone()).is_some() {
        return vec![Input::Deferred];
    }
    let mut inputs = Vec::new();
    // Besides the facts, because they may come before the engine has seen another client's request.
    if model.scheduling == Scheduling::Separate
        && !start_queued(&mut run.clone(), model.slots.count()).is_nothing()
    {
        inputs.push(Input::Slots);
    }
    for (step, active) in &run.active_turns {
        let attempt = active.attempt_id(step);
        let is_counted = match active.status {
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
        let over = |ending| Input::Fact(Fact::Ended { attempt: attempt.clone(), ending });
        inputs.extend(verdicts::<P>(run, step).map(|verdict| over(Ending::Reported(verdict))));
        inputs.push(over(Ending::Failed));
        if !is_counted || interruptions.allow(active.interruptions) {
            inputs.extend([over(Ending::Interrupted), over(Ending::Stopped)]);
        }
    }
    inputs
}

/// Returns every verdict of a step.
pub(super) fn verdicts<P: Explored>(run: &Run, step: &StepId) -> impl Iterator<Item = Value> {
    let machine = typed::<P>(run);
    let step = P::step(&machine.definition, &machine.state, step).expect("BUG: a turn is of a step");
    P::verdicts(&machine.definition, &machine.state, &step).into_iter().map(|verdict| json(&verdict))
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
    let own = P::requests(&machine.definition, &machine.state);
    requests.extend(own.iter().map(|request| Request::Protocol(json(request))));
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
