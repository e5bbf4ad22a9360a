//! `callboard stop RUN`.

use protocol::Protocol as _;
use protocol::entry::Entry;
use protocol::run::{Phase, Request};
use protocol::steps::Steps;
use runner::{Journal, Rest};
use store::{LeadError, SqliteStore, Store as _};

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::{play, render, wish};

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
        let mut journal: Journal<Steps, SqliteStore> = here.load(&store, &arguments.run).await?;
        let run = journal.run.clone();
        wish::make(&mut journal, "stop", Request::Stop, arguments.reason).await?;
        wait_until_halted(&here, &store, journal).await?;
        render::talk(format_args!("run `{run}` is stopped; `callboard resume {run}` goes on with it"));
        Ok(Exit::Delivered)
    })
}

/// Whoever is the engine ends the attempts; if nobody is, we are until that is done.
async fn wait_until_halted(
    here: &Here,
    store: &SqliteStore,
    journal: Journal<Steps, SqliteStore>,
) -> Result<(), Failure> {
    let run = journal.run.clone();
    if is_over(journal.folded.run.phase) {
        return Ok(());
    }
    let house = play::house(here, runner::Again::default())?;
    match runner::Engine::<Steps, _>::lead(store, house, &run, &mut ()).await {
        Ok(engine) => {
            let (_keep, interrupts) = tokio::sync::mpsc::unbounded_channel();
            return match engine.play(Request::Stop, interrupts).await? {
                Rest::Finished(_) | Rest::Halted(_) | Rest::Abandoned => Ok(()),
            };
        }
        Err(runner::EngineError::Lead(LeadError::Held { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    let mut folded = journal.folded;
    let mut watch = store.watch(&run, journal.position.revision).await?;
    while !is_over(folded.run.phase) {
        for entry in watch.next().await? {
            let entry = Entry::decode(&entry.body).map_err(|error| {
                Failure::from_error(Exit::Store, &error)
                    .while_doing(format_args!("cannot follow the {} run `{run}`", Steps::NAME))
            })?;
            folded.fold(&entry);
        }
    }
    Ok(())
}

fn is_over(phase: Phase) -> bool {
    match phase {
        Phase::Halted(_) | Phase::Finished(_) => true,
        Phase::Open | Phase::Paused | Phase::Halting(_) | Phase::Draining(_) | Phase::Closing(_) => false,
    }
}
