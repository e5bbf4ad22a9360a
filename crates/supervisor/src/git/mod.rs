//! git, through its command line: the worktrees and branches of a run, and its merge queue.
//!
//! A run with worktrees has an integration branch, `callboard/RUN`, made from the base branch. Steps of the run work in its
//! worktree, or in one of their own on the branch `callboard/RUN@STEP`. [`RunWorktrees`] makes these worktrees, commits what
//! attempts leave in them, and merges.
//!
//! Every function can be repeated after a crash. A git process that outlives its engine keeps the lock of its worktree, so
//! the next engine waits for it.

mod changes;
mod command;
mod copies;
mod list;
mod merge;
mod publish;
mod read_only;
#[cfg(test)]
mod tests;
mod tree_hash;
mod worktrees;

pub use changes::DiffSummary;
pub use command::GitError;
pub(crate) use command::LOCATION_VARIABLES;
use command::{Git, GitLock};
pub use list::{ListedWorktree, list_worktrees};
pub use merge::{BranchChanges, Conflict, FastForward, MergeOutcome};
pub use publish::{Push, RunChanges, fetch_branch, find_branch_commit, remote_branch_commit};
pub use tree_hash::{is_work_tree, tree_hash};
pub use worktrees::{MergeStrategy, RunWorktrees, WorktreeError, WorktreeOptions};

use std::path::Path;

/// Returns the branch that is checked out in a work tree, or `None` if its HEAD is detached, and the commit.
pub fn head(work_tree: &Path) -> Result<(Option<String>, String), GitError> {
    let git = Git::new(work_tree);
    let commit = git.run(["rev-parse", "--verify", "HEAD^{commit}"])?;
    let branch = git.check(["symbolic-ref", "--quiet", "--short", "HEAD"])?;
    Ok((branch, commit))
}

/// Returns whether tracked files of a work tree have changes that are not committed.
pub fn is_dirty(work_tree: &Path) -> Result<bool, GitError> {
    Ok(!Git::new(work_tree).run(["status", "--porcelain", "--untracked-files=no"])?.is_empty())
}

/// Returns whether the branch exists.
pub fn has_branch(repo: &Path, branch: &str) -> Result<bool, GitError> {
    Git::new(repo).has_branch(branch)
}

/// Returns the commit that a revision names.
pub fn commit_of(repo: &Path, revision: &str) -> Result<String, GitError> {
    Git::new(repo).run(["rev-parse", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")])
}

/// Returns whether a branch can have this name.
pub fn is_branch_name(repo: &Path, name: &str) -> Result<bool, GitError> {
    // Git accepts `refs/heads/-m` as a reference, and takes `-m` for an option.
    let is_plain = !name.starts_with('-') && name != "HEAD";
    Ok(is_plain && Git::new(repo).check(["check-ref-format", &format!("refs/heads/{name}")])?.is_some())
}
