//! One attempt: its directory, and the engine's handle on it.
//!
//! * `dir`: the files of an attempt
//! * `launch`: what the shim shall do, and how it is spawned
//! * `claim`: decides which process may run the attempt
//! * `exit`: how it ended
//! * [`report`], `report_history`, [`partial`], `transcript`: collect the agent's report from the places where it left it
//! * [`copies`]: the files that it may edit instead of reporting
//! * `handle`: waits for events of an attempt and stops it

mod claim;
pub mod copies;
mod dir;
mod exit;
mod handle;
mod launch;
pub mod partial;
pub mod report;
mod report_history;
mod transcript;

pub use claim::{ClaimError, VoidOutcome, void};
pub(crate) use claim::{ClaimStatus, claim, shim_of, status as claim_status};
pub use dir::AttemptDir;
pub use exit::{EndReason, ExitRecord, ExitStatus};
pub use handle::{AttachError, AttemptEnd, AttemptHandle, HandleEvent, Shutdown, StopError, StopOutcome};
pub use launch::{Launch, ShimProgram, SpawnError, is_full_disk, is_resource_shortage};
pub(crate) use report_history::record_report_file;
