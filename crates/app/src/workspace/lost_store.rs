//! Traces of a store that does not exist any more: emergency copies, and views of its runs.
//!
//! An engine whose store is removed while it runs saves an emergency copy of the database.
//!
//! A repository without a store is usually new. If it is not, the user must learn of it: an empty list looks like lost
//! work, and the message of the engine that saved the copy may not have been read.

use std::fs;
use std::path::{Path, PathBuf};

use crate::control::emergency_copy;
use crate::output::{count, shell_word};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LostStore {
    /// The newest emergency copy whose repository has the same directory name as this one.
    copy: Option<PathBuf>,
    /// The number of runs that have a view in the repository.
    views: usize,
}

impl LostStore {
    /// Searches for traces. Ignores what cannot be read.
    pub(crate) fn find(repo: &Path) -> Self {
        Self { copy: newest_copy(repo), views: count_views(repo) }
    }

    /// Describes the traces, or returns `None` if there are none.
    pub(crate) fn summary(&self) -> Option<String> {
        let views =
            (self.views > 0).then(|| format!("`.agents/runs` has {}", count(self.views, "run", "runs")));
        let copy = self.copy.as_ref().map(|_| "a copy of a store was saved".to_owned());
        let found: Vec<_> = views.into_iter().chain(copy).collect();
        (!found.is_empty()).then(|| format!("there is no store, although {}", found.join(" and ")))
    }

    /// Returns the command that brings the runs back.
    pub(crate) fn command(&self) -> Option<String> {
        match (&self.copy, self.views) {
            (Some(copy), _) => Some(format!("callboard recover --from {}", shell_word(copy))),
            (None, 1..) => Some(
                "callboard recover --from-view .agents/runs/RUN/run_state.json --workflow WORKFLOW"
                    .to_owned(),
            ),
            (None, 0) => None,
        }
    }

    /// Returns the summary and the command as hints.
    pub(crate) fn hints(&self) -> Vec<String> {
        let purpose = if self.copy.is_some() { "restore its runs" } else { "rebuild a run from its view" };
        let command = self.command().map(|command| format!("run `{command}` to {purpose}"));
        self.summary().into_iter().chain(command).collect()
    }
}

/// Returns the newest copy by its name, which is the repository's name, a time and a pid.
fn newest_copy(repo: &Path) -> Option<PathBuf> {
    let name = emergency_copy::repository_name(repo);
    let is_ours = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        let rest = file.and_then(|file| file.strip_prefix(&name)?.strip_prefix('-')?.strip_suffix(".db"));
        // Check time and pid: a copy of the repository `app-2` also begins with `app-`.
        rest.and_then(|rest| rest.split_once('-')).is_some_and(|(time, process)| {
            time.starts_with(|first: char| first.is_ascii_digit())
                && time.ends_with('Z')
                && !process.is_empty()
                && process.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let files = emergency_copy::directories().filter_map(|directory| fs::read_dir(directory).ok()).flatten();
    files
        .filter_map(|file| Some(file.ok()?.path()))
        .filter(is_ours)
        .max_by_key(|path| path.file_name().map(ToOwned::to_owned))
}

fn count_views(repo: &Path) -> usize {
    let Ok(runs) = fs::read_dir(repo.join(".agents").join("runs")) else { return 0 };
    runs.filter_map(Result::ok).filter(|run| run.path().join("run_state.json").is_file()).count()
}
