//! `--rehearse[=SCRIPT]`, for every command that starts a run.

use std::path::{Path, PathBuf};

use runner::AgentProfile;

use super::{ScriptSteps, scripted_agent};
use crate::failure::Failure;

/// The flag that makes a run a rehearsal.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RehearseFlag {
    /// Use the built-in scripted agent instead of a real one, with a script if one is given
    #[arg(
        long,
        value_name = "SCRIPT",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["wrapper", "command_template", "role"],
        help_heading = "Agents",
        long_help = "Use the built-in scripted agent instead of a real one, which costs no tokens. Without a script, every \
                     step succeeds at once. `callboard rehearse-script` prints a script to edit. The run is marked \
                     as a rehearsal"
    )]
    rehearse: Option<Option<PathBuf>>,
}

impl RehearseFlag {
    pub(crate) fn is_given(&self) -> bool {
        self.rehearse.is_some()
    }

    pub(crate) fn script(&self) -> Option<&Path> {
        self.rehearse.as_ref()?.as_deref()
    }

    /// Returns the profile of the scripted agent, if the flag is set.
    pub(crate) fn profile(&self, steps: &ScriptSteps) -> Result<Option<AgentProfile>, Failure> {
        self.rehearse.as_ref().map(|script| scripted_agent(script.as_deref(), steps)).transpose()
    }
}
