//! Deferred transitions: what a protocol does without an event, once the steps concerned have no attempt alive.

use super::absorb::{apply_move, complete_stop_or_finish};
use super::change::{Change, Decision};
use super::state::{Run, RunStatus};
use crate::protocol_trait::Deferred;

/// Makes the protocol's deferred transition. Returns `None` if there is none, or if it has to wait.
///
/// It depends on the run alone. A new engine calls it first, so a transition is made even if the previous engine was
/// killed between two commits.
pub fn make_deferred_transition(run: &mut Run) -> Option<Decision> {
    match run.status {
        RunStatus::Running | RunStatus::Paused => {}
        RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_)
        | RunStatus::Finished(_) => {
            return None;
        }
    }
    let Deferred { must_be_idle, transition } = run.machine.deferred()?;
    let concerned = || run.active_turns.iter().filter(|(step, _)| must_be_idle.contains(step));
    if concerned().any(|(_, active)| active.status.has_live_attempt()) {
        return None;
    }
    // Queued and waiting turns of these steps end: the transition decides anew what is queued.
    let to_dequeue: Vec<_> = concerned().map(|(step, _)| step.clone()).collect();
    let mut decision = Decision::nothing();
    for step in to_dequeue {
        decision.apply(run, Change::Dequeued { step });
    }
    apply_move(run, transition, &mut decision);
    complete_stop_or_finish(run, &mut decision);
    Some(decision)
}
