//! The iterations of each gate, and its limit.

use protocol::StepId;
use protocol::present::{LoopBack, StatusKind};
use runner::RunAtRevision;
use serde::Serialize;

/// A step that can loop back.
#[derive(Debug, Serialize)]
pub(crate) struct Gate {
    pub(crate) step: StepId,
    /// Started iterations, the current one included.
    pub(crate) used: u32,
    pub(crate) limit: u32,
    /// The step that it loops back to.
    pub(crate) back_to: StepId,
}

/// Returns every gate of a run, in the order of its steps.
pub(crate) fn of(run_at: &RunAtRevision) -> Vec<Gate> {
    let machine = run_at.machine();
    let gates = machine.steps().into_iter().filter_map(|step| {
        let LoopBack { to, max_iterations } = machine.loop_back(&step)?;
        let summary = machine.step_summary(&step);
        let has_started = summary.attempts > 0 || summary.kind != StatusKind::Pending;
        Some(Gate {
            step,
            used: summary.loop_backs + u32::from(has_started),
            limit: max_iterations,
            back_to: to,
        })
    });
    gates.collect()
}
