//! `callboard run WORKFLOW`.

use std::path::PathBuf;

use protocol::steps::{DEFAULT_ITERATIONS, OnFailure, Steps};
use protocol::{KindOf, Protocol as _, RunId, RunLocation, StepId};
use runner::{EngineRequest, OpenError, Overrides, RunOptions, RunSpec};

use super::block_on;
use crate::config::Flags;
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{RehearseFlag, ScriptSteps};
use crate::workspace::definition;
use crate::workspace::definition::Limits;
use crate::workspace::{self, LocationArgs, Workspace};

/// Run a workflow: start an agent for each step, in parallel where possible
///
/// The run is durable from the start. If this command is killed, the agents keep running and `callboard resume` adopts
/// them. A step that has finished does not run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run wf.yaml --wrapper ./agent.sh
  callboard run wf.yaml --command-template 'my-agent --prompt {prompt} --out {report}'
  callboard run wf.yaml --rehearse          # with the built-in scripted agent
  callboard run wf.yaml --detach            # in the background
  callboard run wf.yaml --json | jq .       # one event per line
  callboard run wf.yaml --store nats://127.0.0.1:4222   # shared by several machines (docs/nats.md)")]
pub(super) struct Arguments {
    /// The workflow file
    #[arg(value_name = "WORKFLOW", required_unless_present = "workflow", conflicts_with = "workflow")]
    file: Option<PathBuf>,

    /// The workflow file, as a flag
    #[arg(long, value_name = "WORKFLOW")]
    workflow: Option<PathBuf>,

    /// A name for the run [default: eight random hex digits]
    #[arg(long, value_name = "NAME")]
    run_id: Option<String>,

    /// The number of attempts of each step that does not set its own [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<std::num::NonZeroU32>,

    /// The number of iterations of a gate [default: 4]
    #[arg(long, value_name = "N")]
    max_iterations: Option<std::num::NonZeroU32>,

    /// What to do with the other steps when a step has failed
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    on_failure: Policy,

    #[command(flatten)]
    engine: EngineArgs,

    /// With worktrees: do not fast-forward the base branch at the end, print the command to merge instead
    #[arg(long)]
    no_merge: bool,

    /// Start in the background and return at once
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,

    #[command(flatten)]
    rehearse: RehearseFlag,

    #[command(flatten)]
    obsolete: Obsolete,
}

/// What to do with the other steps when a step has failed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Policy {
    /// Stop running steps and end the run
    Stop,
    /// Let running steps finish, start nothing more, end the run
    Drain,
    /// Continue with the steps that do not need the failed step
    Continue,
}

impl From<Policy> for OnFailure {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Stop => Self::Stop,
            Policy::Drain => Self::Drain,
            Policy::Continue => Self::Continue,
        }
    }
}

/// Flags of an older tool that have no effect. They are accepted so that its scripts keep working.
#[derive(Debug, clap::Args)]
struct Obsolete {
    #[arg(long, hide = true)]
    poll_interval: Option<String>,
    #[arg(long, hide = true)]
    pause_for_human_input: bool,
    #[arg(long, hide = true)]
    state_file: Option<String>,
    #[arg(long, hide = true)]
    logs_dir: Option<String>,
    #[arg(long, hide = true)]
    skip_cleanup: bool,
}

impl Obsolete {
    /// One note for each flag that was given.
    fn notes(&self) -> Vec<String> {
        let flags = [
            (self.poll_interval.is_some(), "--poll-interval", "callboard does not poll"),
            (
                self.pause_for_human_input,
                "--pause-for-human-input",
                "a step that asks for a person always waits",
            ),
            (
                self.state_file.is_some(),
                "--state-file",
                "the state is in the store; `callboard show` names the view",
            ),
            (
                self.logs_dir.is_some(),
                "--logs-dir",
                "each attempt has its own logs; `callboard log` names them",
            ),
            (self.skip_cleanup, "--skip-cleanup", "callboard does not clean up"),
        ];
        let given = flags.into_iter().filter(|(is_given, ..)| *is_given);
        given.map(|(_, flag, why)| format!("`{flag}` has no effect: {why}")).collect()
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.obsolete.notes().iter().for_each(output::note);
    let flags = Flags { jobs: arguments.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.location, flags)?;
    let file = arguments.file.or(arguments.workflow).expect("BUG: clap requires one of the two");
    let limits = Limits {
        max_attempts: workspace.config.max_attempts.value,
        max_iterations: arguments.max_iterations.unwrap_or(DEFAULT_ITERATIONS),
        on_failure: arguments.on_failure.into(),
    };
    let definition = definition::read(&workspace.repo, &file, limits)?;
    let run = run_id(arguments.run_id.as_deref())?;
    let (worktrees, worktree) = match definition.workflow().has_worktrees() {
        true => {
            let (options, path) = workspace::worktrees::options(&workspace, &run, arguments.no_merge)?;
            (Some(options), Some(path))
        }
        false => (None, None),
    };
    let options = RunOptions {
        location: RunLocation { run: run.clone(), repo_dir: workspace.repo_dir()?, worktree },
        worktrees,
        workdir: arguments.profiles.workdir(&workspace.repo)?,
        profile: match arguments.rehearse.profile(&ScriptSteps::of_workflow(definition.workflow()))? {
            Some(profile) => Some(profile),
            None => arguments.profiles.profile()?,
        },
        env: arguments.profiles.env.clone(),
        roles: arguments.profiles.roles(),
    };
    let engine_config = engine::engine_config(&workspace, Overrides::default())?;
    let steps = || definition.workflow().agent_steps().map(|step| (&step.id, step.agent.as_str()));
    engine::require_role_names(&options.roles, steps())?;
    engine::require_profiles(&engine_config, &options, Steps::NAME, steps())?;
    let run = options.location.run.clone();
    let spec = RunSpec::new(definition.workflow().name.clone(), &definition, options);
    block_on(async {
        workspace.lost_store_hints().iter().for_each(output::note);
        let store = workspace.store().await?;
        definition::exclude_views(&workspace.repo)?;
        let (by, kind) = (workspace::person(), KindOf::<Steps>::STATIC);
        let opened = runner::open(&store, &workspace.clock, kind, by, spec).await;
        opened.map_err(|error| cannot_open(&run, error))?;
        if arguments.detach {
            return engine::detach(&workspace, &store, &run, &arguments.engine, Vec::new()).await;
        }
        let request = EngineRequest::to_resume(None);
        engine::drive(&workspace, &store, engine_config, &run, request, &arguments.engine).await
    })
}

fn cannot_open(run: &RunId, error: OpenError) -> Failure {
    match error {
        OpenError::Exists(_) => Failure::new(Exit::Refused, error).hint(format!(
            "run `callboard resume {run}` to continue it, or choose another name with `--run-id`"
        )),
        OpenError::StoreSpec(error) => Failure::from(error),
        OpenError::Commit(error) => Failure::from(error),
    }
}

fn run_id(given: Option<&str>) -> Result<RunId, Failure> {
    match given {
        // The grammar of step ids: run and step together name a report file.
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

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn obsolete_flags_are_accepted_with_a_note() {
        let line = "run wf.yaml --poll-interval 5 --pause-for-human-input --state-file x --logs-dir y --skip-cleanup";
        let command = Arguments::augment_args(clap::Command::new("run"));
        let matches = command.try_get_matches_from(line.split(' ')).unwrap();
        let arguments = Arguments::from_arg_matches(&matches).unwrap();
        assert_snapshot!(arguments.obsolete.notes().join("\n"), @"
        `--poll-interval` has no effect: callboard does not poll
        `--pause-for-human-input` has no effect: a step that asks for a person always waits
        `--state-file` has no effect: the state is in the store; `callboard show` names the view
        `--logs-dir` has no effect: each attempt has its own logs; `callboard log` names them
        `--skip-cleanup` has no effect: callboard does not clean up
        ");
    }
}
