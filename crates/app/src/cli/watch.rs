//! `callboard watch [RUN]`.

use super::block_on;
use crate::config::Flags;
use crate::face::{Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::look::Sight;
use crate::progress::Progress;
use crate::watcher::Watcher;

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
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    block_on(async {
        let (store, run) = here.find_run_or_only(arguments.run.as_deref(), "watch").await?;
        let progress = Progress::new(&here, &run, arguments.json);
        let sight = Sight { here, store, run };
        sight.with(Watching { sight: &sight, progress }).await
    })
}

struct Watching<'a> {
    sight: &'a Sight,
    progress: Progress,
}

impl Deed for Watching<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { sight, progress } = self;
        Watcher::<P>::at(sight, progress).await?.finish().await
    }
}
