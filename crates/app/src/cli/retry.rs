//! `callboard retry RUN [STEP]`.

use protocol::RunId;
use protocol::run::Request;
use runner::{EngineConfig, EngineRequest};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::drive::{self, Show};
use crate::face::{self, Deed, Face};
use crate::failure::{Code, Exit, Failure};
use crate::here::{self, Here, Place};
use crate::profiles::AgentFlags;
use crate::wish::{self, Wish};

/// Try failed steps again: one, or all of them
///
/// A run that had ended opens again. If no engine is at work on it, this command is the engine, as `resume` would be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard retry f8c1a491
  callboard retry f8c1a491 code --reason 'the API is back'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
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
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.show.jobs, ..Flags::default() };
    let here = Here::find(&arguments.place, flags)?;
    let engine_config = drive::engine_config(&here, arguments.profiles.again()?)?;
    block_on(async {
        let (store, run) = here.find_run(&arguments.run).await?;
        here.with_run(
            &store,
            &run,
            Retrying { here: &here, store: &store, run: &run, engine_config, arguments },
        )
        .await
    })
}

struct Retrying<'a> {
    here: &'a Here,
    store: &'a AnyStore,
    run: &'a RunId,
    engine_config: EngineConfig,
    arguments: Arguments,
}

impl Deed for Retrying<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { here, store, run, engine_config, arguments } = self;
        let mut journal = here.load::<P>(store, run).await?;
        let named = |step: &String| face::step::<P>(run, &journal.spec.definition, step);
        let step = arguments.step.as_ref().map(named).transpose()?;
        let request = Request::Retry { step };
        wish::refuse_agents(&mut journal, "retry", &request).await?;
        if !P::RETRIES {
            let what =
                format!("a {} of a `{}` run is not tried again once it has failed", P::STEP.0, P::NAME);
            return Err(Failure::new(Exit::Refused, what)
                .while_doing(format_args!("cannot retry run `{run}`"))
                .code(Code::Refused)
                .hint(P::after_failure(run, &journal.document)));
        }
        if wish::engine_of(store, run).await?.is_some() {
            let wish = Wish::<P> { doing: "retry".to_owned(), request, reason: arguments.reason };
            let taken = wish.make(here, store, run).await?;
            wish::tell_who_goes_on(run, &taken);
            return Ok(Exit::Success);
        }
        drive::is_staged_here(here, store, run, &engine_config.options(&journal.spec.options))?;
        let asked = EngineRequest { request, by: Some(here::person()), reason: arguments.reason };
        drive::drive::<P>(here, store, engine_config, run, asked, &arguments.show).await
    }
}
