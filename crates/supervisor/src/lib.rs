//! The processes: everything between "this attempt shall run" and "this is how it ended".
//!
//! An attempt runs under a *shim*, a small single-threaded process of its own session. The shim outlives the engine:
//! kill the engine, and the agent works on; whoever comes next adopts it. The engine therefore holds no pipe and no
//! truth of its own about a running agent. All it knows it reads from the [attempt's directory](AttemptDir) and from
//! the kernel, and it learns it the same way for an agent it started and for one it found:
//!
//! ```text
//! engine ── AttemptHandle ──▶ launch.json ──▶ shim ──▶ agent ──▶ stdout.log, stderr.log, report.json
//!    ▲                                      │ claim (who runs it), exit.json (how it ended)
//!    └──── pidfd of the shim, inotify ◀─────┘
//! ```
//!
//! Not here: which attempt is to run, what a report means for the run, what is retried. That is decided in `protocol`
//! and carried out by `runner`.

pub mod adapter;
mod attend;
mod census;
mod claim;
mod dir;
mod exit;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod mark;
mod os_text;
pub mod partial;
mod probe;
mod program;
pub mod report;
pub mod shim;
mod transcript;
mod whole;

#[cfg(target_os = "linux")]
use linux as os;

pub use attend::{AttachError, AttemptHandle, News, OrderError, Ordered, Over, Shutdown};
pub use census::{Marked, ShimLife, census, shim_life};
pub use claim::{ClaimError, Voided, void};
pub use dir::AttemptDir;
pub use exit::{Because, ExitRecord, How};
pub use launch::{Launch, ShimProgram, SpawnError, is_full_disk, is_shortage};
pub use mark::{Mark, enclosing_attempt, enclosing_mark, sweep, sweep_unclaimed};
pub use os::{Departure, DirWatcher, Identity, boot_id, raise_descriptor_limit};
pub use os_text::OsText;
pub use probe::{ProbeError, probe};
pub use program::find_program;
pub use whole::replace;
