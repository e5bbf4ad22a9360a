//! `callboard resume [RUN | --all]`.

mod following;

use std::ffi::OsString;

use protocol::RunId;
use protocol::run::{Request, RunStatus, StopCause};
use runner::{EngineConfig, EngineRequest, Journal};
use store::{Access, AnyStore, RunRow, Store as _};

use self::following::{follow, may_be_free_soon, remote};
use super::block_on;
use crate::config::Flags;
use crate::control::restore;
use crate::control::{self, ControlRequest};
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Code, Exit, Failure};
use crate::output;
use crate::present::{self, Deed, Presentation};
use crate::workspace::{self, LocationArgs, Workspace};

/// Go on with a run: adopt agents that are still at work, start what is due
///
/// What `run` was given holds; flags given here replace it for as long as this command runs. Without RUN it resumes
/// the only unfinished run.
///
/// On a store that several machines share: while an engine on another host leads the run, this follows it as `watch`
/// does, and takes over when that engine leads no more and the run does not rest. Agents on another host are left to it;
/// when nothing else is to be done, this ends with 4 and says who is where.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard resume
  callboard resume f8c1a491 --jobs 2
  callboard resume --all                    # after a reboot; each run in the background
  callboard resume f8c1a491 --abandon-host build-2 --reason 'its disk died'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: Option<String>,

    /// Put back a document that is not what was written, even if what came after it is lost
    #[arg(long, conflicts_with = "all")]
    recover: bool,

    /// Count the agents on this host as interrupted: it does not come back. They are tried again, here; it costs no attempt
    #[arg(long, value_name = "HOST", conflicts_with = "all")]
    abandon_host: Option<String>,

    /// Every run that nobody stopped or paused, each in the background
    #[arg(long, conflicts_with_all = ["run", "detach"])]
    all: bool,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    show: EngineArgs,

    /// Go on in the background and return at once
    #[arg(long)]
    detach: bool,

    /// Do not follow an engine on another host: whoever started us waits until we lead
    #[arg(long, hide = true)]
    at_once: bool,

    /// Read from standard input what has to be said to the store: whoever started us was told it in an address
    #[arg(long, hide = true)]
    access_from_stdin: bool,

    #[command(flatten)]
    place: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags = Flags { jobs: arguments.show.jobs, ..Flags::default() };
    let mut workspace = Workspace::find(&arguments.place, flags)?;
    if let (true, Some(settings)) = (arguments.access_from_stdin, &mut workspace.nats) {
        settings.access = access_from_stdin()?;
    }
    let abandoned = arguments.abandon_host.as_ref().map(|host| runner::Abandoned {
        host: host.clone(),
        by: workspace::person(),
        reason: arguments.reason.clone(),
    });
    let again =
        runner::Overrides { recover: arguments.recover, abandoned, ..arguments.profiles.overrides()? };
    let engine_config = engine::engine_config(&workspace, again)?;
    block_on(async {
        if arguments.all {
            return all(&workspace, &engine_config, &arguments).await;
        }
        let (store, run) = workspace.find_run_or_only(arguments.run.as_deref(), "resume").await?;
        workspace
            .with_run(
                &store,
                &run,
                Resuming { workspace: &workspace, store: &store, run: &run, engine_config, arguments },
            )
            .await
    })
}

/// Whoever started us writes it and closes the pipe.
fn access_from_stdin() -> Result<Access, Failure> {
    let words = std::io::read_to_string(std::io::stdin())
        .map_err(|error| Failure::usage("cannot read standard input").because(Some(&error)))?;
    Ok(Access::of_words(&words))
}

/// Goes on with a run that another command has found.
pub(super) async fn go_on<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    engine_config: EngineConfig,
    arguments: Arguments,
) -> Result<Exit, Failure> {
    Resuming { workspace, store, run, engine_config, arguments }.with::<P>().await
}

struct Resuming<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    engine_config: EngineConfig,
    arguments: Arguments,
}

impl Deed for Resuming<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { workspace, store, run, engine_config, arguments } = self;
        let restored = restore::restore::<P>(workspace, store, &engine_config, run).await?;
        let mut journal = workspace.load::<P>(store, run).await?;
        if restored && matches!(journal.state.run.status, RunStatus::Finished(_)) {
            output::message(format_args!("run `{run}` has ended; there is nothing to go on with"));
            return Ok(Exit::Success);
        }
        control::refuse_agents(&mut journal, "resume", &Request::Resume).await?;
        // A paused run may have its engine: then that only has to be told.
        let paused = journal.state.run.status == RunStatus::Paused;
        if paused && control::engine_of(store, run).await?.is_some() {
            let control = ControlRequest::<P> {
                action: "resume".to_owned(),
                request: Request::Resume,
                reason: arguments.reason,
            };
            let taken = control.submit(workspace, store, run).await?;
            control::note_who_continues(run, &taken);
            return Ok(Exit::Success);
        }
        engine::check_repository_here(workspace, store, run, &engine_config.options(&journal.spec.options))?;
        has_profile(&engine_config, &journal)?;
        let asked = EngineRequest::to_resume(Some(workspace::request_reason(arguments.reason.as_deref())));
        loop {
            if let Some(holder) = remote(store, run).await?
                && let Some(exit) = follow::<P>(workspace, store, run, holder, &arguments).await?
            {
                return Ok(exit);
            }
            if arguments.detach {
                return engine::detach(workspace, store, run, &arguments.show, arguments.flags()).await;
            }
            let (engine_config, asked) = (engine_config.clone(), asked.clone());
            match engine::drive::<P>(workspace, store, engine_config, run, asked, &arguments.show).await {
                // Of several who waited for it, another host was first.
                Err(failure) if failure.code == Some(Code::Held) && may_be_free_soon(store, run).await? => {}
                played => return played,
            }
        }
    }
}

/// Whoever is asked next must have a profile, or the journal would tell of an attempt that began and never was. Somebody
/// who is at work needs none to be adopted, so then nothing is asked before.
fn has_profile<P: Presentation>(
    engine_config: &EngineConfig,
    journal: &Journal<P, AnyStore>,
) -> Result<(), Failure> {
    let (run, definition) = (&journal.state.run, &journal.spec.definition);
    if !run.active_turns.is_empty() || matches!(run.status, RunStatus::Finished(_)) {
        return Ok(());
    }
    let unblocks_dependents = |step: &P::Step| P::unblocks_dependents(definition, &run.state, step);
    let is_next = |step: &P::Step| {
        !unblocks_dependents(step) && P::needs(definition, step).iter().all(unblocks_dependents)
    };
    let options = engine_config.options(&journal.spec.options);
    for step in P::steps(definition).iter().filter(|step| is_next(step)) {
        let agent = P::agent(definition, step);
        if engine_config.profile(&options, &agent).is_none() {
            return Err(engine::no_profile(&agent, P::step_id(step).as_str()));
        }
    }
    Ok(())
}

impl Arguments {
    /// As another command was given them, for a run that it names itself.
    pub(super) fn like(show: EngineArgs, detach: bool, place: LocationArgs, profiles: AgentFlags) -> Self {
        let (run, reason, abandon_host) = (None, None, None);
        let (all, recover, at_once, access_from_stdin) = (false, false, false, false);
        Self {
            run,
            all,
            recover,
            abandon_host,
            reason,
            show,
            detach,
            at_once,
            access_from_stdin,
            place,
            profiles,
        }
    }

    /// What the engine in the background is to be given.
    fn flags(&self) -> Vec<OsString> {
        let mut flags = self.profiles.as_arguments();
        flags.extend(self.recover.then(|| "--recover".into()));
        flags.extend(self.abandon_host.iter().flat_map(|host| ["--abandon-host".into(), host.into()]));
        flags.extend(self.reason.iter().flat_map(|reason| ["--reason".into(), reason.into()]));
        flags
    }
}

/// Starts an engine for each run that was cut off. One that cannot go on does not keep the others from it.
async fn all(
    workspace: &Workspace,
    engine_config: &EngineConfig,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let store = workspace.existing_store().await?;
    let rows = match &store {
        Some(store) => store.runs().await?,
        None => Vec::new(),
    };
    let Some(store) = store.filter(|_| rows.iter().any(was_cut_off)) else {
        output::note("no run was cut off; `callboard ls --unfinished` lists those that wait for you");
        return Ok(Exit::Success);
    };
    let mut worst = Exit::Success;
    for row in rows.iter().filter(|row| was_cut_off(row)) {
        let run = &row.run;
        let again = Again { workspace, store: &store, run, engine_config, arguments };
        match present::by_name(&row.protocol, run, again).await {
            Ok(()) => {}
            // Nor would it be let near any other run.
            Err(failure) if failure.code == Some(Code::FromInside) => return Err(failure),
            Err(failure) => {
                worst = failure.exit;
                output::failure(&failure);
            }
        }
    }
    Ok(worst)
}

/// To go on in the background with a run that was cut off.
struct Again<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    engine_config: &'a EngineConfig,
    arguments: &'a Arguments,
}

impl Deed for Again<'_> {
    type Done = ();

    async fn with<P: Presentation>(self) -> Result<(), Failure> {
        let Self { workspace, store, run, engine_config, arguments } = self;
        restore::restore::<P>(workspace, store, engine_config, run).await?;
        let mut journal = workspace.load::<P>(store, run).await?;
        control::refuse_agents(&mut journal, "resume", &Request::Resume).await?;
        if control::engine_of(store, run).await?.is_none() {
            if let Err(failure) = engine::check_repository_here(
                workspace,
                store,
                run,
                &engine_config.options(&journal.spec.options),
            ) {
                // Whoever types this in every repository and on every host reaches it there.
                output::note(format_args!("{}; it is left to be resumed there", failure.message));
                return Ok(());
            }
            engine::detach(workspace, store, run, &arguments.show, arguments.flags()).await?;
        }
        Ok(())
    }
}

/// Whether a run would go on if its engine had not ended. Whoever stopped or paused one wants it to wait.
fn was_cut_off(row: &RunRow) -> bool {
    match workspace::summary(row).map(|summary| summary.status) {
        Some(
            RunStatus::Running
            | RunStatus::Stopping(_)
            | RunStatus::Stopped(StopCause::Interrupted)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_),
        ) => true,
        Some(RunStatus::Paused | RunStatus::Stopped(StopCause::Requested) | RunStatus::Finished(_))
        | None => false,
    }
}
