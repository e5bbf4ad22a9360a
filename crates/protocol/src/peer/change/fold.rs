//! Folding the history: a run of mere progress becomes one entry that names its range.

use super::{ChangeError, no_way, written};
use crate::peer::document::{Document, Event, HistoryEntry, Second};

/// A run shorter than this would not become shorter by folding.
const WORTH_IT: usize = 2;

/// The oldest run of progress that could be folded, as the numbers of its first and last entry. The last `keep` entries of
/// the history stay as they are.
pub fn foldable(document: &Document, keep: usize) -> Option<(u64, u64)> {
    let old = document.history.len().saturating_sub(keep);
    let runs = document.history[..old].chunk_by(|one, next| is_progress(one) && is_progress(next));
    let mut runs = runs.filter(|run| run.len() >= WORTH_IT);
    runs.next().and_then(|run| Some((run.first()?.sequence, run.last()?.sequence)))
}

/// Folds the entries from `from` to `to` into one, which is appended like that of any write. Only progress is folded: no
/// transition may be missing from the history, and what was folded once stays as it is.
pub fn compact(old: &Document, from: u64, to: u64, at: Second) -> Result<Document, ChangeError> {
    let within = |entry: &HistoryEntry| (from..=to).contains(&entry.sequence);
    let folded = old.history.iter().filter(|entry| within(entry)).count();
    if folded < WORTH_IT || old.history.iter().any(|entry| within(entry) && !is_progress(entry)) {
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
