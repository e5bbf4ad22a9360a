//! What `import --peer` tells: what each cycle became, what came from where, and what was left.

use std::path::PathBuf;

use protocol::RunId;
use protocol::peer::Position;
use protocol::peer::migrate::{Ignored, Migrated, NoteKind, Source};
use serde::Serialize;

use super::dump::Unread;
use super::live::Deleted;
use crate::failure::Exit;
use crate::output::{self, BOLD, CYAN, DIM, GREEN, RED, YELLOW, styled};

#[derive(Debug, Serialize)]
pub(super) struct Told {
    pub(super) dump: PathBuf,
    /// Whether this was to write.
    pub(super) write: bool,
    pub(super) cycles: Vec<CycleTold>,
    pub(super) ignored: Vec<Ignored>,
    pub(super) unread: Vec<Unread>,
    /// Old keys that were deleted, or should have been.
    #[serde(skip_serializing_if = "Deleted::is_nothing")]
    pub(super) deleted: Deleted,
}

/// One cycle.
#[derive(Debug, Serialize)]
pub(super) struct CycleTold {
    pub(super) run: RunId,
    pub(super) fate: Fate,
    /// Where the run stands, or would; none if it cannot be read.
    pub(super) phase: Option<&'static str>,
    /// Why it is not entered, if there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    #[serde(flatten)]
    pub(super) migrated: Migrated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    /// It would be entered.
    New,
    Entered,
    /// The same was entered before; whatever has happened to it since is left alone.
    There,
    /// Its run exists, and is not what the dump says.
    Differs,
}

/// As many places, and as many bad lines, as people are shown.
const SHOWN: usize = 5;

impl Told {
    pub(super) fn tell(&self, json: bool) -> Exit {
        if json {
            output::json_pretty(self);
            return self.exit();
        }
        self.cycles.iter().for_each(CycleTold::tell);
        if !self.ignored.is_empty() {
            output::data("what is no part of one cycle:");
        }
        for Ignored { key, why, .. } in &self.ignored {
            output::data(format_args!("  {key}  {}", styled(DIM, why)));
        }
        self.tell_unread();
        if !self.deleted.keys.is_empty() {
            let keys = output::count(self.deleted.keys.len(), "old key was", "old keys were");
            output::note(format_args!("{keys} deleted; the bucket keeps their history"));
        }
        for key in &self.deleted.left {
            output::note(format_args!("`{key}` was written to meanwhile, and stays"));
        }
        self.tell_what_next();
        self.exit()
    }

    fn tell_what_next(&self) {
        for cycle in self.with(Fate::Differs) {
            output::note(format_args!(
                "`{}` is there with other content and is left alone: `callboard show {}`; `--store DIR` imports elsewhere",
                cycle.migrated.cycle, cycle.run
            ));
        }
        let unfinished = |cycle: &&CycleTold| {
            !matches!(cycle.migrated.document.position(), Position::Completed | Position::Failed(_))
        };
        let unfinished = self.with(Fate::Entered).filter(unfinished).count();
        if unfinished > 0 {
            output::note(format_args!(
                "{} not finished; `callboard resume RUN` goes on, with the profiles of this machine",
                output::count(unfinished, "cycle is", "cycles are")
            ));
        }
        let words = [
            (Fate::Entered, "entered"),
            (Fate::New, "would be entered"),
            (Fate::There, "already there"),
            (Fate::Differs, "different"),
        ];
        let counts = words.map(|(fate, word)| (self.with(fate).count(), word));
        let counts: Vec<_> = counts.iter().filter(|(count, _)| *count > 0).collect();
        let counts =
            counts.iter().map(|(count, word)| format!("{} {word}", output::count(*count, "cycle", "cycles")));
        let counts = counts.collect::<Vec<_>>().join(", ");
        match (self.cycles.is_empty(), self.write) {
            (true, _) => output::note("there is no cycle in it"),
            (false, true) => output::note(counts),
            (false, false) => output::note(format_args!(
                "nothing was written: {counts}{}",
                if self.with(Fate::New).next().is_some() { "; the same with `--write` does it" } else { "" }
            )),
        }
    }

    fn tell_unread(&self) {
        for Unread { file, line, column, why } in self.unread.iter().take(SHOWN) {
            let place = match (line, column) {
                (Some(line), Some(column)) => format!("{}:{line}:{column}", file.display()),
                (Some(_) | None, _) => file.display().to_string(),
            };
            output::talk(format_args!("{} {place}: {why}", styled(RED, "unread:")));
        }
        if let Some(more @ 1..) = self.unread.len().checked_sub(SHOWN) {
            output::talk(format_args!("and {more} more; `--json` has all"));
        }
        if !self.unread.is_empty() && self.cycles.is_empty() {
            output::note(
                "a file is read as lines of `{\"key\": …, \"value\": …}`; give a directory if your files are named by keys",
            );
        }
    }

    fn with(&self, fate: Fate) -> impl Iterator<Item = &CycleTold> {
        self.cycles.iter().filter(move |cycle| cycle.fate == fate)
    }

    fn exit(&self) -> Exit {
        if self.with(Fate::Differs).next().is_some() {
            Exit::Refused
        } else if !self.unread.is_empty() || self.cycles.is_empty() {
            Exit::Usage
        } else {
            Exit::Success
        }
    }
}

impl CycleTold {
    fn tell(&self) {
        let Migrated { cycle, sources, notes, left_out, document, .. } = &self.migrated;
        let (style, word) = match self.fate {
            Fate::New => (CYAN, "new"),
            Fate::Entered => (GREEN, "entered"),
            Fate::There => (DIM, "already there"),
            Fate::Differs => (RED, "there, and different"),
        };
        output::data(format_args!(
            "{}  {}  {}",
            styled(BOLD, cycle),
            document.position(),
            styled(style, word)
        ));
        if let Some(why) = &self.why {
            output::data(format_args!("  {why}"));
        }
        // What was entered before has been told before.
        if self.fate == Fate::There {
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
        for source in sources {
            output::data(format_args!("  {} → {}", source.key, gave(source)));
        }
        for left in left_out {
            output::data(format_args!("  {} → nothing: {}", left.key, left.why));
        }
    }
}

fn gave(source: &Source) -> String {
    if source.gave == [""] {
        return "the document, as it is".to_owned();
    }
    let all = source.gave.len() + source.decided.len();
    let mut places: Vec<_> = source.gave.iter().chain(&source.decided).take(SHOWN).cloned().collect();
    if let Some(more @ 1..) = all.checked_sub(SHOWN) {
        places.push(format!("{more} more"));
    }
    match (source.rest, all) {
        (true, 0) => places.push("/migrated_from".to_owned()),
        (true, _) => places.push("the rest in /migrated_from".to_owned()),
        (false, _) => {}
    }
    places.join(", ")
}
