//! The transition that the document of `peer` must make on an input. It is derived from the documentation of the original,
//! the document before the input and the running attempt, not from the protocol's decisions.

use protocol::peer::{Definition, Peer, Phase, PhaseStatus, Transition as DocumentTransition};
use protocol::run::{Ending, Fact, MAX_INTERRUPTIONS, Request, RunStatus, TurnStatus};

use super::super::{Input, Transition};
use super::first_incomplete_phase;
use super::writes::UNKNOWN_FIELD_WRITE;

/// Returns the transition that the document must make on the input, or on the start of the run if there is no input.
pub(super) fn expected(definition: &Definition, transition: &Transition<'_, Peer>) -> DocumentTransition {
    let Transition { before, input, .. } = transition;
    let document = transition.document_before();
    // Once its outcome is known, the run itself changes nothing more in the document.
    let is_over =
        matches!(before.status, RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_));
    match input {
        None => DocumentTransition::Initialized,
        // Every granted write changes the first phase that is not completed, except `NOTE`, which sets an unknown field.
        Some(Input::Write(write)) => match first_incomplete_phase(document) {
            Some(phase) if write.name != UNKNOWN_FIELD_WRITE => {
                DocumentTransition::Progress { phase, unknown_fields: false }
            }
            Some(_) | None => DocumentTransition::UnknownFields,
        },
        Some(_) if is_over => DocumentTransition::Unchanged,
        Some(Input::Fact(Fact::Ended { attempt, ending })) => {
            let active = &before.active_turns[&attempt.step];
            let phase = transition.step(&attempt.step);
            let is_running = active.status == TurnStatus::Running;
            let failed = |is_last_attempt: bool| match (is_running, is_last_attempt) {
                (false, _) => DocumentTransition::Unchanged,
                (true, true) => DocumentTransition::Failed(phase),
                // The error of an attempt that is retried is added to the phase, which the format counts as progress.
                (true, false) => DocumentTransition::Progress { phase, unknown_fields: false },
            };
            match ending {
                Ending::Reported(_) => DocumentTransition::Completed(phase),
                Ending::Failed => failed(active.failures + 1 >= definition.max_attempts.get()),
                // An interruption that is retried is no failure, and the document does not show it.
                Ending::Interrupted | Ending::Stopped if active.interruptions < MAX_INTERRUPTIONS => {
                    DocumentTransition::Unchanged
                }
                Ending::Interrupted | Ending::Stopped => failed(true),
            }
        }
        Some(Input::Request(Request::Stop)) => first_incomplete_phase(document)
            .map_or(DocumentTransition::CycleCompleted, DocumentTransition::Failed),
        Some(Input::Deferred) => match first_incomplete_phase(document) {
            None => DocumentTransition::CycleCompleted,
            Some(phase) if !is_reused(definition, phase) => phase_start(transition),
            Some(phase) => match document.phases[phase].status {
                PhaseStatus::Pending => DocumentTransition::Started(phase),
                PhaseStatus::InProgress | PhaseStatus::Completed | PhaseStatus::Failed => {
                    DocumentTransition::Completed(phase)
                }
            },
        },
        Some(
            Input::Fact(Fact::BackoffElapsed { .. } | Fact::Answered { .. })
            | Input::StartQueued
            | Input::Request(_),
        ) => phase_start(transition),
    }
}

/// Returns the start of a phase if its first attempt starts. Later attempts do not change the document.
fn phase_start(transition: &Transition<'_, Peer>) -> DocumentTransition {
    let pending = |phase: &Phase| transition.document_before().phases[*phase].status == PhaseStatus::Pending;
    let mut first = transition.started().map(|attempt| transition.step(&attempt.step)).filter(pending);
    first.next().map_or(DocumentTransition::Unchanged, DocumentTransition::Started)
}

/// Returns whether the output of the phase is reused from the cycle that this one continues.
pub(super) fn is_reused(definition: &Definition, phase: Phase) -> bool {
    let count = definition.continues.as_ref().map_or(0, |continued| continued.outputs.len());
    super::ORDER.into_iter().take(count).any(|reused| reused == phase)
}
