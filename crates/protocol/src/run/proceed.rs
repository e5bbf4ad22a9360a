//! What is to be done without any news: a protocol's own second thoughts, once the steps concerned are quiet.

use super::absorb::{carry_out, settle};
use super::change::{Change, Decision};
use super::state::{Run, RunStatus};
use crate::rules::{Deferred, Protocol};

/// Does what is due, if its time has come, and moves the run by the changes it answers. It depends on the run alone: a
/// new engine asks it first of all, and one that was killed between two commits goes on where it was.
pub fn proceed<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Option<Decision<P>> {
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
    let Deferred { quiet, then } = P::deferred(definition, &run.state)?;
    let concerned = || run.active_turns.iter().filter(|(step, _)| quiet.contains(step));
    if concerned().any(|(_, active)| active.status.holds_slot()) {
        return None;
    }
    let waiting: Vec<_> = concerned().map(|(step, _)| step.clone()).collect();
    let mut decision = Decision::nothing();
    for step in waiting {
        decision.make(run, Change::Dequeued { step });
    }
    carry_out(run, then, &mut decision);
    settle(run, &mut decision);
    Some(decision)
}
