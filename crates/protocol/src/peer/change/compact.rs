//! Compacts the history: one entry replaces a range of progress entries. Callboard never makes this write, but accepts it from
//! other clients.

use super::{ChangeError, next_write, not_in_matrix};
use crate::peer::document::{Document, Event, HistoryEntry, WholeSecond};

/// A shorter range would not get shorter.
const MIN_ENTRIES: usize = 2;

/// Replaces the entries `from` to `to` by one, which is appended like that of any write. Refuses a range with other entries than
/// progress: no transition may be missing from the history.
pub fn compact(old: &Document, from: u64, to: u64, at: WholeSecond) -> Result<Document, ChangeError> {
    let within = |entry: &HistoryEntry| (from..=to).contains(&entry.sequence);
    let compacted = old.history.iter().filter(|entry| within(entry)).count();
    if compacted < MIN_ENTRIES || old.history.iter().any(|entry| within(entry) && !is_progress(entry)) {
        return Err(not_in_matrix(old, old.position()));
    }
    let (mut new, _) = next_write(old, at, None, Event::Compacted);
    new.history.retain(|entry| !within(entry));
    let entry = new.history.last_mut().expect("BUG: a write without a history entry");
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
