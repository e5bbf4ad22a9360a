//! git itself, and the repository's worktrees.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Finding, Ground};
use crate::output::{count, shell_word};

const CHECK: &str = "git";

const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn check(ground: &Ground) -> Vec<Finding> {
    let version = match supervisor::probe(Path::new("git"), &["--version"], LIMIT) {
        Ok(answer) => answer.trim().trim_start_matches("git version ").to_owned(),
        Err(error) => {
            let what = format!("git does not answer: {error}");
            return vec![Finding::act(CHECK, what).remedy("git --version")];
        }
    };
    let common = match &ground.repository {
        Ok(Some(repository)) => &repository.common_dir,
        Ok(None) => return vec![Finding::note(CHECK, format!("{version}; this is no repository"))],
        Err(failure) => return vec![Finding::failure(CHECK, failure)],
    };
    let (alive, gone) = worktrees(common);
    let mut findings =
        vec![Finding::fine(CHECK, format!("{version}; {}", count(alive + 1, "worktree", "worktrees")))];
    if !gone.is_empty() {
        findings.push(
            Finding::note(CHECK, format!("{} gone", count(gone.len(), "worktree is", "worktrees are")))
                .details(gone.iter().map(|path| path.display().to_string()))
                .remedy(format!("git -C {} worktree prune", shell_word(&ground.repo))),
        );
    }
    findings
}

/// How many linked worktrees there are, and the paths of those that are gone.
fn worktrees(common: &Path) -> (usize, Vec<PathBuf>) {
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let pointers = linked.filter_map(|entry| fs::read_to_string(entry.path().join("gitdir")).ok());
    let (alive, gone): (Vec<_>, Vec<_>) =
        pointers.map(|text| PathBuf::from(text.trim_end())).partition(|path| path.exists());
    (alive.len(), gone)
}
