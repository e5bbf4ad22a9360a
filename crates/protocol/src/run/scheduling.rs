//! Slots: how many attempts may be alive at once, and which step gets the next free one.

use super::change::{Action, Change, Decision};
use super::state::{Run, TurnStatus};
use crate::protocol_trait::StepKind;
use crate::{AttemptId, StepId};

/// Starts queued steps in the protocol's order, as long as there are free slots. Steps that a deferred transition waits for
/// are not started. `slots` is the number of slots in total. An effect takes none, because it is not a process.
///
/// It is separate from [`absorb`](super::absorb()) because the number of slots belongs to the engine and not to the run. Its
/// decision goes into the same entry.
pub fn start_queued(run: &mut Run, slots: usize) -> Decision {
    let mut decision = Decision::nothing();
    if !run.status.may_start_steps() {
        return decision;
    }
    if slots == 0 {
        return decision;
    }
    let is_effect = |step: &StepId| run.machine.step_kind(step) == StepKind::Effect;
    let taken =
        run.active_turns.iter().filter(|(step, active)| active.status.has_live_attempt() && !is_effect(step));
    let mut free = slots.saturating_sub(taken.count());
    let must_not_start = run.machine.deferred().map(|deferred| deferred.must_be_idle).unwrap_or_default();
    let queued = run
        .active_turns
        .iter()
        .filter(|(step, active)| active.status == TurnStatus::Queued && !must_not_start.contains(step));
    let mut queued: Vec<_> = queued
        .map(|(step, _)| (step, is_effect(step)))
        .filter(|(_, is_effect)| *is_effect || free > 0)
        .map(|(step, is_effect)| (run.machine.start_order(step), step.clone(), is_effect))
        .collect();
    queued.sort();
    for (_, step, is_effect) in queued {
        if !is_effect {
            let Some(fewer) = free.checked_sub(1) else { continue };
            free = fewer;
        }
        let active = &run.active_turns[&step];
        let counted_attempt = active.failures + 1;
        let attempt = AttemptId { turn: active.turn, attempt_no: active.attempt_no.next(), step };
        let kind = run.machine.step_kind(&attempt.step);
        decision.apply(run, Change::Started { attempt: attempt.clone(), counted_attempt, kind });
        decision.actions.push(Action::Start { attempt });
    }
    decision
}
