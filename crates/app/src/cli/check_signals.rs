//! `callboard check-signals RUN`: agents of `cycle` ask whether a pause or a stop was requested.

use protocol::cycle::Cycle;
use protocol::{AttemptId, Protocol as _, RunId};
use serde_json::json;
use supervisor::AttemptDir;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{LocationArgs, Workspace};

/// Ask whether the work of a `cycle` run may continue
///
/// Prints `{"continue": true, "action": "continue"}` and exits with 0 while the run is running. Otherwise the exit code is 3,
/// and the action is `pause`, `stop`, or `unknown` if the run has completed. An agent that got such an answer may exit
/// without a report: the attempt then counts as interrupted, not as failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  callboard check-signals cycle-v1-20260122T100000-abc123   # exit code 3: end the attempt")]
pub(super) struct Arguments {
    /// The run of `cycle`: its id, or a unique prefix of it
    run: String,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        let journal = workspace.load(&store, &run).await?;
        let name = journal.kind().info().name;
        if name != Cycle::NAME {
            return Err(Failure::usage(format!(
                "run `{run}` is a `{name}` run; this command is for runs of `cycle`"
            )));
        }
        let document = journal.machine().document().to_value();
        let (continues, action) = match document["status"].as_str() {
            Some("running") => (true, "continue"),
            Some("paused") => (false, "pause"),
            Some("failed") => (false, "stop"),
            Some(_) | None => (false, "unknown"),
        };
        // Recorded before the answer is printed: an agent may exit as soon as it has read the answer.
        if !continues {
            record_signal(&run, action)?;
        }
        output::data(json!({ "continue": continues, "action": action }));
        Ok(if continues { Exit::Success } else { Exit::Refused })
    })
}

/// Records in the directory of the attempt that it was told to end. The engine then counts no failure.
fn record_signal(run: &RunId, action: &str) -> Result<(), Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(own_run), Some(attempt), Some(store)) =
        (variable("CALLBOARD_RUN"), variable("CALLBOARD_ATTEMPT"), variable("CALLBOARD_STORE"))
    else {
        // Not called by an attempt.
        return Ok(());
    };
    let Ok(attempt) = attempt.parse::<AttemptId>() else { return Ok(()) };
    let dir = AttemptDir::new(&std::path::Path::new(&store).join("attempts"), run, &attempt);
    if own_run != run.as_str() || !dir.claim().exists() {
        return Ok(());
    }
    let file = dir.told_signal();
    std::fs::write(&file, json!({ "action": action }).to_string()).map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write `{}`", file.display())).because(Some(&error))
    })
}
