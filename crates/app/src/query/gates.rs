//! The iterations of each gate, and its limit.

use protocol::StepId;
use runner::RunAt;
use serde::Serialize;

use crate::present::{LoopBack, Presentation, StatusKind};

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
pub(crate) fn of<P: Presentation>(run_at: &RunAt<P>) -> Vec<Gate> {
    let definition = &run_at.spec.definition;
    let gates = P::steps(definition).into_iter().filter_map(|step| {
        let LoopBack { to, max_iterations } = P::loop_back(definition, &step)?;
        let summary = P::step_summary(&run_at.document, &step);
        let has_started = summary.attempts > 0 || summary.kind != StatusKind::Pending;
        Some(Gate {
            step: P::step_id(&step),
            used: summary.loop_backs + u32::from(has_started),
            limit: max_iterations,
            back_to: P::step_id(&to),
        })
    });
    gates.collect()
}
