//! `[worktree]`: how the worktrees of runs are made and merged.

use std::path::PathBuf;

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

    /// Returns the values that a source sets.
    pub(super) fn rows(&self) -> Vec<Row> {
        let dir = self.dir.iter().map(|dir| row("worktree.dir", path(&dir.value), &dir.origin));
        let setup = self.setup.iter().map(|setup| row("worktree.setup", list(&setup.value), &setup.origin));
        let strategy = self.strategy.iter().map(|strategy| {
            let name =
                STRATEGIES.iter().find(|(_, known)| *known == strategy.value).map_or("", |(name, _)| name);
            row("worktree.merge", quoted(name), &strategy.origin)
        });
        dir.chain(setup).chain(strategy).collect()
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
