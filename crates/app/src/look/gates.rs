//! How often each gate has been executed, of how often it may be.

use protocol::SeatName;
use runner::Moment;
use serde::Serialize;

use crate::face::{Face, Light, WayBack};

/// A seat that can send others back.
#[derive(Debug, Serialize)]
pub(crate) struct Gate {
    pub(crate) seat: SeatName,
    /// Executions that have begun, the present one among them.
    pub(crate) used: u32,
    pub(crate) limit: u32,
    /// Where it sends the run back to.
    pub(crate) back_to: SeatName,
}

/// Every gate of a run, in the order of its seats.
pub(crate) fn of<P: Face>(moment: &Moment<P>) -> Vec<Gate> {
    let definition = &moment.frozen.definition;
    let gates = P::seats(definition).into_iter().filter_map(|seat| {
        let WayBack { to, most } = P::way_back(definition, &seat)?;
        let shown = P::shown(&moment.document, &seat);
        let begun = shown.tries > 0 || shown.light != Light::Pending;
        Some(Gate {
            seat: P::seat_name(&seat),
            used: shown.sent_back + u32::from(begun),
            limit: most,
            back_to: P::seat_name(&to),
        })
    });
    gates.collect()
}
