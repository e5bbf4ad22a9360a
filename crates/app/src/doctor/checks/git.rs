//! git, and the worktrees of the repository.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use supervisor::git::run_of_lock;

use super::runs::Runs;
use super::{DoctorContext, Finding};
use crate::output::{count, shell_word};

const CHECK: &str = "git";

const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn check(context: &DoctorContext, runs: Option<&Runs>) -> Vec<Finding> {
    let version = match supervisor::probe(Path::new("git"), &["--version"], TIMEOUT) {
        Ok(answer) => answer.trim().trim_start_matches("git version ").to_owned(),
        Err(error) => {
            return vec![
                Finding::problem(CHECK, format!("cannot run git: {error}")).command("git --version"),
            ];
        }
    };
    let common_dir = match &context.repository {
        Ok(Some(repository)) => &repository.common_dir,
        Ok(None) => return vec![Finding::note(CHECK, format!("{version}; not in a git repository"))],
        Err(failure) => return vec![Finding::failure(CHECK, failure)],
    };
    let linked = match linked_worktrees(common_dir) {
        Ok(linked) => linked,
        Err(message) => return vec![Finding::note(CHECK, message)],
    };
    let (existing, missing): (Vec<_>, Vec<_>) = linked.into_iter().partition(LinkedWorktree::exists);
    let worktrees = count(existing.len() + 1, "worktree", "worktrees");
    let mut findings = vec![Finding::ok(CHECK, format!("{version}; {worktrees}"))];
    findings.extend(missing_worktrees(context, missing));
    findings.extend(runs.and_then(|runs| remaining_worktrees(context, &existing, runs)));
    findings
}

/// Names the worktrees whose directories were deleted.
fn missing_worktrees(context: &DoctorContext, mut missing: Vec<LinkedWorktree>) -> Option<Finding> {
    // A user locks a worktree that may be missing, such as one on a removable disk.
    missing.retain(|worktree| worktree.lock_reason.is_none() || worktree.run().is_some());
    if missing.is_empty() {
        return None;
    }
    let repo = shell_word(&context.repo);
    let worktrees = count(missing.len(), "registered worktree", "registered worktrees");
    let mut finding = Finding::note(CHECK, format!("{worktrees} missing on disk"))
        .details(missing.iter().map(|worktree| worktree.path.display().to_string()));
    // git does not prune locked worktrees.
    for worktree in missing.iter().filter(|worktree| worktree.lock_reason.is_some()) {
        finding = finding.command(format!("git -C {repo} worktree unlock {}", shell_word(&worktree.path)));
    }
    Some(finding.command(format!("git -C {repo} worktree prune")))
}

/// Names the worktrees that runs have left behind at their end: the run failed, or the worktree has changes that no other
/// branch has.
fn remaining_worktrees(context: &DoctorContext, existing: &[LinkedWorktree], runs: &Runs) -> Option<Finding> {
    let remaining = existing.iter().filter_map(|worktree| {
        let run = worktree.run()?;
        // A run that is not in this store may be running in another one.
        let is_here = runs.all.iter().any(|listing| listing.run.as_str() == run);
        let has_ended = is_here && !runs.unfinished.iter().any(|unfinished| unfinished.run.as_str() == run);
        has_ended.then_some((&worktree.path, run))
    });
    let remaining: Vec<_> = remaining.collect();
    let (first, _) = remaining.first()?;
    let (repo, first) = (shell_word(&context.repo), shell_word(first));
    let command = format!("git -C {repo} worktree unlock {first} && git -C {repo} worktree remove {first}");
    let worktrees = count(remaining.len(), "worktree remains", "worktrees remain");
    let details = remaining.iter().map(|(path, run)| format!("{} of run `{run}`", path.display()));
    Some(
        Finding::note(CHECK, format!("{worktrees} of runs that have ended"))
            .details(details)
            .command(command),
    )
}

/// A worktree that is registered in the repository.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LinkedWorktree {
    path: PathBuf,
    /// `None` if it is not locked.
    lock_reason: Option<String>,
}

impl LinkedWorktree {
    fn exists(&self) -> bool {
        self.path.join(".git").exists()
    }

    /// Returns the run that it was made for.
    fn run(&self) -> Option<&str> {
        self.lock_reason.as_deref().and_then(run_of_lock)
    }
}

/// Returns the linked worktrees, sorted by path. Fails if one cannot be read.
fn linked_worktrees(common_dir: &Path) -> Result<Vec<LinkedWorktree>, String> {
    let root = common_dir.join("worktrees");
    let cannot_read = |path: &Path, error| format!("cannot read `{}`: {error}", path.display());
    let read = |path: PathBuf| match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot_read(&path, error)),
    };
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot_read(&root, error)),
    };
    let mut linked = Vec::new();
    for entry in entries {
        let directory = entry.map_err(|error| cannot_read(&root, error))?.path();
        // Without this file, git is adding or removing the worktree.
        let Some(dot_git) = read(directory.join("gitdir"))? else { continue };
        // With `worktree.useRelativePaths` the path is relative to this directory.
        let dot_git = without_parent_components(&directory.join(dot_git.trim_end()));
        if let Some(path) = dot_git.parent() {
            linked
                .push(LinkedWorktree { path: path.to_owned(), lock_reason: read(directory.join("locked"))? });
        }
    }
    linked.sort();
    Ok(linked)
}

/// Resolves `..` without reading the disk, because the directory may be missing.
fn without_parent_components(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::Normal(_) => {
                resolved.push(component);
            }
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_of_a_worktree_is_relative_to_its_directory_in_the_repository() {
        let root = tempfile::tempdir().unwrap();
        let common_dir = root.path().join("repo/.git");
        let directory = common_dir.join("worktrees/side");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("gitdir"), "../../../../side/.git\n").unwrap();
        let expected = LinkedWorktree { path: root.path().join("side"), lock_reason: None };
        assert_eq!(linked_worktrees(&common_dir), Ok(vec![expected]));
    }

    #[test]
    fn a_worktree_that_cannot_be_read_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("worktrees/side/gitdir")).unwrap();
        let error = linked_worktrees(root.path()).unwrap_err();
        assert!(error.contains("worktrees/side/gitdir`: "), "{error}");
        fs::remove_dir_all(root.path().join("worktrees")).unwrap();
        fs::write(root.path().join("worktrees"), "").unwrap();
        assert!(linked_worktrees(root.path()).is_err());
    }
}
