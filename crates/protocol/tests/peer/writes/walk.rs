//! Every short sequence of changes.

use protocol::peer::transition::recognise;
use protocol::peer::{Document, Position, Transition, check_document};

use super::{Step, opened};

/// Follows every legal change from here. `extras` is how many more changes may keep the position.
fn walk(old: &Document, extras: usize, seen: &mut Seen) {
    seen.documents += 1;
    for step in Step::all() {
        let legal = step.is_legal(old.position(), old);
        let number = i64::try_from(old.sequence).unwrap();
        let applied = step.apply(old, number);
        assert_eq!(applied.is_ok(), legal, "{step:?} at {}: {applied:?}", old.position());
        let Ok(new) = applied else {
            seen.refused += 1;
            continue;
        };
        if new.position() == old.position() && extras == 0 {
            continue;
        }
        let checked = check_document(&new);
        assert_eq!((checked.violations, checked.warnings), (vec![], vec![]), "{step:?}\n{}", new.render());
        assert_eq!(recognise(Some(old), &new), Ok(step.transition()), "{step:?}");
        assert_eq!(recognise(Some(&new), &new), Ok(Transition::Unchanged));
        assert_eq!(new.sequence, old.sequence + 1);
        match new.position() {
            Position::Completed => seen.completed += 1,
            Position::Failed(_) => seen.failed += 1,
            Position::Initialized | Position::InProgress(_) | Position::PhaseCompleted(_) => {}
        }
        let extras = extras - usize::from(new.position() == old.position());
        walk(&new, extras, seen);
    }
}

#[derive(Debug, Default)]
struct Seen {
    documents: usize,
    refused: usize,
    completed: usize,
    failed: usize,
}

#[test]
fn in_any_order_of_changes_documents_keep_the_rules_and_writes_are_recognised() {
    let first = opened();
    assert_eq!(check_document(&first), protocol::peer::Checked::default());
    assert_eq!(recognise(None, &first), Ok(Transition::Initialized));
    let mut seen = Seen::default();
    walk(&first, 2, &mut seen);
    assert!(seen.documents > 1000 && seen.completed > 100 && seen.failed > 500, "{seen:?}");
}
