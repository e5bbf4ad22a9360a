//! Compacts the history: one entry replaces a range of progress entries. Callboard never makes this write, but accepts it from
//! other clients.

use super::{ChangeError, invalid_transition, next_write};
use crate::peer::document::{Document, Event, HistoryEntry, WholeSecond};

/// One entry replaces the range, so a range of one entry would save nothing.
const MIN_ENTRIES: usize = 2;

/// Removes the entries `from` to `to` and appends one `compacted` entry. Refuses a range of fewer than two entries, and one with
/// an entry that must stay: no transition may be missing from the history.
pub fn compact(old: &Document, from: u64, to: u64, at: WholeSecond) -> Result<Document, ChangeError> {
    let within = |entry: &HistoryEntry| (from..=to).contains(&entry.sequence);
    let compacted = old.history.iter().filter(|entry| within(entry)).count();
    if compacted < MIN_ENTRIES || old.history.iter().any(|entry| within(entry) && !is_compactable(entry)) {
        return Err(invalid_transition(old, old.status_with_phase()));
    }
    let (mut new, _) = next_write(old, at, None, Event::Compacted);
    // The range may include the new entry, which stays because it is not compactable.
    new.history.retain(|entry| !(within(entry) && is_compactable(entry)));
    let entry = new.history.last_mut().expect("BUG: a write without a history entry");
    entry.unknown.insert("from".to_owned(), from.into());
    entry.unknown.insert("to".to_owned(), to.into());
    Ok(new)
}

/// Whether the entry may be removed: progress, or an event that Callboard does not know.
fn is_compactable(entry: &HistoryEntry) -> bool {
    match &entry.event {
        Event::Progress | Event::Other(_) => true,
        Event::Initialized | Event::Started | Event::Completed | Event::Failed => false,
        Event::Recovered | Event::Migrated | Event::Compacted => false,
    }
}
