//! The worktrees of the repository.

use supervisor::git::{ListedWorktree, list_worktrees};

use super::runs::Runs;
use super::{DoctorContext, Finding};
use crate::output::{count, shell_word};

const CHECK: &str = "git";

pub(super) fn check(context: &DoctorContext, runs: Option<&Runs>) -> Vec<Finding> {
    match &context.repository {
        Ok(Some(_)) => {}
        Ok(None) => return vec![Finding::note(CHECK, "not in a git repository")],
        Err(failure) => return vec![Finding::failure(CHECK, failure)],
    }
    let listed = match list_worktrees(&context.repo) {
        Ok(listed) => listed,
        Err(error) => return vec![Finding::problem(CHECK, error.to_string()).command("git worktree list")],
    };
    // The first one is the repository itself.
    let linked = listed.into_iter().skip(1);
    let (existing, missing): (Vec<_>, Vec<_>) = linked.partition(ListedWorktree::exists);
    let worktrees = count(existing.len() + 1, "worktree", "worktrees");
    let mut findings = vec![Finding::ok(CHECK, worktrees)];
    findings.extend(missing_worktrees(context, missing));
    findings.extend(runs.and_then(|runs| remaining_worktrees(context, &existing, runs)));
    findings
}

/// Names the worktrees whose directories were deleted.
fn missing_worktrees(context: &DoctorContext, mut missing: Vec<ListedWorktree>) -> Option<Finding> {
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
fn remaining_worktrees(context: &DoctorContext, existing: &[ListedWorktree], runs: &Runs) -> Option<Finding> {
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
