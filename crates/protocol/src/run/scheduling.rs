//! Slots: how many attempts may be alive at once, and which step gets the next free one.

use super::change::{Action, Change, Decision};
use super::state::{Attempt, Run, TurnStatus};
use crate::rules::Protocol;

/// Starts queued steps in the protocol's order, as long as there are free slots. Steps that a deferred transition waits for
/// are not started. `slots` is the number of slots in total.
///
/// It is separate from [`absorb`](super::absorb()) because the number of slots belongs to the engine and not to the run. Its
/// decision goes into the same entry.
pub fn start_queued<P: Protocol>(definition: &P::Definition, run: &mut Run<P>, slots: usize) -> Decision<P> {
    let mut decision = Decision::nothing();
    if !run.status.starts() {
        return decision;
    }
    let taken = run.active_turns.values().filter(|active| active.status.holds_slot()).count();
    let free = slots.saturating_sub(taken);
    if free == 0 {
        return decision;
    }
    let held = P::deferred(definition, &run.state).map(|deferred| deferred.quiet).unwrap_or_default();
    let waiting = run
        .active_turns
        .iter()
        .filter(|(step, active)| active.status == TurnStatus::Queued && !held.contains(step));
    let mut waiting: Vec<_> = waiting.map(|(step, _)| step.clone()).collect();
    waiting.sort_by_key(|step| P::rank(definition, step));
    for step in waiting.into_iter().take(free) {
        let active = &run.active_turns[&step];
        let counted_attempt = active.failures + 1;
        let attempt = Attempt { step, turn: active.turn, attempt_no: active.attempt_no.next() };
        decision.apply(run, Change::Started { attempt: attempt.clone(), counted_attempt });
        decision.actions.push(Action::Start { attempt });
    }
    decision
}
