//! `callboard stop RUN`.

use protocol::Outcome;
use protocol::run::{Phase, Request};

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::render;
use crate::wish::Wish;

/// Stop a run: end its agents and leave it resumable
///
/// Tries that are cut short are not counted. Returns when no agent is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard stop f8c1a491 && callboard resume f8c1a491")]
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
        let wish = Wish { doing: "stop", request: Request::Stop, reason: arguments.reason };
        wish.fulfil(&here, &store, &run).await?;
        let phase = here.load(&store, run.as_str()).await?.folded.run.phase;
        render::talk(match phase {
            Phase::Finished(Outcome::Delivered) => {
                format!("run `{run}` was delivered before it could be stopped")
            }
            Phase::Finished(Outcome::Undelivered) => format!("run `{run}` has ended undelivered"),
            Phase::Open
            | Phase::Paused
            | Phase::Halting(_)
            | Phase::Halted(_)
            | Phase::Draining(_)
            | Phase::Closing(_) => {
                format!("run `{run}` is stopped; `callboard resume {run}` goes on with it")
            }
        });
        Ok(Exit::Delivered)
    })
}
