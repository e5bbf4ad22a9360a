//! `callboard cycle TASK`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use protocol::cycle::{
    Cycle, DEFAULT_MAX_ITERATIONS, DecisionMode, Definition, MAX_PARALLEL, MergeMode, Overlap, Role,
};
use protocol::steps::load::parse_duration;
use protocol::{RunId, StepId, protocol_kind};

use super::block_on;
use crate::config::Flags;
use crate::engine::start::{NewRun, StartArgs, run_id};
use crate::failure::{Exit, Failure};
use crate::rehearsal::ScriptSteps;
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{Workspace, prompts};

/// Run a development cycle: requirements, exploration, code and validation, until nothing is open
///
/// Four agents work one after the other: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.
/// What fails feeds the next iteration. The cycle works on the branch `cycle/ID`; its files are in `.workflow/.cycle/`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard cycle 'Add OAuth2 login with Google and GitHub' --wrapper ./agent.sh
  callboard cycle 'Add OAuth2 login' --rehearse         # with the built-in scripted agent
  callboard cycle 'Add OAuth2 login' --parallel 3 --overlap --merge
  callboard extend cycle-v1-20260122T100000-abc123 'Also add multi-factor authentication'")]
pub(super) struct Arguments {
    /// The task, in your own words; `-` reads it from standard input
    task: String,

    /// The title [default: the first 100 characters of the task]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// The number of iterations at most [default: 5]
    #[arg(long, value_name = "N")]
    max_iterations: Option<NonZeroU32>,

    /// Code up to N tasks of the plan at once, each in a worktree of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PARALLEL)))]
    parallel: u32,

    /// Start to explore while `ra` still works, and run the tests once while `ep` works
    #[arg(long)]
    overlap: bool,

    /// Take the recommended option of every decision instead of asking
    #[arg(long)]
    auto: bool,

    /// Work in the checkout instead of a worktree
    #[arg(long, conflicts_with_all = ["merge", "continue_branch"])]
    in_place: bool,

    /// Fast-forward the base branch when the cycle has succeeded
    #[arg(long)]
    merge: bool,

    /// Continue the branch `cycle/ID` if it exists
    #[arg(long)]
    continue_branch: bool,

    /// The offset of times in the files, such as +01:00. The default is the one of the original system
    #[arg(long, value_name = "OFFSET", default_value = "+08:00", value_parser = parse_offset, allow_hyphen_values = true)]
    utc_offset: i32,

    /// The id of the cycle [default: cycle-v1-TIME-RANDOM]
    #[arg(long, value_name = "NAME")]
    run_id: Option<String>,

    /// The number of attempts of each phase [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,

    /// The time limit of an attempt, such as 10m [default: set by the role or the agent's profile]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Move files aside that another program wrote where this cycle's files go
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    start: StartArgs,
}

/// Reads an offset from UTC as minutes.
fn parse_offset(text: &str) -> Result<i32, String> {
    let wrong = || format!("`{text}` is not an offset such as +08:00");
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        Some(("Z", "")) => return Ok(0),
        Some(_) | None => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
    let number = |digits: &str, limit: i32| {
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| all_digits && (0..limit).contains(number))
    };
    match (number(hours, 24), number(minutes, 60)) {
        (Some(hours), Some(minutes)) => Ok(sign * (hours * 60 + minutes)),
        _ => Err(wrong()),
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags =
        Flags { jobs: arguments.start.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.start.location, flags)?;
    let run = match &arguments.run_id {
        Some(given) => given_id(given)?,
        None => new_id(arguments.utc_offset)?,
    };
    let definition = arguments.definition(&workspace)?;
    let worktrees = match definition.merge_mode {
        MergeMode::InPlace => None,
        MergeMode::Branch | MergeMode::FastForward => {
            let wanted = WorktreeRequirements {
                no_merge: definition.merge_mode != MergeMode::FastForward,
                integration: Some(format!("cycle/{run}")),
                continue_branch: arguments.continue_branch,
                no_commit: false,
                branch_flag: None,
            };
            let options = worktrees::options(&workspace, &run, wanted);
            Some(options.map_err(|failure| failure.hint("add `--in-place` to work in the checkout"))?)
        }
    };
    let agent = |role: Role| (StepId::new(role.as_str()).expect("BUG: a safe name"), role.to_string());
    let kind = protocol_kind::<Cycle>();
    let new = NewRun {
        kind,
        run,
        title: definition.title(),
        definition: &definition,
        worktrees,
        script_steps: ScriptSteps::of_protocol(kind.info()),
        agents: Role::ALL.map(agent).to_vec(),
        replace: arguments.replace,
        state_dir: None,
    };
    block_on(arguments.start.start(&workspace, new))
}

impl Arguments {
    fn definition(&self, workspace: &Workspace) -> Result<Definition, Failure> {
        let task = match self.task.as_str() {
            "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| {
                Failure::usage("cannot read the task from standard input").because(Some(&error))
            })?,
            task => task.to_owned(),
        };
        if task.trim().is_empty() {
            return Err(Failure::usage("the task is empty"));
        }
        if self.parallel > 1 && self.in_place {
            return Err(Failure::usage("`--parallel` needs worktrees").hint("leave out `--in-place`"));
        }
        Ok(Definition {
            title: self.title.clone(),
            max_iterations: self.max_iterations.map_or(DEFAULT_MAX_ITERATIONS, NonZeroU32::get),
            parallel: self.parallel,
            overlap: if self.overlap { Overlap::On } else { Overlap::Off },
            decisions: if self.auto { DecisionMode::Auto } else { DecisionMode::Ask },
            merge_mode: match (self.in_place, self.merge) {
                (true, _) => MergeMode::InPlace,
                (false, true) => MergeMode::FastForward,
                (false, false) => MergeMode::Branch,
            },
            checks: workspace.checks(),
            utc_offset: self.utc_offset,
            max_attempts: workspace.config.max_attempts.value,
            timeout: self.timeout,
            templates: templates(workspace)?,
            ..Definition::new(task)
        })
    }
}

/// Reads the prompt templates of the repository.
pub(super) fn templates(workspace: &Workspace) -> Result<BTreeMap<Role, String>, Failure> {
    let templates = prompts::read(&workspace.repo, protocol_kind::<Cycle>().info())?;
    let templates = templates.into_iter().filter_map(|(role, text)| Some((Role::parse(&role)?, text)));
    Ok(templates.collect())
}

/// Returns the given id. It is the name of a file and of a branch, so it has no dots.
pub(super) fn given_id(given: &str) -> Result<RunId, Failure> {
    if given.contains('.') {
        return Err(Failure::usage(format!("`{given}` cannot be the id of a cycle: it contains a dot")));
    }
    run_id(Some(given))
}

/// Returns a new id: `cycle-v1-20260122T100000-abc123`.
fn new_id(utc_offset: i32) -> Result<RunId, Failure> {
    let offset = Offset::from_seconds(utc_offset * 60).unwrap_or(Offset::UTC);
    let now = jiff::Timestamp::now().to_zoned(TimeZone::fixed(offset)).strftime("%Y%m%dT%H%M%S").to_string();
    let mut number = uuid::Uuid::new_v4().as_u128();
    let mut random = String::new();
    for _ in 0..6 {
        let digit = u32::try_from(number % 36).unwrap_or(0);
        random.extend(char::from_digit(digit, 36));
        number /= 36;
    }
    run_id(Some(&format!("cycle-v1-{now}-{random}")))
}

#[cfg(test)]
mod tests {
    use protocol::cycle::DEFAULT_UTC_OFFSET;

    use super::*;

    #[test]
    fn an_offset_has_a_sign_and_two_numbers() {
        assert_eq!(parse_offset("+08:00"), Ok(DEFAULT_UTC_OFFSET));
        assert_eq!(parse_offset("-03:30"), Ok(-210));
        for wrong in ["++8:+0", "+08:+0", "8", "08:00", "+8", "+25:00", "+08:60", ""] {
            assert!(parse_offset(wrong).is_err(), "{wrong} should be refused");
        }
    }

    #[test]
    fn a_new_id_has_version_time_and_six_characters() {
        let id = new_id(480).unwrap();
        let parts: Vec<_> = id.as_str().split('-').collect();
        assert_eq!((parts[0], parts[1], parts[2].len(), parts[3].len()), ("cycle", "v1", 15, 6));
        assert!(
            given_id("a.b").is_err()
                && given_id("../x").is_err()
                && given_id("cycle-v1-20260122-abcdefgh").is_ok()
        );
    }
}
