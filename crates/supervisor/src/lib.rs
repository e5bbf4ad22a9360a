//! Runs agents: everything between "this attempt shall start" and "this is how it ended".
//!
//! An attempt runs under a *shim*, a small single-threaded process in its own session. The shim outlives the engine: if
//! the engine is killed, the agent keeps working and the next engine adopts it. Therefore the engine holds no pipe to a
//! running agent and keeps no state about it. It reads everything from the [attempt's directory](AttemptDir) and from
//! the kernel, in the same way for an agent that it started and for one that it adopted:
//!
//! ```text
//! engine ── AttemptHandle ──▶ launch.json ──▶ shim ──▶ agent ──▶ stdout.log, stderr.log, report.json
//!    ▲                                      │ claim (which shim runs it), exit.json (how it ended)
//!    └──── pidfd of the shim, inotify ◀─────┘
//! ```
//!
//! * [`adapter`]: command line and environment of each kind of agent
//! * `attempt`: the directory of an attempt, its claim, launch, exit record and report; the engine's handle on it
//! * [`shim`]: the process between engine and agent
//! * `processes`: finding and killing the processes of an attempt; asking a program for its version
//! * [`checks`]: commands that judge a tree, and their evidence
//! * [`git`]: the worktrees, branches and merges of a run
//!
//! `protocol` decides which attempt runs, what a report means and what is retried; `runner` carries it out.

pub mod adapter;
mod atomic_file;
mod attempt;
pub mod checks;
mod env_string;
pub mod git;
mod processes;
mod program;
pub mod shim;

pub use atomic_file::{
    create_synced_file, replace_file, replace_file_keeping_mode, replace_link, replace_synced_file,
};
pub use attempt::{
    AttachError, AttemptDir, AttemptEnd, AttemptHandle, ClaimError, EndReason, ExitRecord, ExitStatus,
    HandleEvent, Launch, ShimProgram, Shutdown, SpawnError, StopError, StopOutcome, VoidOutcome,
    is_full_disk, is_resource_shortage, void,
};
pub use attempt::{copies, partial, report};
pub use env_string::EnvString;
pub use processes::{
    Mark, MarkedProcess, ShimStatus, enclosing_attempt, enclosing_mark, find_marked, kill_marked,
    kill_marked_unclaimed, shim_status,
};
pub use program::find_program;
