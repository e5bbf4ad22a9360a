//! `callboard retry RUN [STEP]`, `callboard retry RUN --from STEP`.

use std::path::PathBuf;

use protocol::ProtocolInfo;
use protocol::run::Request;
use runner::EngineRequest;

use super::block_on;
use super::run::start_at::{self, ChangePolicy};
use crate::config::Flags;
use crate::control::start_again::start_again;
use crate::control::{self, ControlRequest};
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Code, Exit, Failure};
use crate::present;
use crate::workspace::definition::WorkflowFiles;
use crate::workspace::{self, LocationArgs, Workspace, worktrees};

/// Retry failed steps: one, or all of them
///
/// A run that has ended is opened again. If the run has no engine, this command becomes its engine, as `resume` does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard retry f8c1a491
  callboard retry f8c1a491 code --reason 'the API is back'
  callboard retry f8c1a491 --from review     # the step and everything after it, whatever their status
  callboard retry f8c1a491 --from review --workflow wf.yaml --accept-changes")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The step [default: every failed step]
    step: Option<String>,

    /// Do this step and everything after it again, whatever their status
    #[arg(long, value_name = "STEP", conflicts_with = "step")]
    from: Option<String>,

    /// With --from: the workflow file, to compare with what the run was started with
    #[arg(long, value_name = "WORKFLOW", requires = "from")]
    workflow: Option<PathBuf>,

    /// With --workflow: if it has changed, show how, and continue in a new run with the new version
    #[arg(long, requires = "workflow")]
    accept_changes: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

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
        if let Some(step) = &arguments.from {
            let reason = arguments.reason;
            let run = match &arguments.workflow {
                Some(file) => {
                    let policy = ChangePolicy::of_flag(arguments.accept_changes);
                    let files = WorkflowFiles::read(&workspace, file)?;
                    let new = start_at::NewVersion { file, files, policy };
                    start_at::reuse_or_create_run(&workspace, &store, run, new, step, &engine_config).await?
                }
                None => run,
            };
            return start_again(&workspace, &store, &run, step, reason, engine_config, &arguments.engine)
                .await;
        }
        let mut journal = workspace.load(&store, &run).await?;
        let find_step = |step: &String| present::find_step(&run, journal.machine(), step);
        let step = arguments.step.as_ref().map(find_step).transpose()?;
        let request = Request::Retry { step };
        control::refuse_inside_attempt_and_record(&mut journal, "retry", &request).await?;
        engine::require_known_roles_of_run(&engine_config, &journal)?;
        let ProtocolInfo { name, step_nouns: (step_noun, _), can_retry, .. } = journal.kind().info();
        if !can_retry {
            let what = format!("a failed {step_noun} of a `{name}` run cannot be retried");
            return Err(Failure::new(Exit::Refused, what)
                .context(format_args!("cannot retry run `{run}`"))
                .code(Code::Refused)
                .hint(journal.machine().failure_hint(&run)));
        }
        if control::engine_of(&store, &run).await?.is_some() {
            let control = ControlRequest { action: "retry".to_owned(), request, reason: arguments.reason };
            let handled_by = control.submit(&workspace, &store, &run).await?;
            control::note_how_run_continues(&run, &handled_by);
            return Ok(Exit::Success);
        }
        engine::check_repository_here(
            &workspace,
            &store,
            &run,
            &engine_config.options(&journal.spec.options),
        )?;
        // Fails unless this is the newest run on its branch. The lease is dropped at once: no second run can pass this
        // check, so two retries never work on the same branch.
        drop(worktrees::lease(&store, journal.kind(), &journal.spec.options).await?);
        let engine_request =
            EngineRequest { request, by: Some(workspace::person_author()), reason: arguments.reason };
        engine::drive(&workspace, &store, engine_config, &run, engine_request, &arguments.engine).await
    })
}
