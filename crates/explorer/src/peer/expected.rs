//! The transition of the protocol's matrix that an input must make, derived from the document before it and the running
//! attempt, not from the protocol's decisions.

use protocol::peer::{Definition, Peer, Phase, PhaseStatus, Transition as Written};
use protocol::run::{Ending, Fact, MAX_INTERRUPTIONS, Request, RunStatus, TurnStatus};

use super::super::{Input, Transition};
use super::first_open;
use super::writes::NOTE;

pub(super) fn expected(definition: &Definition, transition: &Transition<'_, Peer>) -> Written {
    let Transition { before, input, .. } = transition;
    let was = transition.was();
    let is_over =
        matches!(before.status, RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_));
    match input {
        None => Written::Initialized,
        Some(Input::Write(writing)) => match first_open(was) {
            Some(phase) if writing.name != NOTE => Written::Progress { phase, unknown_fields: false },
            Some(_) | None => Written::UnknownFields,
        },
        Some(_) if is_over => Written::Unchanged,
        Some(Input::Fact(Fact::Ended { attempt, ending })) => {
            let active = &before.active_turns[&attempt.step];
            let phase = transition.step(&attempt.step);
            let is_running = active.status == TurnStatus::Running;
            let failed = |used_up: bool| match (is_running, used_up) {
                (false, _) => Written::Unchanged,
                (true, true) => Written::Failed(phase),
                (true, false) => Written::Progress { phase, unknown_fields: false },
            };
            match ending {
                Ending::Reported(_) => Written::Completed(phase),
                Ending::Failed => failed(active.failures + 1 >= definition.max_attempts.get()),
                // An interruption that is retried is no failure, and the document does not show it.
                Ending::Interrupted | Ending::Stopped if active.interruptions < MAX_INTERRUPTIONS => {
                    Written::Unchanged
                }
                Ending::Interrupted | Ending::Stopped => failed(true),
            }
        }
        Some(Input::Request(Request::Stop)) => {
            first_open(was).map_or(Written::CycleCompleted, Written::Failed)
        }
        Some(Input::Deferred) => match first_open(was) {
            None => Written::CycleCompleted,
            Some(phase) if !is_reused(definition, phase) => begins(transition),
            Some(phase) => match was.phases[phase].status {
                PhaseStatus::Pending => Written::Started(phase),
                PhaseStatus::InProgress | PhaseStatus::Completed | PhaseStatus::Failed => {
                    Written::Completed(phase)
                }
            },
        },
        Some(
            Input::Fact(Fact::BackoffElapsed { .. } | Fact::Answered { .. })
            | Input::Slots
            | Input::Request(_),
        ) => begins(transition),
    }
}

/// The first attempt of a phase starts it; later ones do not show in the document.
fn begins(transition: &Transition<'_, Peer>) -> Written {
    let pending = |phase: &Phase| transition.was().phases[*phase].status == PhaseStatus::Pending;
    let mut first = transition.started().map(|attempt| transition.step(&attempt.step)).filter(pending);
    first.next().map_or(Written::Unchanged, Written::Started)
}

/// Returns whether the output comes from the cycle that this one continues.
pub(super) fn is_reused(definition: &Definition, phase: Phase) -> bool {
    let count = definition.continues.as_ref().map_or(0, |continued| continued.outputs.len());
    super::ORDER.into_iter().take(count).any(|reused| reused == phase)
}
