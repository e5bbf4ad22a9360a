//! `--git-worktree`: the run works in a git worktree and on a branch of its own, as in the original of `steps`.

use std::path::{Component, Path, PathBuf};

use protocol::RunId;
use supervisor::git::{self, WorktreeOptions};

use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::workspace::definition;
use crate::workspace::worktrees::{self, WorktreeRequirements};

/// The default root: the directory that has the worktrees, relative to the repository.
const ROOT: &str = ".agents/worktrees";

/// The directory below the root for the worktrees of a run's steps and for locks. The root itself has the worktrees of runs.
const STATE: &str = ".callboard";

#[derive(Debug, clap::Args)]
pub(super) struct GitWorktree {
    /// Run in a git worktree and on a branch of its own; at the end the command to merge is printed
    #[arg(long)]
    git_worktree: bool,

    /// The commit at which the branch starts [default: HEAD]
    #[arg(long, value_name = "REF", requires = "git_worktree")]
    git_worktree_ref: Option<String>,

    /// The name of the branch [default: agents/run-RUN]
    #[arg(long, value_name = "NAME", requires = "git_worktree")]
    git_worktree_branch: Option<String>,

    /// The directory of the worktree [default: .agents/worktrees]
    #[arg(long, value_name = "DIR", requires = "git_worktree")]
    git_worktree_root: Option<PathBuf>,

    /// Keep the worktree when the run has succeeded; the branch always stays
    #[arg(long, requires = "git_worktree")]
    git_worktree_keep: bool,
}

impl GitWorktree {
    pub(super) fn is_given(&self) -> bool {
        self.git_worktree
    }

    /// Returns how the worktree is made. Makes git ignore the root if it is inside the repository.
    pub(super) fn options(self, workspace: &Workspace, run: &RunId) -> Result<WorktreeOptions, Failure> {
        let repo = &workspace.repo;
        let branch_flag = self.git_worktree_branch.is_some().then_some("--git-worktree-branch");
        let branch = self.git_worktree_branch.unwrap_or_else(|| format!("agents/run-{run}"));
        let is_name = git::is_branch_name(repo, &branch)
            .map_err(|error| Failure::usage("cannot make a worktree").because(Some(&error)))?;
        if !is_name {
            let what = format!("`{branch}` cannot be the name of a branch");
            return Err(Failure::usage(what).hint("choose another one with `--git-worktree-branch`"));
        }
        // A relative path starts at the repository, as the default does.
        let root = repo.join(self.git_worktree_root.unwrap_or_else(|| ROOT.into()));
        let start = self.git_worktree_ref.map(|revision| {
            git::commit_of(repo, &revision).map_err(|error| {
                Failure::usage(format!("`--git-worktree-ref {revision}` names no commit"))
                    .because(Some(&error))
            })
        });
        let worktree_dir = root.join(branch.replace('/', "__"));
        let wanted = WorktreeRequirements {
            no_merge: true,
            integration: Some(branch),
            branch_flag,
            ..WorktreeRequirements::default()
        };
        let mut options = worktrees::options(workspace, run, wanted)?;
        if let Some(start) = start.transpose()? {
            options.start = start;
        }
        options.dir = root.join(STATE).join(run.as_str());
        options.integration_dir = Some(worktree_dir.clone());
        options.keep = self.git_worktree_keep;
        worktrees::refuse_leftovers(workspace, run, &options, branch_flag)?;
        for directory in excluded_directories(repo, &root, &worktree_dir) {
            definition::exclude(repo, &[&directory])?;
        }
        Ok(options)
    }
}

/// Returns the patterns for `info/exclude`: the directory of the worktrees if it is in the repository, or else, if it is the
/// repository itself, what is made there.
fn excluded_directories(repo: &Path, root: &Path, worktree_dir: &Path) -> Vec<String> {
    let pattern = |directory: &Path| {
        let inside = directory.strip_prefix(repo).ok()?;
        let is_plain =
            inside.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let names: Vec<_> = inside.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let path = names.iter().collect::<PathBuf>();
        (is_plain && !names.is_empty()).then(|| format!("/{}/", path.display()))
    };
    match pattern(root) {
        Some(root) => vec![root],
        None => [root.join(STATE), worktree_dir.to_owned()].iter().filter_map(|made| pattern(made)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_in_the_repository_is_excluded() {
        let excluded = |root: &str| {
            let root = Path::new("/repo").join(root);
            excluded_directories(Path::new("/repo"), &root, &root.join("agents__run-t"))
        };
        assert_eq!(excluded("trees"), ["/trees/"]);
        assert_eq!(excluded("."), ["/.callboard/", "/agents__run-t/"]);
        assert_eq!(excluded("../trees"), [""; 0]);
        assert_eq!(excluded("/elsewhere"), [""; 0]);
    }
}
