//! The work of a run as a whole: what it changes, its one commit, and its push. A tree is a git tree.

use std::fs;
use std::path::Path;

use protocol::brief::TreeReset;

use super::merge::EFFECT_TRAILER;
use super::tree_hash::store_tree;
use super::worktrees::WorktreeId;
use super::{Git, GitError, RunWorktrees, WorktreeError};
use crate::atomic_file::replace_synced_file;

/// What a run's work changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChanges {
    /// All files, new and deleted ones included.
    pub changed: Vec<String>,
    pub deleted: Vec<String>,
    /// As `git diff --stat` shows it.
    pub stat: String,
    /// The tree of the work as it was compared. It can be committed.
    pub tree: String,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Push {
    /// The remote has the commit.
    Done {
        remote: String,
    },
    NoRemote,
}

impl RunWorktrees {
    /// Compares the worktree of the integration branch with the merge base of that branch and the commit that the run
    /// starts from. New files count.
    pub fn run_changes(&self) -> Result<RunChanges, WorktreeError> {
        self.ensure_integration()?;
        let lock = self.lock(WorktreeId::Integration)?;
        let git = Git::locked(&self.worktree_path(WorktreeId::Integration), &lock);
        // New files become part of the comparison, and stay uncommitted.
        git.run(["add", "--intent-to-add", "--all", "."])?;
        let from = git.run(["merge-base", &self.options.start, "HEAD"])?;
        let names = git.run(["diff", "--name-status", "--no-renames", "-z", &from])?;
        let mut fields = names.split('\0').filter(|field| !field.is_empty());
        let (mut changed, mut deleted) = (Vec::new(), Vec::new());
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            changed.push(path.to_owned());
            if status.starts_with('D') {
                deleted.push(path.to_owned());
            }
        }
        let stat = git.run(["diff", "--stat", "--no-renames", &from])?;
        Ok(RunChanges { changed, deleted, stat, tree: store_tree(git.dir())? })
    }

    /// Resets the files of the integration branch's worktree to a tree of [`Self::run_changes`]. This removes what checks and
    /// other agents have left since. A reset with the `number` of the last one does nothing, so a repeated attempt keeps the
    /// work of the attempt before.
    pub fn reset_to_tree(&self, TreeReset { tree, number }: &TreeReset) -> Result<(), WorktreeError> {
        let lock = self.lock(WorktreeId::Integration)?;
        let (done_file, number) = (self.state_file(WorktreeId::Integration, "reset"), number.to_string());
        if fs::read_to_string(&done_file).is_ok_and(|last| last == number) {
            return Ok(());
        }
        // The tree is missing if the run was imported from another repository.
        if self.repo_git().run(["cat-file", "-e", tree]).is_ok() {
            restore_files(&Git::locked(&self.worktree_path(WorktreeId::Integration), &lock), tree)?;
        }
        replace_synced_file(&done_file, number.as_bytes())
            .map_err(|source| WorktreeError::Io { path: done_file, source })
    }

    /// Commits `tree` on the integration branch, or everything in the worktree if there is no tree. Changes that were made after
    /// [`Self::run_changes`] returned the tree stay uncommitted. The trailer of the commit is `key`, which identifies the
    /// effect. Returns the commit's id.
    pub fn commit_work(&self, message: &str, key: &str, tree: Option<&str>) -> Result<String, WorktreeError> {
        self.ensure_integration()?;
        let lock = self.lock(WorktreeId::Integration)?;
        let git = Git::locked(&self.worktree_path(WorktreeId::Integration), &lock);
        self.check_conflict_markers(&git)?;
        match tree {
            Some(tree) => git.run(["read-tree", tree])?,
            None => git.run(["add", "--all"])?,
        };
        let from = git.run(["merge-base", &self.options.start, "HEAD"])?;
        if git.run(["write-tree"])? == git.run(["rev-parse", &format!("{from}^{{tree}}")])? {
            return Err(WorktreeError::NoChange { branch: self.integration_branch() });
        }
        let trailer = format!("{EFFECT_TRAILER}: {key}");
        let message = format!("{}\n\n{trailer}\n", message.trim_end());
        // An empty commit is allowed: if the agent has committed its work, only the trailer is new.
        git.with_identity()?.run([
            "commit",
            "--quiet",
            "--no-verify",
            "--allow-empty",
            "--cleanup=whitespace",
            "-m",
            &message,
        ])?;
        Ok(git.commit_id("HEAD")?)
    }

    /// Returns the whole message of a commit.
    pub fn commit_message(&self, commit: &str) -> Result<String, WorktreeError> {
        Ok(self.repo_git().run(["log", "-1", "--format=%B", commit])?.trim_end().to_owned())
    }

    /// Returns the remote that has the integration branch as it is here.
    pub fn pushed_remote(&self) -> Result<Option<String>, WorktreeError> {
        let repo = self.repo_git();
        let Some(remote) = remote(&repo)? else { return Ok(None) };
        let reference = format!("refs/heads/{}", self.integration_branch());
        let local = repo.commit_id(&reference)?;
        let found = repo.run(["ls-remote", &remote, &reference])?;
        let is_there = found.split_whitespace().next() == Some(local.as_str());
        Ok(is_there.then_some(remote))
    }

    /// Pushes the integration branch. Never by force.
    pub fn push(&self) -> Result<Push, WorktreeError> {
        let repo = self.repo_git();
        let Some(remote) = remote(&repo)? else { return Ok(Push::NoRemote) };
        let reference = format!("refs/heads/{}", self.integration_branch());
        repo.run(["push", "--quiet", &remote, &format!("{reference}:{reference}")])?;
        Ok(Push::Done { remote })
    }
}

/// Resets the files of a worktree to those of a tree. Ignored files stay.
pub(super) fn restore_files(git: &Git, tree: &str) -> Result<(), WorktreeError> {
    // `read-tree` removes only files that the index has.
    git.run(["add", "--all"])?;
    git.run(["read-tree", "--reset", "-u", tree])?;
    git.run(["reset", "--quiet"])?;
    Ok(())
}

/// Returns the commit of a branch on the remote; `None` if there is no remote or no such branch.
pub fn remote_branch_commit(repo: &Path, branch: &str) -> Result<Option<String>, GitError> {
    let repo = Git::new(repo);
    let Some(remote) = remote(&repo)? else { return Ok(None) };
    let found = repo.run(["ls-remote", &remote, &format!("refs/heads/{branch}")])?;
    Ok(found.split_whitespace().next().map(str::to_owned))
}

/// Creates or fast-forwards a branch from the remote, if the remote has commits of it that are missing here. Fails if the two have
/// diverged.
pub fn fetch_branch(repo: &Path, branch: &str) -> Result<(), GitError> {
    let Some(commit) = remote_branch_commit(repo, branch)? else { return Ok(()) };
    let repo = Git::new(repo);
    let reference = format!("refs/heads/{branch}");
    if repo.has_branch(branch)? && repo.has_commit(&commit)? && repo.is_ancestor(&commit, &reference)? {
        return Ok(());
    }
    let remote = remote(&repo)?.unwrap_or_default();
    repo.run(["fetch", "--quiet", &remote, &format!("{reference}:{reference}")]).map(drop)
}

/// Returns the commit of a branch of this repository, or else of its remote as it was last fetched.
pub fn find_branch_commit(repo: &Path, branch: &str) -> Result<Option<String>, GitError> {
    let git = Git::new(repo);
    let remote = remote(&git)?.map(|remote| format!("refs/remotes/{remote}/{branch}"));
    for reference in [Some(format!("refs/heads/{branch}")), remote].into_iter().flatten() {
        let found = git.check(["rev-parse", "--quiet", "--verify", &format!("{reference}^{{commit}}")])?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns `origin`, or else the first remote.
fn remote(repo: &Git) -> Result<Option<String>, GitError> {
    let remotes = repo.run(["remote"])?;
    let mut names = remotes.lines();
    let origin = names.clone().find(|name| *name == "origin");
    Ok(origin.or_else(|| names.next()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_fetched_when_its_commits_are_only_on_the_remote() {
        let dir = tempfile::tempdir().unwrap();
        let (remote, repo) = (dir.path().join("remote"), dir.path().join("repo"));
        let commit = |dir: &Path| {
            let git = Git::new(dir).with_identity().unwrap();
            git.run(["commit", "--quiet", "--allow-empty", "--message=work"]).unwrap();
            git.commit_id("HEAD").unwrap()
        };
        let root = Git::new(dir.path());
        root.run(["init", "--quiet", "--initial-branch=work", "remote"]).unwrap();
        commit(&remote);
        root.run(["clone", "--quiet", "remote", "repo"]).unwrap();
        Git::new(&repo).run(["checkout", "--quiet", "--detach"]).unwrap();
        let newest = commit(&remote);
        fetch_branch(&repo, "work").unwrap();
        assert_eq!(Git::new(&repo).commit_id("refs/heads/work").unwrap(), newest);
        Git::new(&repo).run(["checkout", "--quiet", "work"]).unwrap();
        fetch_branch(&repo, "work").unwrap();
    }
}
