//! Starts a run of a workflow again at one of its steps.

use protocol::RunId;
use protocol::run::Request;
use protocol::steps;
use runner::{EngineConfig, EngineRequest, Journal, RequestError};
use store::AnyStore;

use crate::control;
use crate::engine::{self, EngineArgs};
use crate::failure::{Code, Exit, Failure};
use crate::present;
use crate::workspace::{self, Workspace, worktrees};

/// Resets the step and everything after it, and drives the run. Refused if the run has an engine.
pub(crate) async fn start_again(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    step: &str,
    reason: Option<String>,
    engine_config: EngineConfig,
    args: &EngineArgs,
) -> Result<Exit, Failure> {
    let mut journal = workspace.load(store, run).await?;
    let context = format!("cannot start run `{run}` again at `{step}`");
    let protocol = journal.kind().info().name;
    if protocol != <steps::Steps as protocol::Protocol>::NAME {
        let what = format!("a `{protocol}` run cannot start again at a step");
        return Err(Failure::new(Exit::Refused, what)
            .context(context)
            .code(Code::Refused)
            .hint(journal.machine().failure_hint(run)));
    }
    let step = present::find_step(run, journal.machine(), step)?;
    let request = serde_json::to_value(steps::Request::StartAt(step)).expect("BUG: a request is plain data");
    let request = Request::Protocol(request);
    require_startable(workspace, store, &mut journal, &request, &engine_config).await?;
    if let Some(holder) = control::engine_of(store, run).await? {
        let what =
            format!("run `{run}` is running: its engine is process {} on `{}`", holder.pid, holder.host);
        return Err(Failure::new(Exit::Refused, what)
            .context(context)
            .hint(format_args!("run `callboard stop {run}` first")));
    }
    let lease = worktrees::lease(store, journal.kind(), &journal.spec.options).await?;
    runner::request(&mut journal, workspace::person_author(), request, reason).await.map_err(|error| {
        match error {
            RequestError::Refused(why) => {
                Failure::new(Exit::Refused, why).context(context).code(Code::Refused)
            }
            other => Failure::from(other),
        }
    })?;
    control::report_early_answers(&mut journal);
    // The request is in the store, where other runs find this one unfinished and leave its branch alone.
    drop(lease);
    engine::drive(workspace, store, engine_config, run, EngineRequest::to_resume(None), args).await
}

/// Fails if this command may not start the run again here, or not with these agents.
pub(crate) async fn require_startable(
    workspace: &Workspace,
    store: &AnyStore,
    journal: &mut Journal,
    request: &Request,
    engine_config: &EngineConfig,
) -> Result<(), Failure> {
    control::refuse_inside_attempt_and_record(journal, "start again", request).await?;
    engine::require_known_roles_of_run(engine_config, journal)?;
    engine::refuse_other_agents(&engine_config.overrides, journal)?;
    let options = engine_config.options(&journal.spec.options);
    engine::check_repository_here(workspace, store, &journal.run, &options)
}
