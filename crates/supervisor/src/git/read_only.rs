//! Read-only attempts: what they change in a worktree is undone.

use std::fs;
use std::io;

use protocol::brief::Worktree;
use serde::{Deserialize, Serialize};

use super::publish::restore_files;
use super::tree_hash::store_tree;
use super::{Git, RunWorktrees, WorktreeError};
use crate::atomic_file::replace_synced_file;

/// The suffix of the file with the [`WorktreeSnapshot`] of a worktree.
const SNAPSHOT_SUFFIX: &str = "snapshot";

/// The state of a worktree before a read-only attempt.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WorktreeSnapshot {
    /// Its files, committed or not.
    tree: String,
    /// The commit of a merge in progress. The next commit would have it as a parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    merge: Option<String>,
    /// `None` if the engine does not commit: then the work is in the files, and only effects of the run make commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<BranchSnapshot>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BranchSnapshot {
    commit: String,
    /// The reference that is checked out, or the commit.
    head: String,
}

impl RunWorktrees {
    /// Records a worktree for [`Self::discard_read_only_changes`]. Keeps the record of an earlier attempt, if there is one.
    pub fn snapshot_work(&self, worktree: Option<&Worktree>) -> Result<(), WorktreeError> {
        let tree = worktree.into();
        let lock = self.lock(tree)?;
        let file = self.state_file(tree, SNAPSHOT_SUFFIX);
        if file.exists() {
            return Ok(());
        }
        let git = Git::locked(&self.worktree_path(tree), &lock);
        let snapshot = serde_json::to_vec(&self.snapshot(&git, worktree)?).expect("BUG: it is plain data");
        replace_synced_file(&file, &snapshot).map_err(|source| WorktreeError::Io { path: file, source })
    }

    /// Resets the worktree to the record of [`Self::snapshot_work`] and removes the record. Returns a sentence about what
    /// read-only attempts had left, or `None` if there was nothing.
    pub fn discard_read_only_changes(
        &self,
        worktree: Option<&Worktree>,
    ) -> Result<Option<String>, WorktreeError> {
        let tree = worktree.into();
        let file = self.state_file(tree, SNAPSHOT_SUFFIX);
        let failed = |source| WorktreeError::Io { path: file.clone(), source };
        let recorded: WorktreeSnapshot = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let lock = self.lock(tree)?;
        let path = self.worktree_path(tree);
        let mut left_commit = None;
        if let Some(BranchSnapshot { commit, .. }) = &recorded.branch {
            // An attempt may have moved or deleted its branch, and deleted the worktree.
            let (repo, branch) = (self.repo_git(), self.branch_of(worktree));
            let reference = format!("refs/heads/{branch}");
            left_commit = repo.check(["rev-parse", "--quiet", "--verify", &reference])?;
            left_commit.take_if(|found| found == commit);
            repo.run(["update-ref", &reference, commit])?;
            self.ensure(tree, &lock, &branch, commit)?;
        }
        let git = Git::locked(&path, &lock);
        let found = self.snapshot(&git, worktree)?;
        if found != recorded {
            if let Some(BranchSnapshot { head, .. }) = &recorded.branch {
                git.try_run(["rebase", "--quit"])?;
                match head.starts_with("refs/") {
                    true => git.run(["symbolic-ref", "HEAD", head])?,
                    false => git.run(["update-ref", "--no-deref", "HEAD", head])?,
                };
            }
            restore_files(&git, &recorded.tree)?;
        }
        fs::remove_file(&file).map_err(failed)?;
        if found == recorded && left_commit.is_none() {
            return Ok(None);
        }
        let files = git.run(["diff", "--name-only", &recorded.tree, &found.tree])?;
        let mut left: Vec<_> = files.lines().map(str::to_owned).collect();
        left.extend(
            found.merge.filter(|_| recorded.merge.is_none()).map(|commit| format!("a merge of {commit}")),
        );
        let head = |snapshot: Option<BranchSnapshot>| snapshot.map(|BranchSnapshot { head, .. }| head);
        let (found_head, recorded_head) = (head(found.branch), head(recorded.branch));
        left.extend(found_head.filter(|head| Some(head) != recorded_head.as_ref()).map(|head| {
            match head.strip_prefix("refs/heads/") {
                Some(branch) => format!("HEAD on branch `{branch}`"),
                None => format!("HEAD at {head}"),
            }
        }));
        left.extend(left_commit.map(|commit| format!("commit {commit}")));
        Ok(Some(format!("its step only reads; what it left was removed: {}", left.join(", "))))
    }

    /// Returns whether the engine commits what attempts leave. If so, what a read-only attempt left must be removed
    /// before that commit.
    pub fn makes_commits(&self) -> bool {
        !self.options.no_commit
    }

    fn snapshot(&self, git: &Git, worktree: Option<&Worktree>) -> Result<WorktreeSnapshot, WorktreeError> {
        let tree = store_tree(git.dir())?;
        let merge = git.check(["rev-parse", "--quiet", "--verify", "MERGE_HEAD"])?;
        if self.options.no_commit {
            return Ok(WorktreeSnapshot { tree, merge, branch: None });
        }
        let commit = git.commit_id(&format!("refs/heads/{}", self.branch_of(worktree)))?;
        let head = match git.check(["symbolic-ref", "--quiet", "HEAD"])? {
            Some(reference) => reference,
            None => git.commit_id("HEAD")?,
        };
        Ok(WorktreeSnapshot { tree, merge, branch: Some(BranchSnapshot { commit, head }) })
    }
}
