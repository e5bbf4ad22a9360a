//! `callboard doctor`.

use serde_json::json;

use super::block_on;
use crate::doctor::{self, Finding, Ground, Level};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::LocationArgs;

/// Look whether all is well, and say what to do where it is not
///
/// Looks at the store, locks, runs, orphans, disk, views, git, configuration, agents and limits. Changes nothing and waits for nobody; of a store on NATS it waits for the servers, and makes the streams where there are none. Where something needs doing, the command to type stands below it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 nothing needs doing, 1 something does

Examples:
  callboard doctor
  callboard doctor --json | jq '.findings[] | select(.level == \"act\")'
  callboard doctor --unit > ~/.config/systemd/user/callboard.service")]
pub(super) struct Arguments {
    /// Print everything that was found as JSON
    #[arg(long)]
    json: bool,

    /// Print a systemd user unit that goes on with the runs of this place after a reboot
    #[arg(long, conflicts_with = "json")]
    unit: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let ground = Ground::find(&arguments.location)?;
    if arguments.unit {
        // Without it the unit would go on with the runs of another store.
        if let Err(errors) = &ground.config {
            return Err(errors.clone().into());
        }
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Bug, "cannot tell which program this is").because(Some(&error))
        })?;
        output::raw(&doctor::unit(&ground, &program));
        return Ok(Exit::Success);
    }
    let findings = block_on(async { Ok(doctor::examine(ground).await) })?;
    let needed = findings.iter().filter(|finding| finding.level == Level::Act).count();
    if arguments.json {
        output::json_pretty(&json!({ "needs_doing": needed > 0, "findings": findings }));
    } else {
        findings.iter().for_each(Finding::show);
        output::data("");
        output::data(match needed {
            0 => "nothing needs doing".to_owned(),
            some => output::count(some, "thing needs doing", "things need doing"),
        });
    }
    Ok(if needed == 0 { Exit::Success } else { Exit::NeedsDoing })
}
