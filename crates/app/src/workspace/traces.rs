//! What is left where a store has been: copies that an engine saved when it was taken away, and views of its runs.
//!
//! A repository without a store is usually a new one. If it is not, whoever looks must hear of it: an empty list looks
//! just like lost work, and the engine that saved a copy may have had nobody to tell.

use std::fs;
use std::path::{Path, PathBuf};

use crate::control::emergency_copy;
use crate::output;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// The newest copy that was saved from a repository of this name.
    copy: Option<PathBuf>,
    /// How many runs have a view here.
    views: usize,
}

impl Traces {
    /// Looks for them; what cannot be read is no trace.
    pub(crate) fn of(repo: &Path) -> Self {
        Self { copy: newest_copy(repo), views: views(repo) }
    }

    /// What was found, and nothing if this is simply a new place.
    pub(crate) fn what(&self) -> Option<String> {
        let views = match self.views {
            0 => None,
            1 => Some("`.agents/runs` shows 1 run".to_owned()),
            many => Some(format!("`.agents/runs` shows {many} runs")),
        };
        let copy = self.copy.as_ref().map(|_| "a copy of a store was saved".to_owned());
        let found: Vec<_> = views.into_iter().chain(copy).collect();
        (!found.is_empty()).then(|| format!("there is no store here, though {}", found.join(" and ")))
    }

    /// The command to type.
    pub(crate) fn remedy(&self) -> Option<String> {
        match (&self.copy, self.views) {
            (Some(copy), _) => Some(format!("callboard recover --from {}", output::shell_word(copy))),
            (None, 1..) => Some(
                "callboard recover --from-view .agents/runs/RUN/run_state.json --workflow WORKFLOW"
                    .to_owned(),
            ),
            (None, 0) => None,
        }
    }

    /// Both, as hints below an error or notes beside an empty list.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let does = if self.copy.is_some() { "puts its runs back" } else { "rebuilds a run from its view" };
        let next = self.remedy().map(|command| format!("`{command}` {does}"));
        self.what().into_iter().chain(next).collect()
    }
}

/// By name, for the name is the repository's, then the time.
fn newest_copy(repo: &Path) -> Option<PathBuf> {
    let name = emergency_copy::repository_name(repo);
    let is_ours = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        let rest = file.and_then(|file| file.strip_prefix(&name)?.strip_prefix('-')?.strip_suffix(".db"));
        // A repository called `app` is not `app-2`: what follows its name is a time and a process, nothing more.
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

fn views(repo: &Path) -> usize {
    let Ok(runs) = fs::read_dir(repo.join(".agents").join("runs")) else { return 0 };
    runs.filter_map(Result::ok).filter(|run| run.path().join("run_state.json").is_file()).count()
}
