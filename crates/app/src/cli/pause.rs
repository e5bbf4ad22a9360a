//! `callboard pause RUN`.

use protocol::run::Request;

use super::block_on;
use crate::config::Flags;
use crate::control::ControlRequest;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{LocationArgs, Workspace};

/// Pause a run: running agents finish, no step starts
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard pause f8c1a491; callboard resume f8c1a491")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        let control =
            ControlRequest { action: "pause".to_owned(), request: Request::Pause, reason: arguments.reason };
        control.submit(&workspace, &store, &run).await?;
        output::message(format_args!("run `{run}` is paused; run `callboard resume {run}` to continue it"));
        Ok(Exit::Success)
    })
}
