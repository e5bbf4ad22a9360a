//! The mark that every process of an attempt carries in its environment, and killing the processes that carry it.

use std::io;
use std::path::PathBuf;

use linux::ProcessTable;
use protocol::{AttemptId, RunId};

use crate::attempt::AttemptDir;

/// Identifies an attempt by store, run and attempt id. Run ids are unique only within a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub store: PathBuf,
    pub run: RunId,
    pub attempt: AttemptId,
}

impl Mark {
    /// Returns the variables that carry the mark. The path is text, as everywhere in an agent's environment.
    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("CALLBOARD_STORE", self.store.to_string_lossy().into_owned()),
            ("CALLBOARD_RUN", self.run.to_string()),
            ("CALLBOARD_ATTEMPT", self.attempt.to_string()),
        ]
    }

    /// Returns the mark as lines of `/proc/PID/environ`.
    pub(crate) fn lines(&self) -> [Vec<u8>; 3] {
        self.variables().map(|(name, value)| format!("{name}={value}").into_bytes())
    }
}

/// Returns the id of the attempt that this process belongs to, from its own environment or that of its ancestors. This
/// prevents mistakes, not attacks: a process can hide its origin.
pub fn enclosing_attempt() -> io::Result<Option<String>> {
    linux::inherited_variable("CALLBOARD_ATTEMPT")
}

/// Returns the mark of the attempt that this process belongs to. The nearest ancestor that carries the whole mark
/// counts.
pub fn enclosing_mark() -> io::Result<Option<Mark>> {
    let found = linux::inherited_variables(["CALLBOARD_ATTEMPT", "CALLBOARD_RUN", "CALLBOARD_STORE"])?;
    let Some([attempt, run, store]) = found else { return Ok(None) };
    let (Ok(attempt), Ok(run)) = (attempt.parse(), RunId::new(run)) else { return Ok(None) };
    Ok(Some(Mark { store: store.into(), run, attempt }))
}

/// Kills every process that carries the mark, and their descendants, until none is left. Returns how many there were.
///
/// For attempts whose shim is dead; a living shim does this itself. Spares processes of other users and the caller.
/// Blocks until the killed processes have ended.
pub fn kill_marked(mark: &Mark) -> io::Result<u32> {
    let lines = mark.lines();
    let killed = linux::kill_until_none(|| {
        let table = ProcessTable::read()?;
        let marked = table.marked(&lines)?;
        Ok(table.with_descendants(marked))
    })?;
    Ok(u32::try_from(killed.len()).unwrap_or(u32::MAX))
}

/// Kills the marked processes of an attempt that has no claim, because its files may have been deleted. Returns how
/// many there were.
///
/// First looks for marked processes, then for the claim. A slow shim may be about to make the claim, and its agent carries the
/// mark only afterwards. So if there was a marked process and there is no claim, the claim was deleted.
pub fn kill_marked_unclaimed(dir: &AttemptDir, mark: &Mark) -> io::Result<u32> {
    if ProcessTable::read()?.marked(&mark.lines())?.is_empty() || dir.claim().try_exists()? {
        return Ok(0);
    }
    kill_marked(mark)
}
