//! `callboard run WORKFLOW`.

use std::path::PathBuf;

use protocol::steps::{DEFAULT_ITERATIONS, OnFailure, Steps};
use protocol::{RunId, RunLocation, StepId};
use runner::{EngineRequest, OpenError, Overrides, RunOptions, RunSpec};

use super::block_on;
use crate::config::Flags;
use crate::engine::profiles::AgentFlags;
use crate::engine::{self, EngineArgs};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::{RehearseFlag, Roles};
use crate::workspace::definition;
use crate::workspace::definition::Limits;
use crate::workspace::{self, LocationArgs, Workspace};

/// Run a workflow: start its steps as processes, in parallel where the graph allows
///
/// The run is durable from its first run_at. Kill this command at any time: agents work on, and `callboard resume`
/// adopts them; nothing that is finished runs again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run wf.yaml --wrapper ./agent.sh
  callboard run wf.yaml --command-template 'my-agent --prompt {prompt} --out {report}'
  callboard run wf.yaml --rehearse          # the built-in scripted agent plays, no token is spent
  callboard run wf.yaml --detach            # goes on in the background
  callboard run wf.yaml --json | jq .       # one event per line
  callboard run wf.yaml --store nats://127.0.0.1:4222   # for several machines to share (docs/nats.md)")]
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

    /// Tries in all of each step that does not set its own [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<std::num::NonZeroU32>,

    /// How often a step whose gate fails is executed at most [default: 4]
    #[arg(long, value_name = "N")]
    max_iterations: Option<std::num::NonZeroU32>,

    /// What becomes of the rest when a step has failed for good
    #[arg(long, value_name = "POLICY", default_value = "stop")]
    on_failure: Policy,

    #[command(flatten)]
    show: EngineArgs,

    /// Start in the background and return at once
    #[arg(long)]
    detach: bool,

    #[command(flatten)]
    place: LocationArgs,

    #[command(flatten)]
    profiles: AgentFlags,

    #[command(flatten)]
    rehearse: RehearseFlag,

    #[command(flatten)]
    obsolete: Obsolete,
}

/// What becomes of the rest when a step has failed for good.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Policy {
    /// Stop running steps and end the run
    Stop,
    /// Let running steps finish, start nothing more, end the run
    Drain,
    /// Go on with whatever does not depend on the failed step
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

/// Flags of an older tool that mean nothing here; scripts that give them still work.
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
    fn tell(&self) {
        let given = [
            (self.poll_interval.is_some(), "--poll-interval", "nothing polls"),
            (
                self.pause_for_human_input,
                "--pause-for-human-input",
                "a step that asks for a person always waits",
            ),
            (self.state_file.is_some(), "--state-file", "the state is in the store, its view beside the run"),
            (
                self.logs_dir.is_some(),
                "--logs-dir",
                "logs lie beside each attempt; `callboard log` names them",
            ),
            (self.skip_cleanup, "--skip-cleanup", "nothing is cleaned up"),
        ];
        for (_, flag, why) in given.into_iter().filter(|(given, ..)| *given) {
            output::note(format_args!("`{flag}` has no effect: {why}"));
        }
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.obsolete.tell();
    let flags = Flags { jobs: arguments.show.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.place, flags)?;
    let file = arguments.file.or(arguments.workflow).expect("BUG: clap requires one of the two");
    let limits = Limits {
        max_attempts: workspace.config.max_attempts.value,
        max_iterations: arguments.max_iterations.unwrap_or(DEFAULT_ITERATIONS),
        on_failure: arguments.on_failure.into(),
    };
    let definition = definition::read(&workspace.repo, &file, limits)?;
    let options = RunOptions {
        location: RunLocation { run: run_id(arguments.run_id.as_deref())?, repo_dir: workspace.repo_dir()? },
        workdir: arguments.profiles.workdir(&workspace.repo)?,
        profile: match arguments.rehearse.profile(&Roles::of_workflow(definition.workflow()))? {
            Some(profile) => Some(profile),
            None => arguments.profiles.profile()?,
        },
        env: arguments.profiles.env.clone(),
    };
    let engine_config = engine::engine_config(&workspace, Overrides::default())?;
    for step in &definition.workflow().steps {
        if engine_config.profile(&options, &step.agent).is_none() {
            return Err(engine::no_profile(&step.agent, step.id.as_str()));
        }
    }
    let run = options.location.run.clone();
    let spec = RunSpec { title: definition.workflow().name.clone(), definition, options };
    block_on(async {
        workspace.lost_store_hints().iter().for_each(output::note);
        let store = workspace.store().await?;
        definition::exclude_views(&workspace.repo)?;
        let opened = runner::open::<Steps, _>(&store, &workspace.clock, workspace::person(), spec).await;
        opened.map_err(|error| cannot_open(&run, error))?;
        if arguments.detach {
            return engine::detach(&workspace, &store, &run, &arguments.show, Vec::new()).await;
        }
        engine::drive::<Steps>(
            &workspace,
            &store,
            engine_config,
            &run,
            EngineRequest::to_resume(None),
            &arguments.show,
        )
        .await
    })
}

fn cannot_open(run: &RunId, error: OpenError) -> Failure {
    match error {
        OpenError::Exists(_) => Failure::new(Exit::Refused, error).hint(format!(
            "`callboard resume {run}` goes on with it; choose another name with `--run-id` for a new one"
        )),
        OpenError::Freeze(error) => Failure::from(error),
        OpenError::Commit(error) => Failure::from(error),
    }
}

fn run_id(given: Option<&str>) -> Result<RunId, Failure> {
    match given {
        // The same grammar as for steps: together with one it names a report's file.
        Some(text) => match StepId::new(text).and_then(RunId::new) {
            Ok(run) => Ok(run),
            Err(error) => Err(Failure::usage(format!("`{text}` cannot name a run")).because(Some(&error))),
        },
        None => {
            let random = uuid::Uuid::new_v4().simple().to_string();
            Ok(RunId::new(&random[..8]).expect("BUG: hex digits make a name"))
        }
    }
}
