//! What a run has changed, for people who decide about it.

use protocol::brief::Worktree;
use serde::Serialize;

use super::worktrees::WorktreeId;
use super::{Git, RunWorktrees, WorktreeError};

/// How many files are listed.
const LISTED: usize = 20;

/// A summary of the changes on a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiffSummary {
    /// The lines of `git diff --stat`.
    pub stat: Vec<String>,
    /// The command that shows the whole difference.
    pub command: String,
}

impl RunWorktrees {
    /// Returns what the branch of `worktree` adds to the integration branch; without one, what the integration branch adds to
    /// the base branch. `None` if there is nothing.
    pub fn changes(&self, worktree: Option<&Worktree>) -> Result<Option<DiffSummary>, WorktreeError> {
        let integration = self.integration_branch();
        let (from, to) = match worktree {
            Some(worktree) => (integration, self.branch(worktree)),
            None => (self.options.base.clone().unwrap_or_else(|| self.options.start.clone()), integration),
        };
        let repo = self.repo_git();
        if !repo.has_branch(&to)? || repo.check(["rev-parse", "--quiet", "--verify", &from])?.is_none() {
            return Ok(None);
        }
        let tree = WorktreeId::from(worktree);
        // With `no_commit` the engine commits nothing: the work is in the files of the worktree.
        let changes = match self.options.no_commit && self.worktree_path(tree).join(".git").exists() {
            true => self.uncommitted(tree, &from)?,
            false => {
                let range = format!("{from}...{to}");
                DiffSummary {
                    stat: stat(&repo, &range)?,
                    command: shell_words::join(["git", "diff", &range]),
                }
            }
        };
        Ok((!changes.stat.is_empty()).then_some(changes))
    }

    fn uncommitted(&self, tree: WorktreeId<'_>, from: &str) -> Result<DiffSummary, WorktreeError> {
        let path = self.worktree_path(tree);
        let git = Git::new(&path);
        let from = git.run(["merge-base", from, "HEAD"])?;
        let new = git.run(["ls-files", "--others", "--exclude-standard"])?;
        let new = new.lines().take(LISTED).map(|file| format!(" {file} | not in git"));
        let stat = stat(&git, &from)?.into_iter().chain(new).collect();
        Ok(DiffSummary {
            stat,
            command: shell_words::join(["git", "-C", &path.to_string_lossy(), "diff", &from]),
        })
    }
}

fn stat(git: &Git, range: &str) -> Result<Vec<String>, WorktreeError> {
    let count = format!("--stat-count={LISTED}");
    let stat = git.run(["diff", "--no-color", "--no-ext-diff", "--stat=100", &count, range, "--"])?;
    Ok(stat.lines().map(str::to_owned).collect())
}
