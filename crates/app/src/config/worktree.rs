//! `[worktree]`: how the worktrees of runs are made and merged.

use std::path::{Path, PathBuf};

use supervisor::git::MergeStrategy;

use super::file::{Reader, Value};
use super::rows::{Row, list, path, quoted, row};
use super::{Origin, Sourced};

const KEYS: [&str; 3] = ["dir", "setup", "merge"];

const STRATEGIES: [(&str, MergeStrategy); 2] =
    [("merge", MergeStrategy::Merge), ("rebase", MergeStrategy::Rebase)];

/// The values of one source, or the effective ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Worktree {
    /// The directory for the worktrees of all runs. `None` means one in the user's data directory.
    pub(crate) dir: Option<Sourced<PathBuf>>,
    /// The command that prepares a new worktree.
    pub(crate) setup: Option<Sourced<Vec<String>>>,
    pub(crate) strategy: Option<Sourced<MergeStrategy>>,
}

impl Worktree {
    pub(super) fn merge_weaker(&mut self, weaker: Self) {
        self.dir = self.dir.take().or(weaker.dir);
        self.setup = self.setup.take().or(weaker.setup);
        self.strategy = self.strategy.take().or(weaker.strategy);
    }

    /// Returns every value. `default_dir` is shown if no source sets the directory; it is unknown without a home directory.
    pub(super) fn rows(&self, default_dir: Option<&Path>) -> Vec<Row> {
        let default_dir = || Some(Sourced::new(default_dir?.to_owned(), Origin::Default));
        let dir = self.dir.clone().or_else(default_dir);
        let setup = self.setup.clone().unwrap_or_else(|| Sourced::new(Vec::new(), Origin::Default));
        let strategy = self.strategy.clone();
        let strategy = strategy.unwrap_or_else(|| Sourced::new(MergeStrategy::default(), Origin::Default));
        let name = STRATEGIES.iter().find(|(_, known)| *known == strategy.value).map_or("", |(name, _)| name);
        let dir = dir.map(|dir| row("worktree.dir", path(&dir.value), &dir.origin));
        let rows = [
            row("worktree.setup", list(&setup.value), &setup.origin),
            row("worktree.merge", quoted(name), &strategy.origin),
        ];
        dir.into_iter().chain(rows).collect()
    }
}

pub(super) fn read(reader: &mut Reader<'_>, value: &Value<'_>, origin: &Origin) -> Worktree {
    let mut worktree = Worktree::default();
    let Some(table) = reader.table("worktree", value) else { return worktree };
    reader.check_keys("worktree.", table, &KEYS);
    if let Some(value) = table.get("dir") {
        worktree.dir = reader.path("worktree.dir", value).map(|dir| Sourced::new(dir, origin.clone()));
    }
    if let Some(value) = table.get("setup") {
        let setup = reader.strings("worktree.setup", value);
        worktree.setup = setup.map(|setup| Sourced::new(setup, origin.clone()));
    }
    if let Some(value) = table.get("merge")
        && let Some(word) = reader.string("worktree.merge", value)
    {
        match STRATEGIES.iter().find(|(name, _)| *name == word) {
            Some((_, strategy)) => worktree.strategy = Some(Sourced::new(*strategy, origin.clone())),
            None => reader.error_with_hint(
                value.span(),
                format!("`worktree.merge` is `{word}`"),
                "write `merge` or `rebase`",
            ),
        }
    }
    worktree
}
