//! `callboard retry RUN [STEP]`.

use protocol::run::Request;
use store::Store as _;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::play::{self, Show};
use crate::players::PlayerFlags;
use crate::wish;

/// Try failed steps again: one, or all of them
///
/// A run that had ended opens again. If no engine is at work on it, this command is the engine, as `resume` would be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard retry f8c1a491
  callboard retry f8c1a491 code --reason 'the API is back'")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// The step [default: every failed one]
    step: Option<String>,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    show: Show,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    players: PlayerFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.show.jobs, ..Flags::default() };
    let here = Here::find(&arguments.place, flags)?;
    let house = play::house(&here, arguments.players.again()?)?;
    block_on(async {
        let store = here.store_with(&arguments.run)?;
        let mut journal = here.load(&store, &arguments.run).await?;
        let seat = arguments.step.as_deref().map(|step| wish::step(&journal, step)).transpose()?;
        wish::make(&mut journal, "retry", Request::Retry { seat }, arguments.reason).await?;
        if store.leader(&journal.run).await?.is_some() {
            return wish::tell_who_goes_on(&store, &journal.run).await;
        }
        play::play(&here, &store, house, &journal.run, Request::Resume, &arguments.show).await
    })
}
