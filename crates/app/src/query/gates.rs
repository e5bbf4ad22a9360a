//! How often each gate has been executed, of how often it may be.

use protocol::StepId;
use runner::RunAt;
use serde::Serialize;

use crate::present::{Presentation, StatusKind, WayBack};

/// A step that can send others back.
#[derive(Debug, Serialize)]
pub(crate) struct Gate {
    pub(crate) step: StepId,
    /// Executions that have begun, the present one among them.
    pub(crate) used: u32,
    pub(crate) limit: u32,
    /// Where it sends the run back to.
    pub(crate) back_to: StepId,
}

/// Every gate of a run, in the order of its steps.
pub(crate) fn of<P: Presentation>(run_at: &RunAt<P>) -> Vec<Gate> {
    let definition = &run_at.spec.definition;
    let gates = P::steps(definition).into_iter().filter_map(|step| {
        let WayBack { to, most } = P::way_back(definition, &step)?;
        let shown = P::shown(&run_at.document, &step);
        let begun = shown.attempts > 0 || shown.kind != StatusKind::Pending;
        Some(Gate {
            step: P::step_id(&step),
            used: shown.sent_back + u32::from(begun),
            limit: most,
            back_to: P::step_id(&to),
        })
    });
    gates.collect()
}
