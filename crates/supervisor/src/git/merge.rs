//! The merge queue: merges one branch after the other into the integration branch. At the end of the run, the base
//! branch is fast-forwarded to it.

use std::path::{Path, PathBuf};

use protocol::brief::Worktree;

use super::list::list;
use super::worktrees::WorktreeId;
use super::{Git, GitError, MergeStrategy, RunWorktrees, WorktreeError};
use crate::checks::CheckError;

/// The trailer that names an effect in the commit that it made.
pub(super) const EFFECT_TRAILER: &str = "Callboard-Effect";

/// How many lines of a conflict are shown.
const SHOWN_LINES: usize = 200;

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// This commit of the integration branch has the changes.
    Commit(String),
    /// The branch does not exist, or the integration branch has all of its commits.
    Nothing,
    Conflict(Conflict),
    /// The caller refused the merged tree, for example because a check failed.
    Refused,
}

/// What cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub files: Vec<String>,
    /// The conflicting hunks as `git diff` shows them.
    pub diff: String,
}

/// The result of a fast-forward of the base branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastForward {
    /// The base branch has all commits of the run.
    Done,
    /// The user must merge by hand, for this reason.
    NotPossible(String),
}

/// What a branch has that the integration branch does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchChanges {
    /// Short ids with their subjects, oldest first.
    pub commits: Vec<String>,
    pub files: Vec<String>,
}

impl BranchChanges {
    /// Returns the changes as a field of a report.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "commits": self.commits, "files": self.files })
    }
}

impl RunWorktrees {
    /// Returns what the branch of a worktree changes.
    pub fn worktree_changes(&self, worktree: &Worktree) -> Result<BranchChanges, WorktreeError> {
        self.commits_and_files(&self.branch(worktree))
    }

    /// Returns what a branch changes, or `None` if it does not exist.
    pub fn changes_of_branch(&self, branch: &str) -> Result<Option<BranchChanges>, WorktreeError> {
        self.repo_git().has_branch(branch)?.then(|| self.commits_and_files(branch)).transpose()
    }

    /// Returns what a branch has that the integration branch does not have. Without an integration branch, compares with the
    /// commit that the run starts from.
    fn commits_and_files(&self, branch: &str) -> Result<BranchChanges, WorktreeError> {
        let (repo, integration) = (self.repo_git(), self.integration_branch());
        let base = if repo.has_branch(&integration)? { integration } else { self.options.start.clone() };
        // A file or directory may have the name of a branch: `--` says that it is not meant.
        let log =
            repo.run(["log", "--reverse", "--no-merges", "--format=%h - %s", branch, "--not", &base, "--"])?;
        let diff = repo.run(["diff", "--name-only", "-z", &format!("{base}...{branch}"), "--"])?;
        Ok(BranchChanges {
            commits: log.lines().map(str::to_owned).collect(),
            files: diff.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// Returns the branches below a name, and the branch of that name if it exists.
    pub fn branches_below(&self, name: &str) -> Result<Vec<String>, WorktreeError> {
        let pattern = format!("refs/heads/{name}");
        let found = self.repo_git().run(["for-each-ref", "--format=%(refname:lstrip=2)", &pattern])?;
        Ok(found.lines().map(str::to_owned).collect())
    }

    /// Returns the commit on the integration branch that an effect has made before. `key` identifies the effect.
    pub fn find_effect_commit(&self, key: &str) -> Result<Option<String>, WorktreeError> {
        let repo = self.repo_git();
        let integration = self.integration_branch();
        if !repo.has_branch(&integration)? {
            return Ok(None);
        }
        let format = format!("--format=%H %(trailers:key={EFFECT_TRAILER},valueonly,separator=%x2C)");
        let log = repo.run(["log", &format, &integration, "--not", &self.options.start, "--"])?;
        let found = log.lines().filter_map(|line| line.split_once(' '));
        Ok(found
            .filter(|(_, keys)| keys.split(',').any(|found| found == key))
            .map(|(id, _)| id.to_owned())
            .next())
    }

    /// Merges the branch of a worktree into the integration branch. The commit gets `key`, which identifies the effect,
    /// as a trailer. `accept` judges the merged tree before the branch moves.
    pub fn merge(
        &self,
        worktree: &Worktree,
        key: &str,
        accept: impl FnOnce(&Path) -> Result<bool, CheckError>,
    ) -> Result<MergeOutcome, WorktreeError> {
        self.ensure_integration()?;
        // Serial: the next merge starts when this one has moved the branch.
        let lock = self.lock(WorktreeId::Merge)?;
        let repo = Git::locked(&self.repo, &lock);
        let (branch, integration) = (self.branch(worktree), self.integration_branch());
        if !repo.has_branch(&branch)? || repo.is_ancestor(&branch, &integration)? {
            return Ok(MergeOutcome::Nothing);
        }
        let old = repo.commit_id(&integration)?;
        let git =
            self.add_worktree(WorktreeId::Merge, &lock, |_| Ok(vec!["--detach".to_owned(), old.clone()]))?;
        clean_merge_tree(&git)?;
        let trailer = format!("{EFFECT_TRAILER}: {key}");
        let git = git.with_identity()?;
        let conflict = match self.options.strategy {
            MergeStrategy::Merge => {
                git.run(["checkout", "--quiet", "--detach", &old])?;
                let subject = format!("Merge `{}`", worktree.name);
                let merge = [
                    "merge",
                    "--no-ff",
                    "--no-verify",
                    "--no-log",
                    "--quiet",
                    "-m",
                    &subject,
                    "-m",
                    &trailer,
                    &branch,
                ];
                run_until_conflict(&git, &merge)?
            }
            MergeStrategy::Rebase => {
                git.run(["checkout", "--quiet", "--detach", &branch, "--"])?;
                // After a conflict, the agent merges the integration branch into its own. A rebase would drop that merge.
                let conflict = match git.is_ancestor(&old, "HEAD")? {
                    true => None,
                    false => run_until_conflict(&git, &["rebase", "--quiet", &old])?,
                };
                if conflict.is_none() && git.is_ancestor("HEAD", &old)? {
                    return Ok(MergeOutcome::Nothing);
                }
                if conflict.is_none() {
                    git.run([
                        "commit",
                        "--amend",
                        "--quiet",
                        "--no-edit",
                        "--no-verify",
                        "--allow-empty",
                        "--trailer",
                        &trailer,
                    ])?;
                }
                conflict
            }
        };
        if let Some(conflict) = conflict {
            clean_merge_tree(&git)?;
            return Ok(MergeOutcome::Conflict(conflict));
        }
        // The id is read before `accept`: its checks may run git and move HEAD.
        let new = git.commit_id("HEAD")?;
        if !accept(git.dir())? {
            return Ok(MergeOutcome::Refused);
        }
        self.advance(&new)?;
        Ok(MergeOutcome::Commit(new))
    }

    /// Runs `check` on the tree of a commit that an earlier merge has made.
    pub fn check_merged<T>(
        &self,
        commit: &str,
        check: impl FnOnce(&Path) -> Result<T, CheckError>,
    ) -> Result<T, WorktreeError> {
        let lock = self.lock(WorktreeId::Merge)?;
        let git = self
            .add_worktree(WorktreeId::Merge, &lock, |_| Ok(vec!["--detach".to_owned(), commit.to_owned()]))?;
        clean_merge_tree(&git)?;
        git.run(["checkout", "--quiet", "--detach", commit])?;
        Ok(check(git.dir())?)
    }

    /// Moves the integration branch and its worktree to a commit. Fails if the branch has moved since the merge began, because
    /// the commit is then not a descendant of it.
    ///
    /// `git merge --ff-only` compares and sets the branch, as `git update-ref` does. It also locks the index of the worktree, so
    /// that a step that commits there at the same moment cannot revert the merge.
    fn advance(&self, new: &str) -> Result<(), WorktreeError> {
        let lock = self.lock(WorktreeId::Integration)?;
        let git = Git::locked(&self.worktree_path(WorktreeId::Integration), &lock);
        git.run(["merge", "--ff-only", "--quiet", new])?;
        Ok(())
    }

    /// Returns the command with which a user merges the run.
    pub fn merge_command(&self) -> String {
        let branch = self.integration_branch();
        let merge = format!("git merge {}", shell_words::quote(&branch));
        match &self.options.base {
            Some(base) => format!("git switch {} && {merge}", shell_words::quote(base)),
            None => merge,
        }
    }

    /// Returns whether the run does not fast-forward the base branch, but leaves that to the user.
    pub fn is_merge_disabled(&self) -> bool {
        self.options.no_merge
    }

    /// Returns whether the base branch has all commits of the integration branch.
    pub fn is_in_base(&self) -> Result<bool, WorktreeError> {
        let Some(base) = &self.options.base else { return Ok(false) };
        let (repo, integration) = (self.repo_git(), self.integration_branch());
        if !repo.has_branch(&integration)? {
            return Ok(true);
        }
        Ok(repo.has_branch(base)? && repo.is_ancestor(&integration, base)?)
    }

    /// Fast-forwards the base branch, if git can do that without touching local changes.
    pub fn fast_forward(&self) -> Result<FastForward, WorktreeError> {
        let Some(base) = &self.options.base else {
            return Ok(FastForward::NotPossible("the run was started without a branch".to_owned()));
        };
        if self.is_in_base()? {
            return Ok(FastForward::Done);
        }
        let lock = self.lock(WorktreeId::Merge)?;
        let (repo, integration) = (Git::locked(&self.repo, &lock), self.integration_branch());
        if !repo.has_branch(base)? {
            return Ok(FastForward::NotPossible(format!("branch `{base}` does not exist any more")));
        }
        if !repo.is_ancestor(base, &integration)? {
            return Ok(FastForward::NotPossible(format!("branch `{base}` has new commits")));
        }
        let done = match worktree_of_branch(&repo, base)? {
            Some(path) => Git::locked(&path, &lock).run(["merge", "--ff-only", "--quiet", &integration]),
            None => {
                let (old, new) = (repo.commit_id(base)?, repo.commit_id(&integration)?);
                repo.run(["update-ref", &format!("refs/heads/{base}"), &new, &old])
            }
        };
        match done {
            Ok(_) => Ok(FastForward::Done),
            Err(GitError::Failed { message, .. }) => Ok(FastForward::NotPossible(one_line_reason(&message))),
            Err(error @ GitError::Spawn { .. }) => Err(error.into()),
        }
    }
}

/// Returns git's reason in one line: what it refuses, and the files that it names.
fn one_line_reason(message: &str) -> String {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let first = ["error: ", "fatal: "].iter().find_map(|prefix| first.strip_prefix(prefix)).unwrap_or(first);
    let files: Vec<_> = lines.filter_map(|line| line.strip_prefix('\t')).collect();
    match files.as_slice() {
        [] => first.to_owned(),
        files => format!("{} {}", first.trim_end(), files.join(", ")),
    }
}

/// Returns the worktree in which a branch is checked out.
pub(super) fn worktree_of_branch(repo: &Git, branch: &str) -> Result<Option<PathBuf>, GitError> {
    let listed = list(repo)?.into_iter().find(|listed| listed.branch.as_deref() == Some(branch));
    Ok(listed.map(|listed| listed.path))
}

/// Undoes what an earlier merge has left in the merge worktree. Nothing else works there.
fn clean_merge_tree(git: &Git) -> Result<(), WorktreeError> {
    remove_stale_index_lock(git)?;
    git.try_run(["rebase", "--abort"])?;
    git.run(["reset", "--hard", "--quiet"])?;
    git.run(["clean", "-f", "-d", "--quiet"])?;
    Ok(())
}

/// Removes the lock of the index that a killed git process has left. Only for a worktree in which no process works.
pub(super) fn remove_stale_index_lock(git: &Git) -> Result<(), WorktreeError> {
    let index_lock = PathBuf::from(git.run(["rev-parse", "--absolute-git-dir"])?).join("index.lock");
    match std::fs::remove_file(&index_lock) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(WorktreeError::Io { path: index_lock, source })
        }
        Err(_) | Ok(()) => Ok(()),
    }
}

/// Runs a merge or a rebase. Returns the conflict that stopped it.
fn run_until_conflict(git: &Git, command: &[&str]) -> Result<Option<Conflict>, GitError> {
    let failed = match git.run(command) {
        Ok(_) => return Ok(None),
        Err(failed) => failed,
    };
    let files = git.run(["diff", "--name-only", "--diff-filter=U", "-z"])?;
    let files: Vec<_> = files.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    if files.is_empty() {
        return Err(failed);
    }
    let hunks = git.run(["diff", "--diff-filter=U"])?;
    let shown: Vec<_> = hunks.lines().take(SHOWN_LINES).collect();
    Ok(Some(Conflict { files, diff: shown.join("\n") }))
}
