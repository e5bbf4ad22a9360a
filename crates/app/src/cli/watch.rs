//! `callboard watch [RUN]`.

use super::block_on;
use crate::config::Flags;
use crate::engine::progress::Progress;
use crate::engine::watcher::Watcher;
use crate::failure::{Exit, Failure};
use crate::present::{Deed, Presentation};
use crate::query::RunHandle;
use crate::workspace::{LocationArgs, Workspace};

/// Watch a run from another terminal, until it rests
///
/// Shows what `run` shows, whoever the engine is, and whether there is one: it may start later, die, or be replaced.
/// Without RUN it watches the only unfinished run. Ends when the run is finished, stopped or interrupted, with the exit
/// code that `run` or `resume` would have had. Ctrl-C leaves with 130; the run does not notice.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run workflow.yaml --detach && callboard watch
  callboard watch f8c1a491 && notify-send succeeded
  callboard watch f8c1a491 --json | jq 'select(.event == \"over\")'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: Option<String>,

    /// Print one JSON event per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.place, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run_or_only(arguments.run.as_deref(), "watch").await?;
        let progress = Progress::new(&workspace, &run, arguments.json);
        let handle = RunHandle { workspace, store, run };
        handle.with(Watching { handle: &handle, progress }).await
    })
}

struct Watching<'a> {
    handle: &'a RunHandle,
    progress: Progress,
}

impl Deed for Watching<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { handle, progress } = self;
        Watcher::<P>::at(handle, progress).await?.finish().await
    }
}
