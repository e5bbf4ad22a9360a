//! The lists of the seed's fields, held against the document itself.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::peer::Document;

/// A document in which every field that can be there is there.
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
fn every_field_of_the_document_is_in_its_list_and_no_other() {
    let document = full().to_value();
    for (pointer, known) in
        [("", &HEAD[..]), ("/metadata", &METADATA), ("/context", &CONTEXT), ("/phases/plan", &PHASE)]
    {
        let object = document.pointer(pointer).unwrap().as_object().unwrap();
        let found: BTreeSet<_> = object.keys().map(String::as_str).collect();
        assert_eq!(found, known.iter().copied().collect(), "{pointer}");
    }
}

#[test]
fn each_place_has_its_owner_and_its_region() {
    use Owner::{Engine, Foreign, Work};
    let old = full().to_value();
    for (pointer, owner, section) in [
        ("/phases/plan/output", Work(Phase::Plan), "/phases/plan"),
        ("/phases/execute/errors", Work(Phase::Execute), "/phases/execute"),
        ("/phases/plan/status", Engine(Some(Phase::Plan)), "/phases/plan"),
        ("/phases/plan/note", Foreign(Some(Phase::Plan)), "/phases/plan"),
        ("/phases/review", Engine(Some(Phase::Review)), "/phases/review"),
        ("/phases/rehearse", Engine(None), "/phases/rehearse"),
        ("/metadata/status", Engine(None), "/metadata/status"),
        ("/metadata/note", Foreign(None), "/metadata/note"),
        ("/context/note", Foreign(None), "/context/note"),
        ("/history", Engine(None), "/history"),
        ("/a~1b", Foreign(None), "/a~1b"),
    ] {
        let new = crate::edit::Patch::Set(vec![(pointer.to_owned(), json!(9))]).apply(&old).unwrap();
        let places = differing(&old, &new);
        assert_eq!(places, [Place { pointer: pointer.to_owned(), owner }]);
        assert_eq!(places[0].section(), section);
        assert_eq!(Place::of(pointer), places[0]);
        for overlapping in ["", section, pointer, &format!("{pointer}/and/below")] {
            assert!(places[0].overlaps(overlapping), "{pointer} {overlapping}");
        }
        assert!(!places[0].overlaps(&format!("{section}s")) && !places[0].overlaps("/version"));
    }
    assert_eq!(differing(&old, &json!(9)), [Place { pointer: String::new(), owner: Engine(None) }]);
}
