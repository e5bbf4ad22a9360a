//! Every input that could come next.

use protocol::run::{Attempt, Ending, Fact, Request, Run, RunStatus, TurnStatus, proceed, start_queued};

use super::scene::{Scene, Scheduling};
use super::{Explored, WriteInput};

/// One input of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Input<P: Explored> {
    Fact(Fact<P::Step, P::Verdict>),
    /// A deferred transition of the protocol.
    Deferred,
    /// Queued steps are started in free slots, if that has an entry of its own.
    Slots,
    Request(Request<P::Step>),
    /// A client writes to the document.
    Write(WriteInput<P::Step>),
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
pub(super) fn facts<P: Explored>(
    scene: &Scene<P>,
    run: &Run<P>,
    interruptions: Interruptions,
) -> Vec<Input<P>> {
    if proceed(&scene.definition, &mut run.clone()).is_some() {
        return vec![Input::Deferred];
    }
    let mut inputs = Vec::new();
    // Besides the facts, because they may come before the engine has seen another client's request.
    if scene.scheduling == Scheduling::Separate
        && !start_queued(&scene.definition, &mut run.clone(), scene.slots.count()).is_nothing()
    {
        inputs.push(Input::Slots);
    }
    for (step, active) in &run.active_turns {
        let attempt = Attempt { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no };
        let is_counted = match active.status {
            TurnStatus::Queued => continue,
            TurnStatus::BackingOff => {
                inputs.push(Input::Fact(Fact::BackoffElapsed { attempt }));
                continue;
            }
            TurnStatus::Running => true,
            TurnStatus::Stopping => false,
        };
        let over = |ending| Input::Fact(Fact::Ended { attempt: attempt.clone(), ending });
        let verdicts = P::verdicts(&scene.definition, step).into_iter();
        inputs.extend(verdicts.map(|verdict| over(Ending::Reported(verdict))));
        inputs.push(over(Ending::Failed));
        if !is_counted || interruptions.allow(active.interruptions) {
            inputs.extend([over(Ending::Interrupted), over(Ending::Stopped)]);
        }
    }
    inputs
}

/// Returns every request, whether or not it makes sense.
pub(super) fn requests<P: Explored>(scene: &Scene<P>) -> Vec<Request<P::Step>> {
    let mut requests = vec![
        Request::Pause,
        Request::Resume,
        Request::Stop,
        Request::Interrupt,
        Request::Retry { step: None },
    ];
    let steps = P::steps(&scene.definition);
    requests.extend(steps.iter().map(|step| Request::Retry { step: Some(step.clone()) }));
    requests.extend(steps.into_iter().map(|step| Request::Skip { step }));
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
