//! `callboard skip RUN STEP`.

use protocol::RunId;
use protocol::run::{Request, RunStatus};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::face::{self, Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::wish::{self, Wish};
use crate::{render, run_status};

/// Skip a step: go on as if it were done
///
/// The step is shown as SKIPPED, and steps that need it may begin. A step at work cannot be skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard skip f8c1a491 docs --reason 'written by hand'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
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
        let (store, run) = here.find_run(&arguments.run).await?;
        here.with_run(&store, &run, Skipping { here: &here, store: &store, run: &run, arguments }).await
    })
}

struct Skipping<'a> {
    here: &'a Here,
    store: &'a AnyStore,
    run: &'a RunId,
    arguments: Arguments,
}

impl Deed for Skipping<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { here, store, run, arguments } = self;
        let (word, _) = P::STEP;
        let journal = here.load::<P>(store, run).await?;
        let step = face::step::<P>(run, &journal.spec.definition, &arguments.step)?;
        let request = Request::Skip { step: step.clone() };
        let wish = Wish::<P> { doing: format!("skip a {word} of"), request, reason: Some(arguments.reason) };
        let taken = wish.make(here, store, run).await?;
        render::talk(format_args!("{word} `{}` is skipped", P::step_id(&step)));
        let status = here.load::<P>(store, run).await?.state.run.status;
        if let RunStatus::Finished(_) = status {
            let (_, word) = run_status::word(status);
            render::note(format_args!("with that the run is {word}"));
        } else {
            wish::tell_who_goes_on(run, &taken);
        }
        Ok(Exit::Success)
    }
}
