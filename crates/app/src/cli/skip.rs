//! `callboard skip RUN STEP`.

use protocol::run::{Phase, Request};

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::wish::{self, Wish};
use crate::{phase, render};

/// Skip a step: go on as if it were done
///
/// The step is shown as SKIPPED, and steps that need it may begin. A step at work cannot be skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard skip f8c1a491 docs --reason 'written by hand'")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// The step
    step: String,

    /// Why, for the journal and the document
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    block_on(async {
        let store = here.store_with(&arguments.run)?;
        let journal = here.load(&store, &arguments.run).await?;
        let seat = wish::step(&journal, &arguments.step)?;
        let request = Request::Skip { seat: seat.clone() };
        let wish = Wish { doing: "skip a step of", request, reason: Some(arguments.reason) };
        let taken = wish.make(&here, &store, &journal.run).await?;
        render::talk(format_args!("step `{seat}` is skipped"));
        let phase = here.load(&store, journal.run.as_str()).await?.folded.run.phase;
        if let Phase::Finished(_) = phase {
            let (_, word) = phase::word(phase);
            render::note(format_args!("with that the run is {word}"));
        } else {
            wish::tell_who_goes_on(&journal.run, &taken);
        }
        Ok(Exit::Delivered)
    })
}
