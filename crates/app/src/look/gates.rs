//! How often each gate has been executed, of how often it may be.

use protocol::SeatName;
use protocol::steps::{Status, Steps};
use runner::Moment;
use serde::Serialize;

/// A step that can send others back.
#[derive(Debug, Serialize)]
pub(crate) struct Gate {
    pub(crate) seat: SeatName,
    /// Executions that have begun, the present one among them.
    pub(crate) used: u32,
    pub(crate) limit: u32,
    /// Where it sends the run back to.
    pub(crate) back_to: SeatName,
}

/// Every gate of a run, in the order of the workflow.
pub(crate) fn of(moment: &Moment<Steps>) -> Vec<Gate> {
    let definition = &moment.frozen.definition;
    let gates = definition.workflow().steps.iter().filter_map(|step| {
        let shown = moment.document.steps.get(step.id.as_str())?;
        let begun = shown.attempts > 0 || shown.status != Status::Pending;
        Some(Gate {
            seat: step.id.clone(),
            used: shown.iteration_count + u32::from(begun),
            limit: definition.max_iterations().get(),
            back_to: step.loop_back_to.clone()?,
        })
    });
    gates.collect()
}
