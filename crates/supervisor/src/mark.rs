//! The mark every process of an attempt carries in its environment, and the sweep that finds them by it.

use std::io;
use std::path::PathBuf;

use protocol::{AttemptId, RunId};

use crate::dir::AttemptDir;
use crate::os::{self, Table};

/// Which attempt of which run in which store. All three are compared: run ids are unique only within a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub store: PathBuf,
    pub run: RunId,
    pub attempt: AttemptId,
}

impl Mark {
    /// The variables that carry the mark. Paths are text here, as everywhere in an agent's environment.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("CALLBOARD_STORE", self.store.to_string_lossy().into_owned()),
            ("CALLBOARD_RUN", self.run.to_string()),
            ("CALLBOARD_ATTEMPT", self.attempt.to_string()),
        ]
    }

    /// The same as they stand in `/proc/PID/environ`.
    pub(crate) fn lines(&self) -> [Vec<u8>; 3] {
        self.variables().map(|(name, value)| format!("{name}={value}").into_bytes())
    }
}

/// The attempt that this process belongs to, by its own environment or by that of the processes that started it.
/// It fences confusion, not malice: whoever really wants to hide can.
pub fn enclosing_attempt() -> io::Result<Option<String>> {
    os::inherited("CALLBOARD_ATTEMPT")
}

/// The same with run and store. Who has lost a part of the mark is known by those who started it.
pub fn enclosing_mark() -> io::Result<Option<Mark>> {
    let found = os::inherited_all(["CALLBOARD_ATTEMPT", "CALLBOARD_RUN", "CALLBOARD_STORE"])?;
    let Some([attempt, run, store]) = found else { return Ok(None) };
    let (Ok(attempt), Ok(run)) = (attempt.parse(), RunId::new(run)) else { return Ok(None) };
    Ok(Some(Mark { store: store.into(), run, attempt }))
}

/// Kills everything that carries the mark, and whatever it started, until nothing is left. Says how many there were.
///
/// For attempts whose shim is dead; a living shim does this itself. Processes of other users and the caller itself
/// are spared. It blocks until the killed have really ended.
pub fn sweep(mark: &Mark) -> io::Result<u32> {
    let lines = mark.lines();
    let killed = os::kill_until_none(|| {
        let table = Table::read()?;
        let marked = table.marked(&lines);
        Ok(table.with_descendants(marked))
    })?;
    Ok(u32::try_from(killed.len()).unwrap_or(u32::MAX))
}

/// The same for an attempt without a claim, whose files may have been removed under it.
///
/// A slow shim may claim it just now. Its agent carries the mark only once the claim is there: so whoever is found
/// first, and is still without a claim when that is looked for second, has lost it.
pub fn sweep_unclaimed(dir: &AttemptDir, mark: &Mark) -> io::Result<u32> {
    if Table::read()?.marked(&mark.lines()).is_empty() || dir.claim().try_exists()? {
        return Ok(0);
    }
    sweep(mark)
}
