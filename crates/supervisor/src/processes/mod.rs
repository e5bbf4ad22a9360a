//! Finds the processes of attempts in the process table, and runs programs with a time limit.
//!
//! * `mark`: the environment variables that every process of an attempt carries; kills the processes with a mark
//! * `scan`: lists marked processes and shims without touching them
//! * `probe`: runs a program such as `claude --version` with a time limit

mod mark;
mod probe;
mod scan;

pub use mark::{Mark, enclosing_attempt, enclosing_mark, kill_marked, kill_marked_unclaimed};
pub use probe::{ProbeError, probe};
pub use scan::{MarkedProcess, ShimStatus, find_marked, shim_status};
