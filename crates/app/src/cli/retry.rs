//! `callboard retry RUN [STEP]`.

use protocol::RunId;
use protocol::run::Request;
use runner::{EngineConfig, EngineRequest};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::control::{self, ControlRequest};
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, Show};
use crate::failure::{Code, Exit, Failure};
use crate::present::{self, Deed, Presentation};
use crate::workspace::{self, LocationArgs, Workspace};

/// Retry failed steps: one, or all of them
///
/// A run that has ended is opened again. If the run has no engine, this command becomes its engine, as `resume` does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard retry f8c1a491
  callboard retry f8c1a491 code --reason 'the API is back'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of its cycle
    run: String,

    /// The step [default: every failed step]
    step: Option<String>,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    show: Show,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.show.jobs, ..Flags::default() };
    let workspace = Workspace::find(&arguments.location, flags)?;
    let engine_config = engine::engine_config(&workspace, arguments.profiles.again()?)?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        workspace
            .with_run(
                &store,
                &run,
                Retrying { workspace: &workspace, store: &store, run: &run, engine_config, arguments },
            )
            .await
    })
}

struct Retrying<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    engine_config: EngineConfig,
    arguments: Arguments,
}

impl Deed for Retrying<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { workspace, store, run, engine_config, arguments } = self;
        let mut journal = workspace.load::<P>(store, run).await?;
        let named = |step: &String| present::step::<P>(run, &journal.spec.definition, step);
        let step = arguments.step.as_ref().map(named).transpose()?;
        let request = Request::Retry { step };
        control::refuse_agents(&mut journal, "retry", &request).await?;
        if !P::RETRIES {
            let what = format!("a failed {} of a `{}` run cannot be retried", P::STEP.0, P::NAME);
            return Err(Failure::new(Exit::Refused, what)
                .while_doing(format_args!("cannot retry run `{run}`"))
                .code(Code::Refused)
                .hint(P::after_failure(run, &journal.document)));
        }
        if control::engine_of(store, run).await?.is_some() {
            let control =
                ControlRequest::<P> { doing: "retry".to_owned(), request, reason: arguments.reason };
            let taken = control.make(workspace, store, run).await?;
            control::tell_who_goes_on(run, &taken);
            return Ok(Exit::Success);
        }
        engine::is_staged_here(workspace, store, run, &engine_config.options(&journal.spec.options))?;
        let asked = EngineRequest { request, by: Some(workspace::person()), reason: arguments.reason };
        engine::drive::<P>(workspace, store, engine_config, run, asked, &arguments.show).await
    }
}
