//! What other clients of the store may write: the whole document with the next sequence, or single fields only.

use serde_json::json;

use super::super::tests::{executing, second};
use super::super::{apply, change};
use super::*;
use crate::peer::Phase;

/// Returns the document that the engine writes after a client has written `found` over [`executing`].
fn apply_external_write(found: &Value) -> Result<Document, EditRefusal> {
    let current = executing();
    let edit = external_edit(&current, &current.to_value(), found)?;
    Ok(apply(&current, &edit, "another client".to_owned(), second(9)).expect("the edit applies"))
}

/// Returns the document [`executing`] with a change of a client.
fn executing_with(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = executing().to_value();
    change(&mut document);
    document
}

fn refusal_kind(found: &Value) -> &'static str {
    apply_external_write(found).err().map_or("ok", |error| error.kind())
}

#[test]
fn a_client_that_changes_only_the_output_gets_its_entry_from_the_engine() {
    let new = apply_external_write(&executing_with(|found| {
        found["phases"]["execute"]["output"]["progress"] = json!(70);
    }))
    .unwrap();
    let old = executing();
    assert_eq!(new.phases.execute.output.as_ref().unwrap()["progress"], 70);
    assert_eq!((new.sequence, new.history.len()), (old.sequence + 1, old.history.len() + 1));
    assert_eq!(new.history.last().unwrap().unknown["by"], "another client");
}

#[test]
fn a_whole_write_of_a_client_is_counted_once() {
    let old = executing();
    let output = json!({ "progress": 80 });
    let theirs = change::progress(&old, Phase::Execute, output, second(7)).unwrap();
    let new = apply_external_write(&theirs.to_value()).unwrap();
    assert_eq!((new.sequence, new.history.len()), (theirs.sequence, theirs.history.len()));
    assert_eq!(new.phases, theirs.phases);
    assert_eq!(new.metadata.updated_at, second(9), "the engine's clock counts");
    // Progress without an entry, as in the original's example.
    let without_entry = executing_with(|found| {
        found["sequence"] = json!(old.sequence + 1);
        found["phases"]["execute"]["output"] = json!({ "progress": 80 });
    });
    assert_eq!(apply_external_write(&without_entry).unwrap(), new);
}

#[test]
fn a_write_that_changes_only_the_sequence_is_a_write() {
    let old = executing();
    let theirs = change::set_unknown_fields(&old, change::UnknownFields::of(&old), second(7));
    let new = apply_external_write(&theirs.to_value()).unwrap();
    assert_eq!((new.sequence, &new.phases), (old.sequence + 1, &old.phases));
}

#[test]
fn fields_of_the_engine_are_refused_in_whole_and_partial_writes() {
    let sequence = executing().sequence;
    let output = json!({ "progress": "all", "files_created": ["a.rs"] });
    let complete = change::complete(&executing(), Phase::Execute, output, second(7)).unwrap();
    assert_eq!(refusal_kind(&complete.to_value()), "invalid_transition");
    for change in [
        &(|found: &mut Value| found["phases"]["execute"]["status"] = json!("completed"))
            as &dyn Fn(&mut Value),
        &|found| found["phases"]["plan"]["output"] = json!({}),
        &|found| found["sequence"] = json!(sequence + 2),
        &|found| found["sequence"] = json!(sequence - 1),
        &|found| found["context"]["user_requirements"] = json!("something else"),
        &|found| found["history"] = json!([]),
    ] {
        assert_eq!(refusal_kind(&executing_with(change)), "invalid_transition");
    }
    let broken = executing_with(|found| {
        found["sequence"] = json!(sequence + 1);
        found["phases"]["execute"]["errors"] = json!("none");
    });
    assert_eq!(refusal_kind(&broken), "schema_validation_failed");
}

#[test]
fn a_whole_write_may_not_change_the_history() {
    let sequence = executing().sequence;
    for change in [
        &(|found: &mut Value| found["history"] = json!([])) as &dyn Fn(&mut Value),
        &|found| found["history"][0]["event"] = json!("recovered"),
        &|found| found["history"][0]["sequence"] = json!(sequence + 9),
    ] {
        let found = executing_with(|found| {
            found["sequence"] = json!(sequence + 1);
            found["phases"]["execute"]["output"]["progress"] = json!(80);
            change(found);
        });
        assert_ne!(refusal_kind(&found), "ok");
    }
}

#[test]
fn a_blob_in_the_shown_document_does_not_become_the_output() {
    let current = executing();
    // Clients are shown a reference in place of a large output.
    let mut shown = current.to_value();
    shown["phases"]["plan"]["output"] = json!({ "$blob": "sha256:…", "bytes": 200_000 });
    let mut found = shown.clone();
    found["phases"]["execute"]["output"]["progress"] = json!(90);
    let edit = external_edit(&current, &shown, &found).unwrap();
    let new = apply(&current, &edit, "another client".to_owned(), second(9)).unwrap();
    assert_eq!(new.phases.plan, current.phases.plan);
    assert_eq!(new.phases.execute.output.unwrap()["progress"], 90);
}
