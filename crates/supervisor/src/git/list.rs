//! The worktrees of a repository: those of runs, and those of the user.

use std::path::{Path, PathBuf};

use super::command::{Git, GitError};
use super::worktrees::LOCK_REASON;

/// A worktree that is registered in the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct ListedWorktree {
    pub path: PathBuf,
    /// The branch that is checked out in it; `None` if its HEAD is detached.
    pub branch: Option<String>,
    /// `None` if it is not locked.
    pub lock_reason: Option<String>,
}

impl ListedWorktree {
    /// Whether its directory exists.
    pub fn exists(&self) -> bool {
        self.path.join(".git").exists()
    }

    /// Returns the run that it was made for.
    pub fn run(&self) -> Option<&str> {
        self.lock_reason.as_deref()?.strip_prefix(LOCK_REASON)
    }
}

/// Returns the worktrees of a repository, the main one first.
pub fn list_worktrees(repo: &Path) -> Result<Vec<ListedWorktree>, GitError> {
    list(&Git::new(repo))
}

pub(super) fn list(repo: &Git) -> Result<Vec<ListedWorktree>, GitError> {
    let text = repo.run(["worktree", "list", "--porcelain", "-z"])?;
    let mut found: Vec<ListedWorktree> = Vec::new();
    for line in text.split('\0') {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match (key, found.last_mut()) {
            ("worktree", _) => {
                found.push(ListedWorktree { path: value.into(), branch: None, lock_reason: None });
            }
            ("branch", Some(last)) => last.branch = value.strip_prefix("refs/heads/").map(str::to_owned),
            ("locked", Some(last)) => last.lock_reason = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktrees_are_listed_with_branch_lock_and_run() {
        let root = tempfile::tempdir().unwrap();
        let repo = root.path().canonicalize().unwrap().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let git = Git::new(&repo).with_identity().unwrap();
        git.run(["init", "--quiet", "--initial-branch=main"]).unwrap();
        git.run(["commit", "--quiet", "--allow-empty", "--message=empty"]).unwrap();
        let add = |name: &str, option: &str| git.run(["worktree", "add", "--quiet", option, name]).unwrap();
        add("../side", "--detach");
        add("../of\nrun", "-bwork");
        git.run(["worktree", "lock", "../side"]).unwrap();
        git.run(["worktree", "lock", &format!("--reason={LOCK_REASON}trial"), "../of\nrun"]).unwrap();
        let listed = list_worktrees(&repo).unwrap();
        let of_run = listed.iter().find(|listed| listed.path == repo.with_file_name("of\nrun")).unwrap();
        assert_eq!(
            (of_run.branch.as_deref(), of_run.run(), of_run.exists()),
            (Some("work"), Some("trial"), true)
        );
        let side = listed.iter().find(|listed| listed.path == repo.with_file_name("side")).unwrap();
        assert_eq!((side.branch.as_deref(), side.lock_reason.as_deref(), side.run()), (None, Some(""), None));
        assert_eq!((&listed[0].path, listed[0].branch.as_deref()), (&repo, Some("main")));
        assert_eq!(listed.len(), 3);
    }
}
