//! Starts a run: the flags that every starting command has, and how a definition becomes a run with an engine.

use protocol::{ProtocolKind, RunId, RunLocation, StepId};
use runner::{EngineRequest, OpenError, Overrides, RunOptions, RunSpec};
use serde::Serialize;
use store::AnyStore;
use supervisor::git::WorktreeOptions;

use super::profiles::AgentFlags;
use super::{EngineArgs, detach, drive, engine_config, require_known_roles, require_profiles};
use crate::control;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{RehearseFlag, ScriptSteps};
use crate::workspace::{self, LocationArgs, Workspace, definition, view_paths, worktrees};

/// The flags of commands that start a run.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    /// Start in the background and return at once
    #[arg(long)]
    pub(crate) detach: bool,

    #[command(flatten)]
    pub(crate) location: LocationArgs,

    #[command(flatten)]
    pub(crate) profiles: AgentFlags,

    #[command(flatten)]
    pub(crate) rehearse: RehearseFlag,
}

/// A run that is to be started.
pub(crate) struct NewRun<'a, D> {
    pub(crate) kind: &'static dyn ProtocolKind,
    pub(crate) run: RunId,
    pub(crate) title: String,
    pub(crate) definition: &'a D,
    pub(crate) worktrees: Option<WorktreeOptions>,
    /// The steps that a rehearsal script can name.
    pub(crate) script_steps: ScriptSteps,
    /// The steps that need an adapter, each with its agent. For steps that the run creates later, one step per role is
    /// given as an example, such as `A.qa`.
    pub(crate) agents: Vec<(StepId, String)>,
    /// Move files aside that other programs wrote where the views go.
    pub(crate) replace: bool,
    /// The directory of the view `issue-state.json`, if it is not the repository. Only runs of `issue` have one.
    pub(crate) state_dir: Option<String>,
}

impl StartArgs {
    /// Opens the run and drives it, or starts its engine in the background.
    pub(crate) async fn start<D: Serialize>(
        &self,
        workspace: &Workspace,
        new: NewRun<'_, D>,
    ) -> Result<Exit, Failure> {
        let NewRun { kind, run, title, definition, worktrees, script_steps, agents, replace, state_dir } =
            new;
        let mut options = self.options(workspace, &run, worktrees, &script_steps)?;
        options.location.state_dir = state_dir;
        let engine_config = engine_config(workspace, Overrides::default())?;
        let steps = || agents.iter().map(|(step, agent)| (step, agent.as_str()));
        require_known_roles(&options.roles, steps())?;
        require_profiles(&engine_config, &options, kind.info().name, steps())
            .map_err(|failure| failure.hint("or use `--rehearse` to run with the built-in scripted agent"))?;
        let spec = RunSpec::new(title, definition, options);
        workspace.lost_store_hints().iter().for_each(output::note);
        let store = workspace.store().await?;
        // Held until the run is in the store, so that no other run takes its integration branch meanwhile.
        let lease = worktrees::lease(&store, kind, &spec.options).await?;
        view_paths::clear_view_paths(workspace, &store, kind, &spec, replace).await?;
        definition::exclude_views(&workspace.repo, kind.info())?;
        open(workspace, &store, kind, &run, spec).await?;
        drop(lease);
        if self.detach {
            return detach(workspace, &store, &run, &self.engine, Vec::new()).await;
        }
        let request = EngineRequest::to_resume(None);
        drive(workspace, &store, engine_config, &run, request, &self.engine).await
    }

    fn options(
        &self,
        workspace: &Workspace,
        run: &RunId,
        worktrees: Option<WorktreeOptions>,
        script_steps: &ScriptSteps,
    ) -> Result<RunOptions, Failure> {
        let worktree = worktrees.as_ref().map(|trees| worktrees::path(workspace, run, trees)).transpose()?;
        Ok(RunOptions {
            location: RunLocation { worktree, ..RunLocation::new(run.clone(), workspace.repo_dir()?) },
            checks: if worktrees.is_some() { workspace.checks() } else { Vec::new() },
            worktrees,
            workdir: self.profiles.workdir(&workspace.repo)?,
            profile: match self.rehearse.profile(script_steps)? {
                Some(profile) => Some(profile),
                None => self.profiles.profile()?,
            },
            env: self.profiles.env.clone(),
            roles: self.profiles.roles(),
        })
    }
}

async fn open(
    workspace: &Workspace,
    store: &AnyStore,
    kind: &'static dyn ProtocolKind,
    run: &RunId,
    spec: RunSpec,
) -> Result<(), Failure> {
    let opened = runner::open(store, &workspace.clock, kind, workspace::person_author(), spec).await;
    match opened {
        Ok(mut journal) => {
            control::report_early_answers(&mut journal);
            Ok(())
        }
        Err(error @ OpenError::Exists(_)) => Err(Failure::new(Exit::Refused, error)
            .hint(format!(
                "run `callboard resume {run}` to continue it, or choose another name with `--run-id`"
            ))
            .hint(format!("run `callboard rm {run}` to remove it first"))),
        Err(OpenError::StoreSpec(error)) => Err(error.into()),
        Err(OpenError::Commit(error)) => Err(error.into()),
    }
}

/// Returns the given name of a run, or eight random hex digits.
pub(crate) fn run_id(given: Option<&str>) -> Result<RunId, Failure> {
    match given {
        // A run's name obeys the grammar of step ids, because the name of a report file has both.
        Some(text) => match StepId::new(text).and_then(RunId::new) {
            Ok(run) => Ok(run),
            Err(error) => {
                Err(Failure::usage(format!("`{text}` is not a valid run name")).because(Some(&error)))
            }
        },
        None => {
            let random = uuid::Uuid::new_v4().simple().to_string();
            Ok(RunId::new(&random[..8]).expect("BUG: hex digits make a name"))
        }
    }
}
