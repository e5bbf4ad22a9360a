//! `callboard doctor`.

use serde_json::json;

use super::block_on;
use crate::doctor::{self, DoctorContext, Finding, Level};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::LocationArgs;

/// Check the setup, and say what to do about each problem
///
/// Checks the store, locks, runs, orphaned processes, disk, views, git, configuration, agents and limits. Nothing is changed,
/// except that missing streams are created in a store on NATS. Below each problem is the command that solves it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 no problem was found, 1 something needs to be done

Examples:
  callboard doctor
  callboard doctor --json | jq '.findings[] | select(.level == \"problem\")'
  callboard doctor --unit > ~/.config/systemd/user/callboard-NAME.service")]
pub(super) struct Arguments {
    /// Print all findings as JSON
    #[arg(long)]
    json: bool,

    /// Print a systemd user unit that resumes the runs of this repository after a reboot
    #[arg(long, conflicts_with = "json")]
    unit: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let context = DoctorContext::find(&arguments.location)?;
    if arguments.unit {
        // Without the configuration, the unit might name another store.
        if let Err(errors) = &context.config {
            return Err(errors.clone().into());
        }
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Bug, "cannot find the path of this program").because(Some(&error))
        })?;
        output::raw(&doctor::systemd_unit(&context, &program));
        return Ok(Exit::Success);
    }
    let findings = block_on(async { Ok(doctor::run_all(context).await) })?;
    let problems = findings.iter().filter(|finding| finding.level == Level::Problem).count();
    if arguments.json {
        output::json_pretty(&json!({ "problems": problems, "findings": findings }));
    } else {
        findings.iter().for_each(Finding::print);
        output::data("");
        output::data(match problems {
            0 => "no problems found".to_owned(),
            some => output::count(some, "problem found", "problems found"),
        });
    }
    Ok(if problems == 0 { Exit::Success } else { Exit::ProblemsFound })
}
