//! The work of a run as a whole: what it changes, its one commit, and its push.

use super::merge::EFFECT;
use super::trees::Tree;
use super::{Git, RunTrees, TreeError};

/// What a run's work changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkChanges {
    /// All files, new and deleted ones included.
    pub changed: Vec<String>,
    pub deleted: Vec<String>,
    /// As `git diff --stat` shows it.
    pub stat: String,
}

/// Where a push goes, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Push {
    /// The remote has the commit.
    Done {
        remote: String,
    },
    NoRemote,
}

impl RunTrees {
    /// Compares the worktree of the integration branch with the commit that the run starts from. New files count.
    pub fn work_changes(&self) -> Result<WorkChanges, TreeError> {
        self.ensure_integration()?;
        let lock = self.lock(Tree::Integration)?;
        let git = Git::locked(&self.tree_path(Tree::Integration), &lock);
        // New files become part of the comparison, and stay uncommitted.
        git.run(["add", "--intent-to-add", "--all", "."])?;
        let names = git.run(["diff", "--name-status", "--no-renames", "-z", &self.options.start])?;
        let mut fields = names.split('\0').filter(|field| !field.is_empty());
        let (mut changed, mut deleted) = (Vec::new(), Vec::new());
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            changed.push(path.to_owned());
            if status.starts_with('D') {
                deleted.push(path.to_owned());
            }
        }
        let stat = git.run(["diff", "--stat", "--no-renames", &self.options.start])?;
        Ok(WorkChanges { changed, deleted, stat })
    }

    /// Commits everything in the worktree of the integration branch. The commit gets the key as a trailer. Returns its id.
    pub fn commit_work(&self, message: &str, key: &str) -> Result<String, TreeError> {
        self.ensure_integration()?;
        let lock = self.lock(Tree::Integration)?;
        let git = Git::locked(&self.tree_path(Tree::Integration), &lock);
        self.check_markers(&git)?;
        git.run(["add", "--all"])?;
        let trailer = format!("{EFFECT}: {key}");
        let message = format!("{}\n\n{trailer}\n", message.trim_end());
        // An agent that has committed by itself leaves nothing to commit.
        git.committing()?.run([
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
    pub fn commit_text(&self, commit: &str) -> Result<String, TreeError> {
        Ok(self.repo_git().run(["log", "-1", "--format=%B", commit])?.trim_end().to_owned())
    }

    /// Returns the remote that has the integration branch as it is here.
    pub fn find_push(&self) -> Result<Option<String>, TreeError> {
        let repo = self.repo_git();
        let Some(remote) = remote(&repo)? else { return Ok(None) };
        let reference = format!("refs/heads/{}", self.integration_branch());
        let local = repo.commit_id(&reference)?;
        let found = repo.run(["ls-remote", &remote, &reference])?;
        let is_there = found.split_whitespace().next() == Some(local.as_str());
        Ok(is_there.then_some(remote))
    }

    /// Pushes the integration branch. Never by force.
    pub fn push(&self) -> Result<Push, TreeError> {
        let repo = self.repo_git();
        let Some(remote) = remote(&repo)? else { return Ok(Push::NoRemote) };
        let reference = format!("refs/heads/{}", self.integration_branch());
        repo.run(["push", "--quiet", &remote, &format!("{reference}:{reference}")])?;
        Ok(Push::Done { remote })
    }
}

/// Returns `origin`, or else the first remote.
fn remote(repo: &Git) -> Result<Option<String>, TreeError> {
    let remotes = repo.run(["remote"])?;
    let mut names = remotes.lines();
    let origin = names.clone().find(|name| *name == "origin");
    Ok(origin.or_else(|| names.next()).map(str::to_owned))
}
