//! `callboard watch [RUN]`.

use super::block_on;
use crate::config::Flags;
use crate::engine::progress::Progress;
use crate::engine::watcher::Watcher;
use crate::failure::{Exit, Failure};
use crate::query::RunHandle;
use crate::workspace::{LocationArgs, Workspace};

/// Follow a run from another terminal until it ends or stops
///
/// Shows what `run` shows. The engine may be any process: it may start later, die, or be replaced. Without RUN, the
/// only unfinished run is followed. Ends when the run is finished or stopped, with the exit code that `run` or `resume`
/// would have had. Ctrl-C ends only this command, with exit code 130.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run workflow.yaml --detach && callboard watch
  callboard watch f8c1a491 && notify-send succeeded
  callboard watch f8c1a491 --json | jq 'select(.event == \"ended\")'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: Option<String>,

    /// Print one JSON event per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run_or_only(arguments.run.as_deref(), "watch").await?;
        let progress = Progress::new(&workspace, &run, arguments.json);
        let handle = RunHandle { workspace, store, run };
        Watcher::at(&handle, progress).await?.finish().await
    })
}
