//! The state machine of a run, shared by all protocols: attempts, retries, stale facts, pausing, stopping, finishing.
//!
//! * [`absorb()`] takes a *fact*. It has happened, so it cannot fail; a stale fact is [ignored](Absorbed::Ignored).
//! * [`consider()`] takes a *request*. It may be [refused](Refusal).
//! * [`make_deferred_transition()`] makes the protocol's deferred transition.
//! * [`start_queued`] gives free slots to queued steps.
//!
//! Each applies exactly the [changes](Change) it returns: replaying the changes of an entry on the state before it
//! gives the state after it. A run whose decision could not be committed is dropped and loaded again.

mod absorb;
mod change;
mod consider;
mod deferred_transition;
mod run_state;
mod scheduling;
mod state;

pub use absorb::{Absorbed, Ending, Fact, Stale, absorb};
pub use change::{Action, AttemptConsequence, AttemptStopReason, Change, Decision};
pub use consider::{Refusal, Request, consider, import, open};
pub use deferred_transition::make_deferred_transition;
pub use run_state::RunState;
pub use scheduling::start_queued;
pub use state::{ActiveTurn, Run, RunStatus, RunStopCause, TurnStatus};

/// How many interrupted attempts of one turn are repeated. The next one exhausts the step, as its last failed attempt does.
pub const MAX_INTERRUPTIONS: u32 = 5;

#[cfg(test)]
mod tests;
