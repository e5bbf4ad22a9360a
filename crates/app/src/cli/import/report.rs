//! What `import --peer` prints: what each peer cycle became, from which keys, and what was skipped.

use std::path::PathBuf;

use protocol::RunId;
use protocol::peer::StatusWithPhase;
use protocol::peer::migrate::{MigratedCycle, MigratedKey, NoteKind, SkippedKey};
use serde::Serialize;

use super::bucket::DeletedKeys;
use super::dump::Unreadable;
use crate::failure::Exit;
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled};

#[derive(Debug, Serialize)]
pub(super) struct ImportReport {
    pub(super) dump: PathBuf,
    /// Whether `--write` was given.
    pub(super) write: bool,
    pub(super) cycles: Vec<CycleReport>,
    pub(super) skipped: Vec<SkippedKey>,
    pub(super) unreadable: Vec<Unreadable>,
    #[serde(skip_serializing_if = "DeletedKeys::is_empty")]
    pub(super) deleted: DeletedKeys,
}

#[derive(Debug, Serialize)]
pub(super) struct CycleReport {
    pub(super) run: RunId,
    pub(super) result: ImportResult,
    /// The status that the run has, or would have; `None` if the run cannot be read.
    pub(super) status: Option<&'static str>,
    /// Why the existing run cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(flatten)]
    pub(super) migrated: MigratedCycle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ImportResult {
    /// `--write` would import it.
    New,
    Imported,
    /// The same cycle was imported before. Later changes of its run are left alone.
    Exists,
    /// A run of that name exists with other content.
    Differs,
}

/// How many unreadable items are printed without `--json`.
const MAX_PRINTED: usize = 5;

impl ImportReport {
    /// Prints the report. Returns the exit code.
    pub(super) fn print(&self, json: bool) -> Exit {
        if json {
            output::json_pretty(self);
            return self.exit();
        }
        self.cycles.iter().for_each(CycleReport::print);
        if !self.skipped.is_empty() {
            output::data("skipped keys:");
        }
        for SkippedKey { key, why, .. } in &self.skipped {
            output::data(format_args!("  {key}  {}", styled(DIM, why)));
        }
        self.print_unreadable();
        if !self.deleted.keys.is_empty() {
            let keys = output::count(self.deleted.keys.len(), "old key", "old keys");
            output::note(format_args!("deleted {keys}; the bucket keeps their history"));
        }
        for key in &self.deleted.changed {
            output::note(format_args!("`{key}` was not deleted: another client has written to it since"));
        }
        self.print_summary();
        self.exit()
    }

    /// Prints how many cycles have which result, and what the user can do next.
    fn print_summary(&self) {
        for cycle in self.with_result(ImportResult::Differs) {
            output::note(format_args!(
                "`{}` was not imported: its run exists with other content; see `callboard show {}`, or import into \
                 another store with `--store DIR`",
                cycle.migrated.cycle, cycle.run
            ));
        }
        let is_unfinished = |cycle: &&CycleReport| {
            !matches!(
                cycle.migrated.document.status_with_phase(),
                StatusWithPhase::Completed | StatusWithPhase::Failed(_)
            )
        };
        let unfinished = self.with_result(ImportResult::Imported).filter(is_unfinished).count();
        if unfinished > 0 {
            output::note(format_args!(
                "{} paused; run `callboard resume RUN` to continue with the agents of this machine",
                output::count(unfinished, "cycle is", "cycles are")
            ));
        }
        let words = [
            (ImportResult::Imported, "imported"),
            (ImportResult::New, "to import"),
            (ImportResult::Exists, "already imported"),
            (ImportResult::Differs, "different"),
        ];
        let counts = words.map(|(result, word)| (self.with_result(result).count(), word));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts =
            counts.map(|(count, word)| format!("{} {word}", output::count(*count, "cycle", "cycles")));
        let counts = counts.collect::<Vec<_>>().join(", ");
        match (self.cycles.is_empty(), self.write) {
            (true, _) => output::note("the dump has no cycle"),
            (false, true) => output::note(counts),
            (false, false) => output::note(format_args!(
                "nothing was written: {counts}{}",
                if self.with_result(ImportResult::New).next().is_some() {
                    "; add `--write` to import"
                } else {
                    ""
                }
            )),
        }
    }

    fn print_unreadable(&self) {
        for Unreadable { file, line, column, why } in self.unreadable.iter().take(MAX_PRINTED) {
            let position = match (line, column) {
                (Some(line), Some(column)) => format!("{}:{line}:{column}", file.display()),
                (Some(_) | None, _) => file.display().to_string(),
            };
            output::message(format_args!("{} {position}: {why}", styled(RED, "unreadable:")));
        }
        if let Some(more @ 1..) = self.unreadable.len().checked_sub(MAX_PRINTED) {
            output::message(format_args!("and {more} more; `--json` lists all"));
        }
        if !self.unreadable.is_empty() && self.cycles.is_empty() {
            output::note(
                "a file has lines of `{\"key\": …, \"value\": …}`; give a directory if your files are named by keys",
            );
        }
    }

    fn with_result(&self, result: ImportResult) -> impl Iterator<Item = &CycleReport> {
        self.cycles.iter().filter(move |cycle| cycle.result == result)
    }

    fn exit(&self) -> Exit {
        if self.with_result(ImportResult::Differs).next().is_some() {
            Exit::Refused
        } else if !self.unreadable.is_empty() || self.cycles.is_empty() {
            Exit::Usage
        } else {
            Exit::Success
        }
    }
}

impl CycleReport {
    fn print(&self) {
        let MigratedCycle { cycle, sources, notes, superseded, document, .. } = &self.migrated;
        let (style, word) = match self.result {
            ImportResult::New => (CYAN, "new"),
            ImportResult::Imported => (GREEN, "imported"),
            ImportResult::Exists => (DIM, "already imported"),
            ImportResult::Differs => (RED, "differs from the existing run"),
        };
        output::data(format_args!(
            "{}  {}  {}",
            styled(BOLD, cycle),
            document.status_with_phase(),
            styled(style, word)
        ));
        if let Some(error) = &self.error {
            output::data(format_args!("  {error}"));
        }
        // The import that made the run printed the rest.
        if self.result == ImportResult::Exists {
            return;
        }
        for note in notes {
            let style = if note.kind == NoteKind::Failed { RED } else { YELLOW };
            let key = note.key.as_ref().map(|key| format!("  {}", styled(DIM, key))).unwrap_or_default();
            output::data(format_args!(
                "  {} {}{key}",
                styled(style, format_args!("{}:", note.kind.as_str())),
                note.message
            ));
        }
        for MigratedKey { key, read, preserved } in sources {
            output::data(match (read, preserved) {
                (true, false) => format!("  from {key}"),
                (true, true) => format!("  from {key}, the rest is preserved in /migrated_from"),
                (false, _) => format!("  not used: {key}, preserved in /migrated_from"),
            });
        }
        for SkippedKey { key, why, .. } in superseded {
            output::data(format_args!("  not used: {key}, {why}"));
        }
    }
}
