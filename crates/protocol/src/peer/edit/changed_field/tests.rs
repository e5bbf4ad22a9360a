//! The lists of the format's fields agree with the document, and each field has the right owner and section. Two edits conflict
//! if they are in one section: a whole phase, or a single field outside the phases.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::peer::Document;

/// A document with every optional field.
fn full() -> Document {
    let example = include_str!("../../../../tests/fixtures/peer/cycle.json");
    let mut document: Document = serde_json::from_str(example).unwrap();
    document.context.continues = Some(document.cycle_id.clone());
    document.cycle_summary = Some(json!({}));
    document.insights = Some(json!({}));
    let cycle = document.cycle_id.clone();
    let plan = &mut document.phases.plan;
    plan.errors.get_or_insert_default();
    plan.reused_from = Some(cycle);
    document
}

#[test]
fn the_lists_have_exactly_the_fields_of_the_document() {
    let document = full().to_value();
    for (pointer, known) in
        [("", &TOP_LEVEL[..]), ("/metadata", &METADATA), ("/context", &CONTEXT), ("/phases/plan", &PHASE)]
    {
        let object = document.pointer(pointer).unwrap().as_object().unwrap();
        let found: BTreeSet<_> = object.keys().map(String::as_str).collect();
        assert_eq!(found, known.iter().copied().collect(), "{pointer}");
    }
}

#[test]
fn each_field_has_its_owner_and_its_section() {
    use Owner::{Agent, Anyone, Engine};
    let old = full().to_value();
    for (pointer, owner, section) in [
        ("/phases/plan/output", Agent(Phase::Plan), "/phases/plan"),
        ("/phases/execute/errors", Agent(Phase::Execute), "/phases/execute"),
        ("/phases/plan/status", Engine(Some(Phase::Plan)), "/phases/plan"),
        ("/phases/plan/note", Anyone(Some(Phase::Plan)), "/phases/plan"),
        ("/phases/review", Engine(Some(Phase::Review)), "/phases/review"),
        ("/phases/no_such_phase", Engine(None), "/phases/no_such_phase"),
        ("/metadata/status", Engine(None), "/metadata/status"),
        ("/metadata/note", Anyone(None), "/metadata/note"),
        ("/context/note", Anyone(None), "/context/note"),
        ("/history", Engine(None), "/history"),
        ("/a~1b", Anyone(None), "/a~1b"),
    ] {
        let new = crate::edit::Patch::Set(vec![(pointer.to_owned(), json!(9))]).apply(&old).unwrap();
        let changed = changed_fields(&old, &new);
        assert_eq!(changed, [ChangedField { pointer: pointer.to_owned(), owner }]);
        assert_eq!(changed[0].section(), section);
        assert_eq!(ChangedField::at(pointer), changed[0]);
        for overlapping in ["", section, pointer, &format!("{pointer}/and/below")] {
            assert!(changed[0].overlaps(overlapping), "{pointer} {overlapping}");
        }
        assert!(!changed[0].overlaps(&format!("{section}s")) && !changed[0].overlaps("/version"));
    }
    assert_eq!(
        changed_fields(&old, &json!(9)),
        [ChangedField { pointer: String::new(), owner: Engine(None) }]
    );
}
