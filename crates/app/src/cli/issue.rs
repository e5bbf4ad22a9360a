//! `callboard issue NUMBER | FILE`.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::checks::CheckSpec;
use protocol::issue::{
    Agent, CloseIssue, DEFAULT_MAX_QUESTIONS, DEFAULT_PIPELINE_ATTEMPTS, Definition, Issue, IssueData,
    TrackerSpec, TriageMode,
};
use protocol::steps::load::parse_duration;
use protocol::{Protocol as _, RunId, protocol_kind};
use serde_json::Value;
use supervisor::git::{self, WorktreeOptions};

use super::block_on;
use crate::config::Flags;
use crate::engine::start::{NewRun, StartArgs, run_id};
use crate::failure::{Exit, Failure};
use crate::learnings;
use crate::output;
use crate::rehearsal::ScriptSteps;
use crate::tracker::{self, FileTracker, Gh};
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{Workspace, prompts};

/// Turn an issue into a pull request: triage, analyse, write, build, review, commit
///
/// The work happens in a worktree on the branch `agent/issue-N`. A red build, a rejection and an empty change each cost one of
/// three attempts. The state is in `issue-state.json`. With a file instead of a number, comments and pull requests are
/// written beside it, and nothing leaves the machine but a push.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard issue 42                                  # with `gh`, from the repository on GitHub
  callboard issue issue.json --tracker files          # the file is as `gh issue view --json` prints it
  callboard issue issue.json --rehearse               # with the built-in scripted agent
  callboard issue 42 --no-triage --pipeline-attempts 2
  callboard issue 42 --continue                       # on the branch of an earlier run")]
pub(super) struct Arguments {
    /// The number of the issue, or a file with it
    #[arg(value_name = "ISSUE")]
    issue: String,

    /// Where the issue is [default: gh for a number, files for a file]
    #[arg(long, value_name = "TRACKER")]
    tracker: Option<TrackerName>,

    /// A name for the run [default: issue-N and four hex digits]
    #[arg(long, value_name = "NAME")]
    run_id: Option<String>,

    /// Begin with the analysis
    #[arg(long)]
    no_triage: bool,

    /// How often writer, build and reviewer are run [default: 3]
    #[arg(long, value_name = "N")]
    pipeline_attempts: Option<NonZeroU32>,

    /// The number of attempts of one agent in one turn [default: 2]
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,

    /// The time limit of an agent's attempt, such as 10m [default: set by the agent's profile]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// The branch that the pull request goes to [default: the checked out one]
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,

    /// Close the issue at the end [default: the merge of the pull request closes it]
    #[arg(long)]
    close: bool,

    /// Continue the branch and the pull request of an earlier run
    #[arg(long = "continue", id = "continues")]
    continues: bool,

    /// Move an `issue-state.json` aside that another program wrote
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    start: StartArgs,
}

/// A kind of tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TrackerName {
    /// GitHub, by the program `gh`
    Gh,
    /// The folder of the issue's file
    Files,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let flags =
        Flags { jobs: arguments.start.engine.jobs, max_attempts: arguments.max_attempts, store: None };
    let workspace = Workspace::find(&arguments.start.location, flags)?;
    let (issue, tracker) = arguments.find_issue(&workspace)?;
    let run = match &arguments.run_id {
        Some(given) => run_id(Some(given))?,
        None => {
            let random = run_id(None)?;
            RunId::new(format!("issue-{}-{}", issue.number, &random.as_str()[..4]))
                .expect("BUG: a number and hex digits make a name")
        }
    };
    let branch = branch(issue.number);
    let is_rehearsal = arguments.start.rehearse.is_given();
    match arguments.continues {
        false => refuse_existing(&workspace, &tracker, &branch, is_rehearsal)?,
        // A rehearsal does not ask the remote.
        true if is_rehearsal => {}
        true => continue_branch(&workspace, &branch)?,
    }
    let mut worktrees = worktrees(&workspace, &run, &branch, arguments.continues)?;
    arguments.set_base(&workspace, &mut worktrees)?;
    let definition = arguments.definition(&workspace, issue, tracker, &worktrees)?;
    let agents = Agent::ALL.into_iter().filter(|agent| *agent != Agent::Triage || !arguments.no_triage);
    let info = protocol_kind::<Issue>().info();
    let new = NewRun {
        kind: protocol_kind::<Issue>(),
        run,
        title: format!("issue {}: {}", definition.issue.number, definition.issue.title),
        definition: &definition,
        worktrees: Some(worktrees),
        script_steps: ScriptSteps::of_protocol(info),
        agents: agents.map(|agent| (Issue::step_id(&agent.step()), agent.name().to_owned())).collect(),
        replace: arguments.replace,
        state_dir: state_dir(),
    };
    block_on(arguments.start.start(&workspace, new))
}

/// Refuses a branch or a pull request of an earlier run.
fn refuse_existing(
    workspace: &Workspace,
    tracker: &TrackerSpec,
    branch: &str,
    is_rehearsal: bool,
) -> Result<(), Failure> {
    let refused = |what: String| Failure::new(Exit::Refused, what).hint("add `--continue` to work on it");
    let has_branch = git::has_branch(&workspace.repo, branch)
        .map_err(|error| Failure::usage("cannot read the branches").because(Some(&error)))?;
    if has_branch {
        let word = output::shell_word(branch.as_ref());
        return Err(refused(format!("branch `{branch}` of an earlier run exists"))
            .hint(format_args!("run `git branch -m {word} NEW-NAME` to keep it under another name"))
            .hint(format_args!("run `git branch -D {word}` if it is only a rehearsal's")));
    }
    if is_rehearsal {
        return Ok(());
    }
    let on_remote = git::remote_branch_commit(&workspace.repo, branch)
        .map_err(|error| Failure::usage("cannot read the branches of the remote").because(Some(&error)))?;
    if on_remote.is_some() {
        return Err(refused(format!("the remote has a branch `{branch}` of an earlier run")));
    }
    match tracker::open(tracker, &workspace.repo).find_pull_request(branch) {
        Ok(None) => Ok(()),
        Ok(Some(request)) => {
            Err(refused(format!("there is a pull request from `{branch}`: {}", request.url)))
        }
        Err(error) => Err(Failure::usage(error)),
    }
}

/// Fetches the branch of an earlier run from the remote, if it is missing or older here.
fn continue_branch(workspace: &Workspace, branch: &str) -> Result<(), Failure> {
    git::fetch_branch(&workspace.repo, branch).map_err(|error| {
        Failure::new(Exit::Refused, format!("cannot continue branch `{branch}` of the remote"))
            .because(Some(&error))
            .hint(format_args!("run `git fetch` and compare `{branch}` with that of the remote"))
    })
}

/// Returns the branch of an issue.
pub(super) fn branch(number: u64) -> String {
    format!("agent/issue-{number}")
}

/// Returns how the worktree on the branch of the issue is made.
pub(super) fn worktrees(
    workspace: &Workspace,
    run: &RunId,
    branch: &str,
    continues: bool,
) -> Result<WorktreeOptions, Failure> {
    let wanted = WorktreeRequirements {
        no_merge: true,
        integration: Some(branch.to_owned()),
        continue_branch: continues,
        no_commit: true,
        branch_flag: None,
    };
    worktrees::options(workspace, run, wanted)
}

impl Arguments {
    /// Reads the issue, and says where comments go.
    fn find_issue(&self, workspace: &Workspace) -> Result<(IssueData, TrackerSpec), Failure> {
        match (self.issue.parse::<u64>(), self.tracker) {
            (Ok(number), None | Some(TrackerName::Gh)) => {
                let issue = Gh::new(&workspace.repo).issue(number);
                Ok((issue.map_err(Failure::usage)?, TrackerSpec::Gh))
            }
            (Err(_), Some(TrackerName::Gh)) => {
                let what = format!("`{}` is not the number of an issue", self.issue);
                Err(Failure::usage(what).hint("leave out `--tracker gh` to read the issue from a file"))
            }
            (_, None | Some(TrackerName::Files)) => {
                let file = PathBuf::from(&self.issue);
                let issue = FileTracker::read(&file).map_err(|error| {
                    Failure::usage(error).hint(
                        "run `gh issue view N --json number,title,body,labels,url > issue.json` to make one",
                    )
                })?;
                let file = file.canonicalize().map_err(|error| {
                    Failure::usage(format!("cannot find `{}`", file.display())).because(Some(&error))
                })?;
                let dir = file.parent().unwrap_or(Path::new("/")).to_owned();
                Ok((issue, TrackerSpec::Files { dir }))
            }
        }
    }

    /// Lets the work start from the branch of `--base`. Without the flag, tells the user if HEAD is detached.
    fn set_base(&self, workspace: &Workspace, worktrees: &mut WorktreeOptions) -> Result<(), Failure> {
        let Some(base) = &self.base else {
            if worktrees.base.is_none() {
                output::note(
                    "HEAD is detached, so the pull request goes to the default branch; `--base BRANCH` chooses another",
                );
            }
            return Ok(());
        };
        let found = git::find_branch_commit(&workspace.repo, base)
            .map_err(|error| Failure::usage("cannot read the branches").because(Some(&error)))?;
        worktrees.start = found.ok_or_else(|| {
            Failure::usage(format!("there is no branch `{base}`")).hint("run `git branch --all` to list them")
        })?;
        worktrees.base = Some(base.clone());
        Ok(())
    }

    fn definition(
        &self,
        workspace: &Workspace,
        issue: IssueData,
        tracker: TrackerSpec,
        worktrees: &WorktreeOptions,
    ) -> Result<Definition, Failure> {
        let is_rehearsal = self.start.rehearse.is_given();
        Ok(Definition {
            triage: if self.no_triage { TriageMode::Skip } else { TriageMode::Run },
            pipeline_attempts: self.pipeline_attempts.unwrap_or(DEFAULT_PIPELINE_ATTEMPTS),
            close_issue: if self.close { CloseIssue::ByRun } else { CloseIssue::ByMerge },
            timeout: self.timeout,
            // An existing pull request is moved to the base only if the user has named one.
            retarget_pull_request: self.base.is_some(),
            ..definition(workspace, issue, tracker, worktrees, is_rehearsal)?
        })
    }
}

/// Returns the definition of a run that is started without flags.
pub(super) fn definition(
    workspace: &Workspace,
    issue: IssueData,
    tracker: TrackerSpec,
    worktrees: &WorktreeOptions,
    is_rehearsal: bool,
) -> Result<Definition, Failure> {
    let mut checks = workspace.checks();
    if checks.is_empty() && is_rehearsal {
        checks.push(rehearsed_check());
    }
    if checks.is_empty() {
        return Err(Failure::usage("no check is configured or found, so no change could pass the build")
            .hint("set `test`, `lint` or `types` in `[checks]` of `callboard.toml`"));
    }
    let branch = branch(issue.number);
    if worktrees.base.as_ref() == Some(&branch) {
        return Err(Failure::usage(format!("`{branch}` is checked out, and it is the branch of the work"))
            .hint("run `git switch main`"));
    }
    Ok(Definition {
        issue,
        tracker,
        triage: TriageMode::Run,
        pipeline_attempts: DEFAULT_PIPELINE_ATTEMPTS,
        max_attempts: workspace.config.max_attempts.value,
        max_questions: DEFAULT_MAX_QUESTIONS,
        branch,
        base: worktrees.base.clone(),
        retarget_pull_request: false,
        start_commit: worktrees.start.clone(),
        close_issue: CloseIssue::ByMerge,
        checks,
        timeout: None,
        prompts: prompts::read(&workspace.repo, protocol_kind::<Issue>().info())?,
        learnings: learnings(workspace)?,
    })
}

/// Reads what earlier runs have learnt. Null if there is nothing.
fn learnings(workspace: &Workspace) -> Result<Value, Failure> {
    block_on(async {
        match workspace.existing_store().await? {
            Some(store) => learnings::up_to_date(workspace, &store).await,
            None => Ok(Value::Null),
        }
    })
}

/// Returns the check of a rehearsal in a repository that has none. The build needs one, although a rehearsal does not run it.
fn rehearsed_check() -> CheckSpec {
    CheckSpec { name: "test".to_owned(), command: vec!["true".to_owned()], timeout: Duration::from_secs(60) }
}

/// Returns the directory of `issue-state.json` in GitHub Actions. `None` elsewhere: then it is the repository.
pub(super) fn state_dir() -> Option<String> {
    let dir = std::env::var("GITHUB_WORKSPACE").ok().filter(|dir| Path::new(dir).is_absolute())?;
    Some(dir.trim_end_matches('/').to_owned())
}
