//! The worktrees of a run: chosen when it starts, removed when it has succeeded.
//!
//! The integration branch of a run collects the work of its steps. The base branch is the one that is checked out when
//! the run starts.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use protocol::issue::Issue;
use protocol::run::RunStatus;
use protocol::{Protocol as _, ProtocolKind, RunId};
use runner::{RunOptions, Summary};
use store::{AnyStore, Digest};
use supervisor::git::{self, RunWorktrees, WorktreeError, WorktreeOptions};

use super::Workspace;
use crate::engine;
use crate::failure::{Exit, Failure};
use crate::output;

/// What a command requires of the worktrees of a new run.
#[derive(Debug, Default)]
pub(crate) struct WorktreeRequirements {
    /// Leave the base branch alone at the end.
    pub(crate) no_merge: bool,
    /// The name of the integration branch, if it is not `callboard/RUN`.
    pub(crate) integration: Option<String>,
    /// Continue the integration branch if it exists.
    pub(crate) continue_branch: bool,
    /// Do not commit what attempts leave: a step of the run does that.
    pub(crate) no_commit: bool,
    /// The flag that gives the branch another name, if it is not `--run-id`.
    pub(crate) branch_flag: Option<&'static str>,
}

/// Returns how the worktrees of a new run are made.
pub(crate) fn options(
    workspace: &Workspace,
    run: &RunId,
    wanted: WorktreeRequirements,
) -> Result<WorktreeOptions, Failure> {
    let cannot = |error: git::GitError| {
        Failure::usage("cannot make worktrees: they need a git repository with a commit")
            .because(Some(&error))
    };
    let (base, start) = git::head(&workspace.repo).map_err(cannot)?;
    let settings = &workspace.config.worktree;
    let dir = dir(workspace)?;
    let WorktreeRequirements { no_merge, integration, continue_branch, no_commit, branch_flag } = wanted;
    let options = WorktreeOptions {
        dir: dir.join(run.as_str()),
        base,
        start,
        strategy: settings.strategy.as_ref().map(|strategy| strategy.value).unwrap_or_default(),
        setup: settings.setup.as_ref().map(|setup| setup.value.clone()).unwrap_or_default(),
        no_merge,
        integration,
        no_commit,
        integration_dir: None,
        keep: false,
    };
    if !continue_branch {
        refuse_leftovers(workspace, run, &options, branch_flag)?;
    }
    if git::is_dirty(&workspace.repo).map_err(cannot)? {
        output::note("changes that are not committed are not in the worktrees");
    }
    Ok(options)
}

/// Fails if a branch or worktree that the new run would create exists already, left by a removed run. The new run would
/// take its content for its own work.
pub(crate) fn refuse_leftovers(
    workspace: &Workspace,
    run: &RunId,
    options: &WorktreeOptions,
    branch_flag: Option<&str>,
) -> Result<(), Failure> {
    let run_worktrees = RunWorktrees::new(run.clone(), workspace.repo.clone(), options.clone());
    let branches =
        run_worktrees.existing_branches().map_err(|error| Failure::from_error(Exit::Store, &error))?;
    let refused = |what: String| {
        let rename = format!("choose another name with `{}`", branch_flag.unwrap_or("--run-id"));
        Failure::new(Exit::Refused, what).hint(rename)
    };
    if let Some(branch) = branches.first() {
        return Err(refused(format!("branch `{branch}` exists already")).hint(format_args!(
            "run `git branch -m {} NEW-NAME` to keep it under another name",
            output::shell_word(branch.as_ref())
        )));
    }
    if let Some(tree) = run_worktrees.existing().first() {
        return Err(refused(format!("the worktree `{}` exists already", tree.display())).hint(format_args!(
            "run `git worktree remove -f -f {}` to delete it with its changes",
            output::shell_word(tree)
        )));
    }
    Ok(())
}

/// The right of a run to commit on its integration branch. While it is held, no other run can lease a branch. It is
/// dropped once the run is in the store, where other commands find it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lease {
    _lock: Option<File>,
}

/// Makes sure that only this run commits on its integration branch: no other run that works on it is unfinished.
/// Reopening a run is also refused if a later run has used the branch, because it would undo that run's commits.
pub(crate) async fn lease(
    store: &AnyStore,
    kind: &'static dyn ProtocolKind,
    options: &RunOptions,
) -> Result<Lease, Failure> {
    let Some(branch) = integration(options) else { return Ok(Lease { _lock: None }) };
    let lock = lock_leases(store)?;
    let rows = store.runs().await?;
    let run = &options.location.run;
    let opened_at = rows.iter().find(|row| row.run == *run).map(|row| row.created);
    for row in rows.iter().filter(|row| row.run != *run) {
        // Only a newer version of callboard writes a summary that cannot be decoded, and this one cannot read such a run.
        let Some(summary) = Summary::decode(&row.summary) else { continue };
        let is_finished = matches!(summary.status, RunStatus::Finished(_));
        let is_later = opened_at.is_some_and(|opened_at| row.created > opened_at);
        if is_finished && !is_later {
            continue;
        }
        let Some(other) = runner::read_spec(store.as_ref(), &row.run).await? else { continue };
        let other_repo = Path::new(&other.options.location.repo_dir);
        if integration(&other.options) == Some(branch) && engine::uses_local_dir_of(store, other_repo)? {
            return Err(leased(kind, &row.run, branch, is_finished));
        }
    }
    Ok(Lease { _lock: Some(lock) })
}

/// Waits until no other command leases a branch of this repository. The lock ends with the process.
fn lock_leases(store: &AnyStore) -> Result<File, Failure> {
    store.prepare_local_dir()?;
    let path = store.local_dir().root().join("leases.lock");
    let lock = || {
        let file = File::options().create(true).append(true).open(&path)?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|error: io::Error| {
        Failure::new(Exit::Store, format!("cannot lock `{}`", path.display())).because(Some(&error))
    })
}

/// Returns the integration branch of a run, if it is not the default `callboard/RUN`.
fn integration(options: &RunOptions) -> Option<&str> {
    options.worktrees.as_ref()?.integration.as_deref()
}

fn leased(kind: &dyn ProtocolKind, other: &RunId, branch: &str, is_finished: bool) -> Failure {
    if is_finished {
        let what = format!("run `{other}` has worked on branch `{branch}` since");
        let failure = Failure::new(Exit::Refused, what);
        let failure = match kind.info().name {
            Issue::NAME => {
                failure.hint("start a new run with `--continue` to work on the branch as it is now")
            }
            _ => failure,
        };
        return failure.hint(format_args!("run `callboard rm {other}` first if its work is not needed"));
    }
    Failure::new(Exit::Refused, format!("branch `{branch}` belongs to run `{other}`, which is not finished"))
        .hint(format_args!("run `callboard resume {other}` to continue it"))
        .hint(format_args!(
            "run `callboard stop {other}` to end it, and `callboard rm {other}` if it could still be resumed"
        ))
}

/// Returns the path of the run's own worktree.
pub(crate) fn path(workspace: &Workspace, run: &RunId, options: &WorktreeOptions) -> Result<String, Failure> {
    let run_worktrees = RunWorktrees::new(run.clone(), workspace.repo.clone(), options.clone());
    engine::profiles::utf8(&run_worktrees.path(None))
}

/// Returns the directory of the worktrees of all runs.
pub(crate) fn dir(workspace: &Workspace) -> Result<PathBuf, Failure> {
    match &workspace.config.worktree.dir {
        Some(dir) => Ok(dir.value.clone()),
        None => default_dir(workspace),
    }
}

/// Returns a directory outside of the checkout. Agents refuse to write below `.git`, so the store is no place for it.
pub(crate) fn default_dir(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let directories = etcetera::choose_base_strategy().map_err(|error| {
        Failure::usage("cannot determine the home directory for worktrees")
            .because(Some(&error))
            .hint("set `dir` in `[worktree]` of `callboard.toml`")
    })?;
    let name = workspace.repo.file_name().unwrap_or_default().to_string_lossy();
    let digest = Digest::of(workspace.repo.as_os_str().as_encoded_bytes());
    let digest = digest.as_str().rsplit(':').next().unwrap_or_default();
    let name = format!("{name}-{}", &digest[..digest.len().min(8)]);
    Ok(directories.data_dir().join("callboard/worktrees").join(name))
}

/// Removes the worktrees of a run that has succeeded, and says how to merge it if the base branch does not have it.
pub(crate) fn clean_up(options: &RunOptions) {
    let Some(run_worktrees) = options.run_worktrees() else { return };
    let keeps = options.worktrees.as_ref().is_some_and(|worktrees| worktrees.keep);
    let remove = || -> Result<(), WorktreeError> {
        if keeps {
            output::note(format_args!(
                "kept `{}` (`--git-worktree-keep`)",
                run_worktrees.path(None).display()
            ));
        }
        let kept = if keeps { Vec::new() } else { run_worktrees.remove()? };
        for path in kept {
            output::note(format_args!(
                "kept `{}`: it has changes that branch `{}` does not have",
                path.display(),
                run_worktrees.integration_branch()
            ));
        }
        // No hint for a run with a commit step: it prints itself where its work is.
        let has_commit_step = options.worktrees.as_ref().is_some_and(|worktrees| worktrees.no_commit);
        let is_in_base = run_worktrees.is_in_base()?;
        if options.is_rehearsal() && !is_in_base {
            let branch = run_worktrees.integration_branch();
            let worktree = run_worktrees.path(None);
            // Git deletes no branch that is checked out.
            let remove_worktree = match worktree.exists() {
                true => format!("git worktree remove -f -f {} && ", output::shell_word(&worktree)),
                false => String::new(),
            };
            output::note(format_args!(
                "the rehearsal's commits are on branch `{branch}`: `{remove_worktree}git branch -D {}` removes them",
                output::shell_word(branch.as_ref())
            ));
        } else if !options.is_rehearsal() && !has_commit_step && !is_in_base {
            output::note(format_args!("run `{}` to merge the result", run_worktrees.merge_command()));
        }
        Ok(())
    };
    if let Err(error) = remove() {
        output::note(format_args!("cannot remove the worktrees of the run: {error}"));
    }
}
