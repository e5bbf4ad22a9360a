//! `callboard resume [RUN | --all]`.

mod following;

use std::ffi::OsString;

use protocol::run::{Request, RunStatus, RunStopCause};
use protocol::{RunId, StepId, StepKind};
use runner::{EngineConfig, EngineRequest, Journal};
use store::{AnyStore, EngineHolder, NatsAuth, RunListing};

use self::following::{follow, may_wait_for_lock, remote_engine};
use super::block_on;
use crate::config::Flags;
use crate::control::restore;
use crate::control::{self, ControlRequest};
use crate::engine::process;
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::workspace::{self, LocationArgs, Workspace};

/// Continue a run: adopt agents that are still running, start the steps that are ready
///
/// The flags of `run` stay in force; flags given here replace them while this command runs. Without RUN, the only
/// unfinished run is resumed.
///
/// On a store that several machines share, an engine on another host may drive the run. Then this command follows it as
/// `watch` does, and takes over when that engine ends before the run does. Agents on another host are not touched; if
/// nothing else can be done, this command lists them and ends with exit code 4.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard resume
  callboard resume f8c1a491 --jobs 2
  callboard resume --all                    # after a reboot
  callboard resume f8c1a491 --abandon-host build-2 --reason 'its disk died'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: Option<String>,

    /// Restore a damaged document from the journal, even if later changes are lost
    #[arg(long, conflicts_with = "all")]
    recover: bool,

    /// Give up a host that does not come back: its attempts count as interrupted and are started again here
    #[arg(long, value_name = "HOST", conflicts_with = "all")]
    abandon_host: Option<String>,

    /// Resume every interrupted run, each in the background; one that was being stopped is stopped
    #[arg(long, conflicts_with_all = ["run", "detach"])]
    all: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    engine: EngineArgs,

    /// Run in the background and return at once
    #[arg(long)]
    detach: bool,

    /// Fail at once if an engine on another host has the run: the starting process waits for our engine lock
    #[arg(long = "at-once", hide = true)]
    fail_at_once: bool,

    /// Read the credentials of the store from standard input: the starting process had them in an address
    #[arg(long, hide = true)]
    access_from_stdin: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.engine.jobs, ..Flags::default() };
    let mut workspace = Workspace::find(&arguments.location, flags)?;
    if let (true, Some(settings)) = (arguments.access_from_stdin, &mut workspace.nats) {
        settings.auth = access_from_stdin()?;
    }
    let abandoned = arguments.abandon_host.as_ref().map(|host| runner::AbandonedHost {
        host: host.clone(),
        by: workspace::person_author(),
        reason: arguments.reason.clone(),
    });
    let overrides =
        runner::Overrides { recover: arguments.recover, abandoned, ..arguments.profiles.overrides()? };
    let engine_config = engine::engine_config(&workspace, overrides)?;
    block_on(async {
        if arguments.all {
            return resume_all(&workspace, &engine_config, &arguments).await;
        }
        let (store, run) = workspace.find_run_or_only(arguments.run.as_deref(), "resume").await?;
        resume(&workspace, &store, &run, engine_config, arguments).await
    })
}

/// Reads the credentials that the starting process writes before it closes the pipe.
fn access_from_stdin() -> Result<NatsAuth, Failure> {
    let userinfo = std::io::read_to_string(std::io::stdin())
        .map_err(|error| Failure::usage("cannot read standard input").because(Some(&error)))?;
    Ok(NatsAuth::from_userinfo(&userinfo))
}

/// Resumes one run.
pub(super) async fn resume(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    engine_config: EngineConfig,
    arguments: Arguments,
) -> Result<Exit, Failure> {
    let restored = restore::restore_document(workspace, store, &engine_config, run).await?;
    let mut journal = workspace.load(store, run).await?;
    if restored && matches!(journal.state.run.status, RunStatus::Finished(_)) {
        output::message(format_args!("run `{run}` has ended; there is nothing to resume"));
        return Ok(Exit::Success);
    }
    control::refuse_inside_attempt_and_record(&mut journal, "resume", &Request::Resume).await?;
    engine::require_known_roles_of_run(&engine_config, &journal)?;
    // The engine of a paused run may be alive. Then it only needs the request, but it cannot take new flags.
    let paused = journal.state.run.status == RunStatus::Paused;
    let new_engine_flags = arguments.new_engine_flags();
    if paused
        && !new_engine_flags.is_empty()
        && let Some(holder) = control::live_engine_of(store, run).await?
    {
        return Err(cannot_follow_flags(run, &holder, &new_engine_flags));
    }
    if paused && new_engine_flags.is_empty() && control::engine_of(store, run).await?.is_some() {
        let control = ControlRequest {
            action: "resume".to_owned(),
            request: Request::Resume,
            reason: arguments.reason,
        };
        let handled_by = control.submit(workspace, store, run).await?;
        control::note_how_run_continues(run, &handled_by);
        return Ok(Exit::Success);
    }
    control::refuse_while_engine_runs(store, &journal, "resume").await?;
    engine::check_repository_here(workspace, store, run, &engine_config.options(&journal.spec.options))?;
    require_profiles(&engine_config, &journal)?;
    let request = EngineRequest::to_resume(Some(workspace::request_reason(arguments.reason.as_deref())));
    loop {
        if let Some(holder) = remote_engine(store, run).await?
            && let Some(exit) = follow(workspace, store, run, holder, &arguments).await?
        {
            return Ok(exit);
        }
        if arguments.detach {
            return engine::detach(workspace, store, run, &arguments.engine, arguments.flags()).await;
        }
        let (engine_config, request) = (engine_config.clone(), request.clone());
        match engine::drive(workspace, store, engine_config, run, request, &arguments.engine).await {
            // Another waiting host took the engine lock first.
            Err(failure)
                if failure.code == Some(Code::EngineLockHeld) && may_wait_for_lock(store, run).await? => {}
            result => return result,
        }
    }
}

/// Fails if a step that would start now has no agent profile: otherwise the journal would record an attempt that never ran.
/// Adopting a running agent needs no profile, so nothing is checked while a turn is active.
fn require_profiles(engine_config: &EngineConfig, journal: &Journal) -> Result<(), Failure> {
    let (run, machine) = (&journal.state.run, journal.machine());
    if !run.active_turns.is_empty() || matches!(run.status, RunStatus::Finished(_)) {
        return Ok(());
    }
    let is_done = |step: &StepId| machine.unblocks_dependents(step);
    let has_agent = |step: &StepId| match machine.step_kind(step) {
        StepKind::Agent => true,
        // The engine runs the checks of a command step itself.
        StepKind::Command | StepKind::Person | StepKind::Effect => false,
    };
    let is_ready = |step: &StepId| !is_done(step) && machine.needs(step).iter().all(is_done);
    let options = engine_config.options(&journal.spec.options);
    let ready = machine.steps().into_iter().filter(|step| has_agent(step) && is_ready(step));
    let ready: Vec<_> = ready.map(|step| (machine.agent(&step), step)).collect();
    let ready = ready.iter().map(|(agent, step)| (step, agent.as_str()));
    engine::require_profiles(engine_config, &options, journal.kind().info().name, ready)
}

impl Arguments {
    /// The arguments for a run that another command has chosen.
    pub(super) fn with_flags(
        engine: EngineArgs,
        detach: bool,
        location: LocationArgs,
        profiles: AgentFlags,
    ) -> Self {
        let (run, reason, abandon_host) = (None, None, None);
        let (all, recover, fail_at_once, access_from_stdin) = (false, false, false, false);
        Self {
            run,
            all,
            recover,
            abandon_host,
            reason,
            engine,
            detach,
            fail_at_once,
            access_from_stdin,
            location,
            profiles,
        }
    }

    /// The flags of an engine in the background.
    fn flags(&self) -> Vec<OsString> {
        let mut flags = self.profiles.as_arguments();
        flags.extend(self.recover.then(|| "--recover".into()));
        flags.extend(self.abandon_host.iter().flat_map(|host| ["--abandon-host".into(), host.into()]));
        flags.extend(self.reason.iter().flat_map(|reason| ["--reason".into(), reason.into()]));
        flags
    }

    /// Returns the flags that only a new engine can follow. `--recover` is not one of them: a document that could be loaded
    /// needs no repair.
    fn new_engine_flags(&self) -> Vec<String> {
        let engine_flags = [
            (self.engine.jobs.is_some(), "--jobs"),
            (self.engine.exit_when_waiting, "--exit-when-waiting"),
            (self.abandon_host.is_some(), "--abandon-host"),
        ];
        let engine_flags = engine_flags.into_iter().filter(|(given, _)| *given);
        let mut flags: Vec<_> = engine_flags.map(|(_, flag)| format!("`{flag}`")).collect();
        // The arguments are pairs of a flag and its value.
        let agent_flags = self.profiles.as_arguments().into_iter().step_by(2);
        flags.extend(agent_flags.map(|flag| format!("`{}`", flag.display())));
        flags.dedup();
        flags
    }
}

/// The refusal of flags for a paused run, whose engine is alive and continues with its own.
fn cannot_follow_flags(run: &RunId, holder: &EngineHolder, flags: &[String]) -> Failure {
    let (pid, host) = (holder.pid, Some(holder.host.as_str()).filter(|_| !holder.is_local()));
    let (flags, engine) = (flags.join(", "), process::process_name(pid, host));
    let there = host.map(|host| format!(" on `{host}`")).unwrap_or_default();
    Failure::new(Exit::Refused, format!("its engine, {engine}, is alive and continues without {flags}"))
        .code(Code::Refused)
        .hint(format_args!("run `callboard resume {run}` to continue it as it is"))
        .hint(format_args!(
            "or run `kill {pid}`{there} to end the engine and its agents, then the same command again"
        ))
        .context(format_args!("cannot resume run `{run}`"))
}

/// Starts an engine for each interrupted run. A run that cannot be resumed does not stop the others.
async fn resume_all(
    workspace: &Workspace,
    engine_config: &EngineConfig,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let store = workspace.existing_store().await?;
    let rows = match &store {
        Some(store) => store.runs().await?,
        None => Vec::new(),
    };
    let Some(store) = store.filter(|_| rows.iter().any(is_interrupted)) else {
        output::note("no interrupted runs; run `callboard ls --unfinished` to list those that wait for you");
        return Ok(Exit::Success);
    };
    let mut worst = Exit::Success;
    for row in rows.iter().filter(|row| is_interrupted(row)) {
        match resume_in_background(workspace, &store, &row.run, engine_config, arguments).await {
            Ok(()) => {}
            // An agent is refused for every run.
            Err(failure) if failure.code == Some(Code::InsideAttempt) => return Err(failure),
            Err(failure) => {
                worst = std::cmp::max_by_key(worst, failure.exit, |exit| exit.code());
                output::failure(&failure);
            }
        }
    }
    Ok(worst)
}

/// Resumes an interrupted run in the background. Completes the stop of one that a user has stopped.
async fn resume_in_background(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    engine_config: &EngineConfig,
    arguments: &Arguments,
) -> Result<(), Failure> {
    restore::restore_document(workspace, store, engine_config, run).await?;
    let mut journal = workspace.load(store, run).await?;
    control::refuse_inside_attempt_and_record(&mut journal, "resume", &Request::Resume).await?;
    engine::require_known_roles_of_run(engine_config, &journal)
        .map_err(|failure| failure.context(format_args!("cannot resume run `{run}`")))?;
    if control::engine_of(store, run).await?.is_none() {
        if let Err(failure) = engine::check_repository_here(
            workspace,
            store,
            run,
            &engine_config.options(&journal.spec.options),
        ) {
            // `resume --all` in that repository or on that host resumes it.
            output::note(format_args!("{}; resume it there", failure.message));
            return Ok(());
        }
        // A user has stopped the run, and its engine ended before its agents.
        if journal.state.run.status == RunStatus::Stopping(RunStopCause::Requested) {
            let reason = arguments.reason.clone();
            let control = ControlRequest { action: "stop".to_owned(), request: Request::Stop, reason };
            control.submit_and_wait(workspace, store, run).await?;
            output::note(format_args!(
                "run `{run}` was being stopped and is stopped now; run `callboard resume {run}` to continue it"
            ));
            return Ok(());
        }
        engine::detach(workspace, store, run, &arguments.engine, arguments.flags()).await?;
    }
    Ok(())
}

/// Returns whether the run would continue, or would be stopped by now, if its engine had not ended. Paused and stopped
/// runs wait for a person.
fn is_interrupted(row: &RunListing) -> bool {
    match workspace::summary(row).map(|summary| summary.status) {
        Some(
            RunStatus::Running
            | RunStatus::Stopping(_)
            | RunStatus::Stopped(RunStopCause::EngineInterrupted)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_),
        ) => true,
        Some(RunStatus::Paused | RunStatus::Stopped(RunStopCause::Requested) | RunStatus::Finished(_))
        | None => false,
    }
}
