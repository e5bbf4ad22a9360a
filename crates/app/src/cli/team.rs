//! `callboard team REQUEST`.

use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use protocol::steps::load::parse_duration;
use protocol::team::{Definition, Limits, ModeChoice, Team};
use protocol::{StepId, protocol_kind};

use super::block_on;
use crate::config::Flags;
use crate::engine::start::{NewRun, StartArgs, run_id};
use crate::failure::{Exit, Failure};
use crate::rehearsal::ScriptSteps;
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{Workspace, prompts};

/// Run a team: a project manager plans groups, each goes through developer, QA and tech lead
///
/// Each group works on its own branch in its own worktree, in parallel where the plan allows it. Approved groups are merged one
/// by one and checked again; the project manager checks at the end. The state is in `coordination/`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard team 'Implement JWT authentication, user registration and password reset'
  callboard team - < request.md
  callboard team 'Fix the login' --mode simple --wrapper ./agent.sh
  callboard team 'Try it out' --rehearse      # with the built-in scripted agent")]
pub(super) struct Arguments {
    /// What the team is to do, in your own words; `-` reads it from standard input
    #[arg(required = true)]
    request: Vec<String>,

    /// One group or several; `auto` leaves it to the project manager
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeFlag,

    /// A name for the run [default: eight random hex digits]
    #[arg(long, value_name = "NAME")]
    run_id: Option<String>,

    /// The number of groups that work at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().groups)]
    max_groups: NonZeroU8,

    /// The number of developer turns of a group before a person is asked
    #[arg(long, value_name = "N", default_value_t = Limits::default().developer)]
    max_developer: NonZeroU8,

    /// The number of QA turns of a group before a person is asked
    #[arg(long, value_name = "N", default_value_t = Limits::default().qa)]
    max_qa: NonZeroU8,

    /// The number of reviews of a group before a person is asked
    #[arg(long, value_name = "N", default_value_t = Limits::default().review)]
    max_reviews: NonZeroU8,

    /// The number of attempts of each turn [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,

    /// The time limit of an attempt, such as 10m [default: set by the agent's profile]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Name a group in `show` and `inbox` after this time without progress
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15m")]
    idle: Duration,

    /// Do not fast-forward the base branch at the end, print the command to merge instead
    #[arg(long)]
    no_merge: bool,

    /// Move files in `coordination/` aside that another program wrote
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    start: StartArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ModeFlag {
    /// The project manager decides
    Auto,
    /// One group
    Simple,
    /// Several groups
    Parallel,
}

impl From<ModeFlag> for ModeChoice {
    fn from(mode: ModeFlag) -> Self {
        match mode {
            ModeFlag::Auto => Self::Auto,
            ModeFlag::Simple => Self::Simple,
            ModeFlag::Parallel => Self::Parallel,
        }
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let request = request(&arguments.request)?;
    let flags =
        Flags { jobs: arguments.start.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.start.location, flags)?;
    let run = run_id(arguments.run_id.as_deref())?;
    let info = protocol_kind::<Team>().info();
    let definition = Definition {
        request: request.clone(),
        mode: arguments.mode.into(),
        limits: Limits {
            developer: arguments.max_developer,
            qa: arguments.max_qa,
            review: arguments.max_reviews,
            groups: arguments.max_groups,
            attempts: workspace.config.max_attempts.value,
            idle: arguments.idle,
            ..Limits::default()
        },
        timeout: arguments.timeout,
        prompts: prompts::read(&workspace.repo, info)?,
    };
    let wanted = WorktreeRequirements { no_merge: arguments.no_merge, ..WorktreeRequirements::default() };
    let worktrees = worktrees::options(&workspace, &run, wanted)?;
    // One step for each role, as an example: the real groups and their steps follow from the plan.
    let agents = [
        ("pm.plan", "project_manager"),
        ("A.developer", "developer"),
        ("A.qa", "qa_expert"),
        ("A.tech_lead", "tech_lead"),
    ];
    let agents = agents
        .map(|(step, agent)| (StepId::new(step).expect("BUG: the example is a step id"), agent.to_owned()));
    let new = NewRun {
        kind: protocol_kind::<Team>(),
        run,
        title: request.lines().next().unwrap_or_default().to_owned(),
        definition: &definition,
        worktrees: Some(worktrees),
        script_steps: ScriptSteps::of_protocol(info),
        agents: agents.into(),
        replace: arguments.replace,
        state_dir: None,
    };
    block_on(arguments.start.start(&workspace, new))
}

/// Returns the request, which may come from standard input.
fn request(words: &[String]) -> Result<String, Failure> {
    let request = match words {
        [only] if only == "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| {
            Failure::usage("cannot read the request from standard input").because(Some(&error))
        })?,
        words => words.join(" "),
    };
    if request.trim().is_empty() {
        return Err(Failure::usage("the request is empty")
            .hint("say what the team is to do: `callboard team 'Add a login page'`"));
    }
    Ok(request)
}
