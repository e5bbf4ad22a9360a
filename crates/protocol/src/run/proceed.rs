//! What is to be done without any news: a protocol's own second thoughts, once the steps concerned are quiet.

use super::absorb::{carry_out, settle};
use super::change::{Change, Decision};
use super::state::{Phase, Run};
use crate::rules::{Due, Protocol};

/// Does what is due, if its time has come, and moves the run by the changes it answers. It depends on the run alone: a
/// new engine asks it first of all, and one that was killed between two commits goes on where it was.
pub fn proceed<P: Protocol>(definition: &P::Definition, run: &mut Run<P>) -> Option<Decision<P>> {
    match run.phase {
        Phase::Open | Phase::Paused => {}
        Phase::Halting(_)
        | Phase::Halted(_)
        | Phase::Draining(_)
        | Phase::Closing(_)
        | Phase::Finished(_) => {
            return None;
        }
    }
    let Due { quiet, then } = P::due(definition, &run.play)?;
    let concerned = || run.chairs.iter().filter(|(step, _)| quiet.contains(step));
    if concerned().any(|(_, chair)| chair.posture.holds_place()) {
        return None;
    }
    let waiting: Vec<_> = concerned().map(|(step, _)| step.clone()).collect();
    let mut decision = Decision::nothing();
    for step in waiting {
        decision.make(run, Change::Uncalled { step });
    }
    carry_out(run, then, &mut decision);
    settle(run, &mut decision);
    Some(decision)
}
