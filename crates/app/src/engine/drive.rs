//! Drives a run until it ends, and says how to continue it.

use std::cell::Cell;

use protocol::run::{Refusal, RunStatus, RunStopCause};
use protocol::{Outcome, ProtocolInfo, RunId};
use runner::{Engine, EngineConfig, EngineError, EngineExit, EngineRequest};
use store::{AnyStore, LockPurpose};

use super::interrupts::{forced_exit_failure, forward_interrupts, interrupts};
use super::{EngineArgs, refuse_other_agents, with_local_dir};
use crate::control::emergency_copy::save_if_store_is_gone;
use crate::engine::notify::{EngineObserver, Notifier};
use crate::engine::progress::Progress;
use crate::failure::{Code, Exit, Failure};
use crate::learnings;
use crate::output;
use crate::query::inbox;
use crate::workspace::{self, Workspace};

/// Drives a run until it is stopped or finished, and prints the result.
pub(crate) async fn drive(
    workspace: &Workspace,
    store: &AnyStore,
    engine_config: EngineConfig,
    run: &RunId,
    request: EngineRequest,
    args: &EngineArgs,
) -> Result<Exit, Failure> {
    // The run continues if the reader of our output is gone.
    output::ignore_write_errors();
    let progress = Progress::new(workspace, run, args.json);
    let mut observer = EngineObserver { progress, notifier: Notifier::new(workspace, store) };
    let overrides = engine_config.overrides.clone();
    let mut engine_config = with_local_dir(engine_config, store)?;
    engine_config.overrides.exit_when_waiting = args.exit_when_waiting;
    let engine = Engine::lock(store, engine_config, run, LockPurpose::Engine, &mut observer).await;
    let engine = engine?;
    if let Err(failure) = refuse_other_agents(&overrides, engine.journal()) {
        engine.release().await;
        return Err(failure);
    }
    let info = engine.journal().kind().info();
    let options = engine.journal().spec.options.clone();
    let failure_hint = engine.journal().machine().failure_hint(run);
    let had_succeeded = engine.journal().state.run.status == RunStatus::Finished(Outcome::Succeeded);
    let was_interrupted = Cell::new(false);
    let (interrupts, forced_exit) = forward_interrupts(interrupts()?, &was_interrupted);
    let exit = tokio::select! {
        exit = engine.drive_to_exit(request, interrupts) => exit,
        () = forced_exit => {
            observer.progress.clear();
            return Err(forced_exit_failure(run));
        }
    };
    let EngineObserver { mut progress, mut notifier } = observer;
    progress.clear();
    let (exit, run_at) = match exit {
        Ok(exited) => exited,
        Err(error) => {
            notifier.finish().await;
            // The previous engine may have been killed between its last commit and the removal of the worktrees.
            if had_succeeded && matches!(error, EngineError::Refused(_)) {
                workspace::worktrees::clean_up(&options);
            }
            let failure = drive_failure(run, info, error, failure_hint);
            let failure = with_resume_hint(run, failure, was_interrupted.get());
            return Err(save_if_store_is_gone(workspace, store, failure));
        }
    };
    inbox::of_ended_run(&run_at).iter().for_each(|item| notifier.notify(item));
    progress.show_result(store, &run_at, exit);
    learnings::add_ended(store, &run_at);
    if exit == EngineExit::Finished(Outcome::Succeeded) {
        workspace::worktrees::clean_up(&options);
    }
    notifier.finish().await;
    Ok(exit_code(exit))
}

/// Returns the exit code for the result of a run.
pub(crate) fn exit_code(exit: EngineExit) -> Exit {
    match exit {
        EngineExit::Finished(Outcome::Succeeded) => Exit::Success,
        EngineExit::Finished(Outcome::Incomplete | Outcome::Failed) => Exit::Failed,
        EngineExit::Stopped(RunStopCause::EngineInterrupted | RunStopCause::Requested)
        | EngineExit::AttemptsLeftAlive => Exit::Interrupted,
        EngineExit::Remote | EngineExit::Waiting => Exit::NeedsPerson,
    }
}

fn drive_failure(run: &RunId, info: &ProtocolInfo, error: EngineError, failure_hint: String) -> Failure {
    let context = format!("cannot continue run `{run}`");
    let hint = match &error {
        EngineError::Refused(Refusal::Incomplete | Refusal::Failed) => failure_hint,
        EngineError::Refused(Refusal::NothingFailed | Refusal::NotFailed(_)) => {
            format!("run `callboard show {run}` to see its steps, or `callboard resume {run}` to continue")
        }
        EngineError::Refused(_) => {
            format!(
                "run `callboard log {run}` to see its journal, or `{}` to start a new run",
                info.start_command
            )
        }
        EngineError::NothingToAbandon { .. } => return Failure::from(error).context(context),
        _ => return error.into(),
    };
    Failure::from(error).context(context).hint(hint)
}

/// Suggests `resume` after the servers were lost during a run: repeating the command might start another run. Says
/// whether an interrupt could not be committed.
fn with_resume_hint(run: &RunId, mut failure: Failure, was_interrupted: bool) -> Failure {
    match failure.code {
        Some(Code::NoServer) => {
            failure.hints.clear();
            let agents = if was_interrupted {
                "the interrupt was not recorded, so agents continue"
            } else {
                "nothing is lost, and agents continue"
            };
            failure.hint(format_args!("run `callboard resume {run}` when the servers answer; {agents}"))
        }
        Some(Code::NoStream) if was_interrupted => {
            failure.hint("the interrupt was not recorded, so agents continue")
        }
        _ => failure,
    }
}
