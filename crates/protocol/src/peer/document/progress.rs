//! Documents without those entries of their history that no rule asks for.
//!
//! An agent may note its progress a thousand times, and each time the whole document would be held against the rules. They
//! are the same with fewer entries of mere progress: so a write costs the same however many were made before it.

use super::{Document, Event, HistoryEntry};

/// The document without its entries of mere progress.
pub(in crate::peer) fn lean(document: &Document) -> Document {
    with_history(document, transitions(&document.history))
}

/// The same of a document and the one that follows it, with every entry that the second one adds. `None` if the second one
/// does more to the history than add to it: then it has to be looked at as it is.
pub(in crate::peer) fn lean_both(old: &Document, new: &Document) -> Option<(Document, Document)> {
    let added = new.history.strip_prefix(&old.history[..])?;
    let old = lean(old);
    let history = [&old.history, added].concat();
    Some((old, with_history(new, history)))
}

/// The document with another history. Does not copy its own, which may be long.
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

fn transitions(history: &[HistoryEntry]) -> Vec<HistoryEntry> {
    let counts = |entry: &&HistoryEntry| match entry.event {
        Event::Progress => false,
        Event::Initialized | Event::Started | Event::Completed | Event::Failed => true,
        Event::Recovered | Event::Migrated | Event::Compacted | Event::Other(_) => true,
    };
    history.iter().filter(counts).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Document, check_document};

    fn example() -> Document {
        serde_json::from_str(include_str!("../../../tests/fixtures/peer/cycle.json")).unwrap()
    }

    fn progress(document: &Document) -> Document {
        let at = document.metadata.updated_at;
        crate::peer::change::set_foreign(document, crate::peer::change::Foreign::of(document), at)
    }

    #[test]
    fn a_document_keeps_the_rules_without_its_progress_and_breaks_them_as_before() {
        let long = (0..40).fold(example(), |document, _| progress(&document));
        assert_eq!(lean(&long).history, example().history);
        assert!(check_document(&lean(&long)).violations.is_empty());
        let mut broken = long;
        broken.history.remove(0);
        let found = |document: &Document| check_document(document).violations;
        assert!(!found(&broken).is_empty());
        assert_eq!(found(&lean(&broken)).len(), found(&broken).len());
    }

    #[test]
    fn what_is_added_stays_and_what_is_rewritten_is_not_passed_over() {
        let old = progress(&example());
        let new = progress(&old);
        let (lean_old, lean_new) = lean_both(&old, &new).unwrap();
        assert_eq!(lean_old.history, example().history);
        assert_eq!(lean_new.history.last(), new.history.last());
        assert_eq!(lean_new.history.len(), lean_old.history.len() + 1);
        let mut rewritten = new;
        rewritten.history[3].sequence += 1;
        assert_eq!(lean_both(&old, &rewritten), None);
    }
}
