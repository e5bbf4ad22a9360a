//! `callboard run WORKFLOW`.

mod accept;
mod git_worktree;
pub(super) mod start_at;

use std::path::PathBuf;

use protocol::brief::MemoryPolicy;
use protocol::protocol_kind;
use protocol::steps::{DEFAULT_MAX_ITERATIONS, OnFailure, Steps};

use self::git_worktree::GitWorktree;
use self::start_at::{ChangePolicy, NewVersion};
use super::block_on;
use crate::config::Flags;
use crate::engine::start::{NewRun, StartArgs, run_id};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::rehearsal::ScriptSteps;
use crate::workspace::Workspace;
use crate::workspace::definition::{self, Approvals, DefinitionOptions, WorkflowFiles};
use crate::workspace::worktrees::{self, WorktreeRequirements};

/// Run a workflow: start an agent for each step, in parallel where possible
///
/// The run is durable from the start. If this command is killed, the agents keep running and `callboard resume` adopts
/// them. A step that has finished does not run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard run wf.yaml --wrapper ./agent.sh
  callboard run wf.yaml --command-template 'my-agent --prompt {prompt} --out {report}'
  callboard run wf.yaml --rehearse          # with the built-in scripted agent
  callboard run wf.yaml --start-at-step review   # again, from this step on
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

    /// Start a run again at this step, with its own options: the newest run of this workflow, or that of --run-id
    #[arg(long, value_name = "STEP", conflicts_with_all = ["rehearse", "detach"])]
    start_at_step: Option<String>,

    /// With --start-at-step: if the workflow or a prompt has changed, show how, and continue in a new run with the new version
    #[arg(long, requires = "start_at_step")]
    accept_changes: bool,

    /// The number of attempts of each step that does not set its own [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<std::num::NonZeroU32>,

    /// The number of iterations of a gate [default: 4]
    #[arg(long, value_name = "N")]
    max_iterations: Option<std::num::NonZeroU32>,

    /// What to do with the other steps when a step has failed [default: stop]
    #[arg(long, value_name = "POLICY")]
    on_failure: Option<FailurePolicy>,

    /// The issue that the run works on: agents get ISSUE_NUMBER and, with the path of its text, ISSUE_MARKDOWN_PATH
    #[arg(long, value_name = "N")]
    issue_number: Option<u64>,

    /// Do not wait for a person after steps with `human_in_the_loop`
    #[arg(long)]
    no_pause: bool,

    /// The file with the conditions in `gates`: a JSON object of names, each `true` or `false`
    #[arg(long, value_name = "FILE")]
    gate_state_file: Option<PathBuf>,

    /// With worktrees: do not fast-forward the base branch at the end, print the command to merge instead
    #[arg(long)]
    no_merge: bool,

    #[command(flatten)]
    git_worktree: GitWorktree,

    /// Add the `memory_updates` of reports to AGENTS.md
    #[arg(long)]
    memory: bool,

    /// Check the report of every agent with this JSON Schema, too
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    #[command(flatten)]
    start: StartArgs,

    /// Write logs of this level to stderr, unless CALLBOARD_LOG says otherwise
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    log_level: Option<LogLevel>,

    #[command(flatten)]
    obsolete: ObsoleteFlags,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LogLevel {
    Debug,
    Info,
    #[value(alias = "warn")]
    Warning,
    #[value(alias = "critical")]
    Error,
}

impl LogLevel {
    fn filter(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warn",
            Self::Error => "error",
        }
    }
}

/// What to do with the other steps when a step has failed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum FailurePolicy {
    /// Stop running steps and end the run
    Stop,
    /// Let running steps finish, start nothing more, end the run
    Drain,
    /// Continue with the steps that do not need the failed step
    Continue,
}

impl From<FailurePolicy> for OnFailure {
    fn from(policy: FailurePolicy) -> Self {
        match policy {
            FailurePolicy::Stop => Self::Stop,
            FailurePolicy::Drain => Self::Drain,
            FailurePolicy::Continue => Self::Continue,
        }
    }
}

/// Flags of the original of `steps` that have no effect. They are accepted so that scripts written for it keep working.
#[derive(Debug, clap::Args)]
struct ObsoleteFlags {
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

impl ObsoleteFlags {
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
    if let Some(level) = arguments.log_level {
        super::start_logging(Some(level.filter()));
    }
    arguments.obsolete.notes().iter().for_each(output::note);
    let ignored = ignored_flags(&arguments);
    let mut start = arguments.start;
    start
        .profiles
        .env
        .extend(arguments.issue_number.map(|number| ("ISSUE_NUMBER".to_owned(), number.to_string())));
    let flags = Flags { jobs: start.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&start.location, flags)?;
    let file = arguments.file.or(arguments.workflow).expect("BUG: clap requires one of the two");
    if let Some(step) = &arguments.start_at_step {
        ignored.iter().for_each(output::note);
        let policy = ChangePolicy::of_flag(arguments.accept_changes);
        let new = NewVersion { file: &file, files: WorkflowFiles::read(&workspace, &file)?, policy };
        let (run_id, in_worktree) = (arguments.run_id.as_deref(), arguments.git_worktree.is_given());
        return block_on(start_at::run(&workspace, &start, new, run_id, step, in_worktree));
    }
    let definition_options = DefinitionOptions {
        max_attempts: workspace.config.max_attempts.value,
        max_iterations: arguments.max_iterations.unwrap_or(DEFAULT_MAX_ITERATIONS),
        on_failure: arguments.on_failure.unwrap_or(FailurePolicy::Stop).into(),
        approvals: if arguments.no_pause { Approvals::Skipped } else { Approvals::Required },
        gate_state_file: arguments.gate_state_file,
        memory: if arguments.memory { MemoryPolicy::Applied } else { MemoryPolicy::NotApplied },
        report_schema: arguments.schema.as_deref().map(definition::report_schema).transpose()?,
    };
    let definition = definition::read(&workspace, &file, definition_options)?;
    let workflow = definition.workflow();
    let run = run_id(arguments.run_id.as_deref())?;
    let wanted = WorktreeRequirements { no_merge: arguments.no_merge, ..WorktreeRequirements::default() };
    let worktrees = if arguments.git_worktree.is_given() {
        Some(arguments.git_worktree.options(&workspace, &run)?)
    } else {
        workflow.has_worktrees().then(|| worktrees::options(&workspace, &run, wanted)).transpose()?
    };
    let new = NewRun {
        kind: protocol_kind::<Steps>(),
        run,
        title: workflow.name.clone(),
        definition: &definition,
        worktrees,
        script_steps: ScriptSteps::of_workflow(workflow),
        agents: workflow.agent_steps().map(|step| (step.id.clone(), step.agent.clone())).collect(),
        replace: false,
        state_dir: None,
    };
    block_on(start.start(&workspace, new))
}

/// A note for each flag that has no effect with `--start-at-step`.
fn ignored_flags(arguments: &Arguments) -> Vec<String> {
    let flags = [
        (arguments.max_attempts.is_some(), "--max-attempts"),
        (arguments.max_iterations.is_some(), "--max-iterations"),
        (arguments.on_failure.is_some(), "--on-failure"),
        (arguments.no_pause, "--no-pause"),
        (arguments.gate_state_file.is_some(), "--gate-state-file"),
        (arguments.no_merge, "--no-merge"),
        (arguments.memory, "--memory"),
        (arguments.schema.is_some(), "--schema"),
    ];
    let given = flags.into_iter().filter(|(is_given, _)| *is_given);
    given
        .map(|(_, flag)| format!("`{flag}` has no effect: the run keeps the options it was started with"))
        .collect()
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
