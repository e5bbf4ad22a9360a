//! Every sequence of changes, with at most two that keep the document's status and phase.

use protocol::peer::transition::recognise;
use protocol::peer::{Document, StatusWithPhase, Transition, check_document};

use super::{DocumentChange, opened};

/// Follows every legal change from here. `extras` is how many more changes may keep status and phase.
fn walk(old: &Document, extras: usize, counts: &mut Counts) {
    counts.documents += 1;
    for change in DocumentChange::all() {
        let legal = change.is_legal(old.status_with_phase(), old);
        let number = i64::try_from(old.sequence).unwrap();
        let applied = change.apply(old, number);
        assert_eq!(applied.is_ok(), legal, "{change:?} at {}: {applied:?}", old.status_with_phase());
        let Ok(new) = applied else {
            counts.refused += 1;
            continue;
        };
        if new.status_with_phase() == old.status_with_phase() && extras == 0 {
            continue;
        }
        let checked = check_document(&new);
        assert_eq!((checked.violations, checked.warnings), (vec![], vec![]), "{change:?}\n{}", new.render());
        assert_eq!(recognise(Some(old), &new), Ok(change.transition()), "{change:?}");
        assert_eq!(recognise(Some(&new), &new), Ok(Transition::Unchanged));
        assert_eq!(new.sequence, old.sequence + 1);
        match new.status_with_phase() {
            StatusWithPhase::Completed => counts.completed += 1,
            StatusWithPhase::Failed(_) => counts.failed += 1,
            StatusWithPhase::Initialized
            | StatusWithPhase::InProgress(_)
            | StatusWithPhase::PhaseCompleted(_) => {}
        }
        let extras = extras - usize::from(new.status_with_phase() == old.status_with_phase());
        walk(&new, extras, counts);
    }
}

#[derive(Debug, Default)]
struct Counts {
    documents: usize,
    refused: usize,
    completed: usize,
    failed: usize,
}

#[test]
fn in_any_order_of_changes_documents_keep_the_rules_and_writes_are_recognised() {
    let first = opened();
    assert_eq!(check_document(&first), protocol::peer::RuleViolations::default());
    assert_eq!(recognise(None, &first), Ok(Transition::Initialized));
    let mut counts = Counts::default();
    walk(&first, 2, &mut counts);
    assert!(counts.documents > 1000 && counts.completed > 100 && counts.failed > 500, "{counts:?}");
}
