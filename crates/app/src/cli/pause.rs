//! `callboard pause RUN`.

use protocol::run::Request;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::render;
use crate::wish::Wish;

/// Pause a run: agents at work go on, nothing more starts
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard pause f8c1a491; callboard resume f8c1a491")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    block_on(async {
        let store = here.store_with(&arguments.run)?;
        let run = here.resolve(&store, &arguments.run).await?;
        let wish = Wish { doing: "pause", request: Request::Pause, reason: arguments.reason };
        wish.make(&here, &store, &run).await?;
        render::talk(format_args!("run `{run}` is paused; `callboard resume {run}` goes on with it"));
        Ok(Exit::Delivered)
    })
}
