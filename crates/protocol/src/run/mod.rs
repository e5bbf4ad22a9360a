//! The run: which attempts are alive, tries, stale news, pausing, stopping and finishing; once for all protocols.
//!
//! * [`absorb()`] takes a *fact*. It has happened, so it cannot fail; stale news is [ignored](Absorbed::Ignored) with the reason.
//! * [`consider()`] takes a *request*. It may be [refused](Refusal).
//! * [`proceed()`] does what the protocol wants done without any news.
//! * [`start_queued`] gives free places to steps that wait for one.
//!
//! Each moves the run forward by exactly the [changes](Change) it returns, and by nothing else: folding the changes
//! of an entry over the state before it gives the state after it. A run whose decision could not be committed is
//! dropped and loaded anew.

mod absorb;
mod change;
mod consider;
mod proceed;
mod scheduling;
mod state;

pub use absorb::{Absorbed, Ending, Fact, Stale, absorb};
pub use change::{Action, Change, ChangeOf, Decision, Exit, StopReason};
pub use consider::{Refusal, Request, consider, import, open};
pub use proceed::proceed;
pub use scheduling::start_queued;
pub use state::{ActiveTurn, Attempt, Run, RunStatus, StopCause, TurnStatus};

/// Interrupted tries of one turn that are repeated; one more and the step gives up.
pub const MAX_INTERRUPTIONS: u32 = 5;

#[cfg(test)]
mod tests;
