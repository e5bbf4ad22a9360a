//! Compacting the history: a run of mere progress becomes one entry that names its range. Callboard makes no such write
//! itself; whoever does must be understood.

use super::{ChangeError, no_way, written};
use crate::peer::document::{Document, Event, HistoryEntry, Second};

/// A run shorter than this would not become shorter.
const WORTH_IT: usize = 2;

/// Puts one entry in the place of those from `from` to `to`; it is appended like that of any write. Only progress is
/// compacted: no transition may be missing from the history, and what was compacted once stays as it is.
pub fn compact(old: &Document, from: u64, to: u64, at: Second) -> Result<Document, ChangeError> {
    let within = |entry: &HistoryEntry| (from..=to).contains(&entry.sequence);
    let compacted = old.history.iter().filter(|entry| within(entry)).count();
    if compacted < WORTH_IT || old.history.iter().any(|entry| within(entry) && !is_progress(entry)) {
        return Err(no_way(old, old.position()));
    }
    let (mut new, _) = written(old, at, None, Event::Compacted);
    new.history.retain(|entry| !within(entry));
    let entry = new.history.last_mut().expect("BUG: every write has its entry");
    entry.unknown.insert("from".to_owned(), from.into());
    entry.unknown.insert("to".to_owned(), to.into());
    Ok(new)
}

fn is_progress(entry: &HistoryEntry) -> bool {
    match &entry.event {
        Event::Progress | Event::Other(_) => true,
        Event::Initialized | Event::Started | Event::Completed | Event::Failed => false,
        Event::Recovered | Event::Migrated | Event::Compacted => false,
    }
}
