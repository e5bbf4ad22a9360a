//! `--rehearse[=SCRIPT]`, for every command that starts a run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
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

/// Returns the hint for a script that follows `--rehearse` without `=`, which is taken for another argument.
pub(crate) fn hint(arguments: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unexpected)) = error.get(ContextKind::InvalidArg) else { return None };
    let follows = arguments.windows(2).any(|pair| pair[0] == "--rehearse" && pair[1] == unexpected.as_str());
    (follows && !unexpected.starts_with('-'))
        .then(|| format!("write `--rehearse={unexpected}`: the script follows `=`"))
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

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::*;

    #[test]
    fn a_script_after_a_space_gets_a_hint() {
        let hint_for = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let command = RehearseFlag::augment_args(Command::new("run"));
            // clap requires that the arguments exist that `--rehearse` conflicts with.
            let command = command.args(["wrapper", "command_template", "role"].map(clap::Arg::new));
            let error = command.try_get_matches_from(&arguments).unwrap_err();
            hint(&arguments, &error)
        };
        assert_eq!(
            hint_for("run a b c --rehearse script.yaml").as_deref(),
            Some("write `--rehearse=script.yaml`: the script follows `=`")
        );
        assert_eq!(hint_for("run a b c d --rehearse"), None);
        assert_eq!(hint_for("run --rehearse --nothing"), None);
    }
}
