//! `callboard pause RUN`.

use protocol::RunId;
use protocol::run::Request;
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::face::{Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::render;
use crate::wish::Wish;

/// Pause a run: agents at work go on, nothing more starts
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard pause f8c1a491; callboard resume f8c1a491")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
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
        let (store, run) = here.find_run(&arguments.run).await?;
        let reason = arguments.reason;
        here.with_run(&store, &run, Pausing { here: &here, store: &store, run: &run, reason }).await
    })
}

struct Pausing<'a> {
    here: &'a Here,
    store: &'a AnyStore,
    run: &'a RunId,
    reason: Option<String>,
}

impl Deed for Pausing<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { here, store, run, reason } = self;
        let wish = Wish::<P> { doing: "pause".to_owned(), request: Request::Pause, reason };
        wish.make(here, store, run).await?;
        render::talk(format_args!("run `{run}` is paused; `callboard resume {run}` goes on with it"));
        Ok(Exit::Success)
    }
}
