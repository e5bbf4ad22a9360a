//! Runs the engine of a run, in the foreground or in the background.

mod agents;
mod config;
mod detach;
mod drive;
mod interrupts;
pub(crate) mod notify;
pub(crate) mod process;
pub(crate) mod profiles;
pub(crate) mod progress;
pub(crate) mod start;
pub(crate) mod watcher;

use std::num::NonZeroU32;

pub(crate) use agents::{
    refuse_other_agents, require_known_roles, require_known_roles_of_run, require_profiles,
};
pub(crate) use config::{
    check_local_dir, check_repository_here, engine_config, uses_local_dir_of, with_local_dir,
    with_local_dir_path,
};
pub(crate) use detach::detach;
pub(crate) use drive::{drive, exit_code};
pub(crate) use interrupts::interrupts;

/// The flags of commands that run an engine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EngineArgs {
    /// How many attempts may run at once [default: number of CPUs]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroU32>,

    /// Exit with code 4 when only the answer of a person can move the run
    #[arg(long)]
    pub(crate) exit_when_waiting: bool,

    /// Print one JSON event per line
    #[arg(long)]
    pub(crate) json: bool,
}
