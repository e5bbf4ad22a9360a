//! Finds the processes of attempts in the process table.
//!
//! * `mark`: the environment variables that every process of an attempt carries; kills the processes with a mark
//! * `scan`: lists marked processes and shims without touching them

mod mark;
mod scan;

pub use mark::{Mark, enclosing_attempt, enclosing_mark, kill_marked, kill_marked_unclaimed};
pub use scan::{MarkedProcess, ShimStatus, find_marked, shim_status};
