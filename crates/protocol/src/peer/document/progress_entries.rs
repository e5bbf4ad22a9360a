//! Copies of documents without the progress entries of their history.
//!
//! A progress entry records a write that changes no status, such as a new output of the phase in progress. No rule needs
//! these entries, and an agent may add thousands of them. If checks leave them out, a write costs the same however many there are.

use super::{Document, Event, HistoryEntry};

/// Returns the document without its progress entries.
pub(in crate::peer) fn without_progress(document: &Document) -> Document {
    with_history(document, without_progress_entries(&document.history))
}

/// Returns two consecutive documents without the progress entries that both have. Returns `None` if the second one changes the
/// history of the first other than by appending: then the caller must check the whole documents.
pub(in crate::peer) fn without_progress_pair(old: &Document, new: &Document) -> Option<(Document, Document)> {
    let added = new.history.strip_prefix(&old.history[..])?;
    let old = without_progress(old);
    let history = [&old.history, added].concat();
    Some((old, with_history(new, history)))
}

/// Returns a copy of the document with another history. The old history is not copied, because it may be long.
pub(in crate::peer) fn with_history(document: &Document, history: Vec<HistoryEntry>) -> Document {
    let Document { version, sequence, cycle_id, metadata, context, phases, .. } = document;
    Document {
        version: *version,
        sequence: *sequence,
        cycle_id: cycle_id.clone(),
        metadata: metadata.clone(),
        context: context.clone(),
        phases: phases.clone(),
        history,
        cycle_summary: document.cycle_summary.clone(),
        insights: document.insights.clone(),
        unknown: document.unknown.clone(),
    }
}

fn without_progress_entries(history: &[HistoryEntry]) -> Vec<HistoryEntry> {
    history.iter().filter(|entry| entry.event != Event::Progress).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::change::{UnknownFields, set_unknown_fields};
    use crate::peer::check_document;

    fn example() -> Document {
        serde_json::from_str(include_str!("../../../tests/fixtures/peer/cycle.json")).unwrap()
    }

    fn progress(document: &Document) -> Document {
        set_unknown_fields(document, UnknownFields::of(document), document.metadata.updated_at)
    }

    #[test]
    fn a_document_without_progress_keeps_and_breaks_the_same_rules() {
        let long = (0..40).fold(example(), |document, _| progress(&document));
        assert_eq!(without_progress(&long).history, example().history);
        assert!(check_document(&without_progress(&long)).violations.is_empty());
        let mut broken = long;
        broken.history.remove(0);
        let found = |document: &Document| check_document(document).violations;
        assert!(!found(&broken).is_empty());
        assert_eq!(found(&without_progress(&broken)).len(), found(&broken).len());
    }

    #[test]
    fn an_added_entry_stays_and_a_rewritten_history_is_checked_in_full() {
        let old = progress(&example());
        let new = progress(&old);
        let (short_old, short_new) = without_progress_pair(&old, &new).unwrap();
        assert_eq!(short_old.history, example().history);
        assert_eq!(short_new.history.last(), new.history.last());
        assert_eq!(short_new.history.len(), short_old.history.len() + 1);
        let mut rewritten = new;
        rewritten.history[3].sequence += 1;
        assert_eq!(without_progress_pair(&old, &rewritten), None);
    }
}
