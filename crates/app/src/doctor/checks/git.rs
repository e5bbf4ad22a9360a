//! git, and the worktrees of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    let (existing, missing) = worktrees(common_dir);
    let mut findings =
        vec![Finding::ok(CHECK, format!("{version}; {}", count(existing + 1, "worktree", "worktrees")))];
    if !missing.is_empty() {
        let worktrees = count(missing.len(), "registered worktree", "registered worktrees");
        findings.push(
            Finding::note(CHECK, format!("{worktrees} missing on disk"))
                .details(missing.iter().map(|path| path.display().to_string()))
                .command(format!("git -C {} worktree prune", shell_word(&context.repo))),
        );
    }
    findings.extend(runs.and_then(|runs| remaining_worktrees(context, common_dir, runs)));
    findings
}

/// Names the worktrees of runs that have ended. They have changes that no other branch has, or the run has failed.
fn remaining_worktrees(context: &DoctorContext, common_dir: &Path, runs: &Runs) -> Option<Finding> {
    let linked = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    let remaining = linked.filter_map(|entry| {
        let reason = fs::read_to_string(entry.path().join("locked")).ok()?;
        let run = supervisor::git::run_of_lock(&reason)?;
        // A run that is not in this store may be running in another one.
        let is_here = runs.all.iter().any(|listing| listing.run.as_str() == run);
        let has_ended = is_here && !runs.unfinished.iter().any(|unfinished| unfinished.run.as_str() == run);
        let path = fs::read_to_string(entry.path().join("gitdir")).ok()?;
        let path = PathBuf::from(path.trim_end()).parent()?.to_owned();
        (has_ended && path.exists()).then(|| (path, run.to_owned()))
    });
    let mut remaining: Vec<_> = remaining.collect();
    remaining.sort();
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

/// Returns the number of linked worktrees that exist, and the paths of those that do not.
fn worktrees(common_dir: &Path) -> (usize, Vec<PathBuf>) {
    let linked = fs::read_dir(common_dir.join("worktrees")).into_iter().flatten().flatten();
    let pointers = linked.filter_map(|entry| fs::read_to_string(entry.path().join("gitdir")).ok());
    let (existing, missing): (Vec<_>, Vec<_>) =
        pointers.map(|text| PathBuf::from(text.trim_end())).partition(|path| path.exists());
    (existing.len(), missing)
}
