//! `callboard doctor`.

use serde_json::json;

use super::block_on;
use crate::doctor::{self, DoctorContext, Finding, Level};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::LocationArgs;

/// Check the store, runs, agents and limits, and print what to do about each problem
///
/// Checks the store, disk, locks, runs, orphans, files, git, configuration, agents and limits. Changes nothing, except that it creates missing streams of a store on NATS. Prints the commands that fix a problem below it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 no problem, 1 a problem was found

Examples:
  callboard doctor
  callboard doctor --json | jq '.findings[] | select(.level == \"problem\")'
  callboard doctor --unit > ~/.config/systemd/user/callboard.service")]
pub(super) struct Arguments {
    /// Print all findings as JSON
    #[arg(long)]
    json: bool,

    /// Print a systemd user unit that resumes the runs of this repository after a reboot
    #[arg(long, conflicts_with = "json")]
    unit: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let context = DoctorContext::find(&arguments.place)?;
    if arguments.unit {
        // Without the configuration the unit would resume the runs of another store.
        if let Err(errors) = &context.config {
            return Err(errors.clone().into());
        }
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Bug, "cannot determine the path of this program").because(Some(&error))
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
