//! `callboard extend RUN TEXT`.

use protocol::cycle::{Cycle, Request as CycleRequest};
use protocol::run::{Request, RunStatus, consider};
use protocol::{Protocol as _, RunId};
use runner::{EngineError, EngineRequest};

use super::block_on;
use crate::config::Flags;
use crate::control::{self, ControlRequest};
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::workspace::{self, LocationArgs, Workspace};

/// Extend a run of `cycle`: another iteration with more requirements
///
/// A running or paused run takes the extension up when its iteration has ended. A run that has ended is opened again, and
/// this command becomes its engine. At the iteration limit an extension is refused, unless --max-iterations raises it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard extend cycle-v1-20260122T100000-abc123 'Also add multi-factor authentication'
  callboard extend cycle-v1-2026 'Also add logout' --max-iterations 8")]
pub(super) struct Arguments {
    /// The run of `cycle`: its id, or a unique prefix of it
    run: String,

    /// What to add, in your own words
    text: String,

    /// Raise the iteration limit to N
    #[arg(long, value_name = "N")]
    max_iterations: Option<u32>,

    #[command(flatten)]
    engine: EngineArgs,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.engine.jobs, ..Flags::default() };
    let workspace = Workspace::find(&arguments.location, flags)?;
    let engine_config = engine::engine_config(&workspace, arguments.profiles.overrides()?)?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        let mut journal = workspace.load(&store, &run).await?;
        let cycle_request =
            CycleRequest::Extend { text: arguments.text.clone(), max_iterations: arguments.max_iterations };
        let cycle_request = serde_json::to_value(&cycle_request).expect("BUG: a request is plain data");
        let request = Request::Protocol(cycle_request);
        // First, because the journal of another protocol cannot record this request.
        let name = journal.kind().info().name;
        if name != Cycle::NAME {
            return Err(not_a_cycle(&run, name));
        }
        control::refuse_inside_attempt_and_record(&mut journal, "extend", &request).await?;
        let is_over = matches!(journal.state.run.status, RunStatus::Finished(_));
        if !is_over || control::engine_of(&store, &run).await?.is_some() {
            let control = ControlRequest { action: "extend".to_owned(), request, reason: None };
            let handled_by = control.submit(&workspace, &store, &run).await.map_err(with_limit_hint)?;
            output::message(format_args!("the extension of `{run}` begins with its next iteration"));
            control::note_how_run_continues(&run, &handled_by);
            return Ok(Exit::Success);
        }
        let options = engine_config.options(&journal.spec.options);
        engine::check_repository_here(&workspace, &store, &run, &options)?;
        let engine_request = EngineRequest { request, by: Some(workspace::person_author()), reason: None };
        // Decided here first, because a refusal by the engine would say that it cannot continue the run.
        let mut extended = journal.state.run.clone();
        if let Err(refused) = consider(&mut extended, &engine_request.request) {
            let failure = Failure::from(EngineError::from(refused));
            return Err(with_limit_hint(failure.context(format_args!("cannot extend run `{run}`"))));
        }
        engine::drive(&workspace, &store, engine_config, &run, engine_request, &arguments.engine).await
    })
}

fn not_a_cycle(run: &RunId, protocol: &str) -> Failure {
    Failure::new(Exit::Refused, format!("it is a `{protocol}` run, and only runs of `cycle` can be extended"))
        .context(format_args!("cannot extend run `{run}`"))
        .code(Code::Refused)
}

/// Adds a hint if the failure is about the iteration limit.
fn with_limit_hint(failure: Failure) -> Failure {
    let is_at_limit = failure.causes.iter().chain([&failure.message]).any(|text| text.contains("limit of"));
    if is_at_limit { failure.hint("raise the limit with `--max-iterations N`") } else { failure }
}
