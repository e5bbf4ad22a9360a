//! The checks behind `callboard doctor`.
//!
//! Each check returns findings. No check changes anything, and no check relies on the success of another.

mod checks;
mod context;
mod finding;
mod systemd_unit;

pub(crate) use checks::run_all;
pub(crate) use context::DoctorContext;
pub(crate) use finding::{Finding, Level};
pub(crate) use systemd_unit::systemd_unit;
