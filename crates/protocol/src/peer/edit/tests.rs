//! Who may change what, and how concurrent edits are merged.

use serde_json::{Value, json};

use super::super::change::{ErrorDetail, NewCycle};
use super::super::transition::{Transition, recognise};
use super::super::{Instruction, Mode};
use super::*;
use crate::Timestamp;
use crate::edit::PatchError;

/// A time in whole seconds, counted from a fixed start.
pub(super) fn second(seconds: i64) -> WholeSecond {
    WholeSecond::from(Timestamp::from_micros((1_754_388_000 + seconds) * 1_000_000))
}

/// A cycle whose execution is in progress, with an unknown field.
pub(super) fn executing() -> Document {
    let new = NewCycle {
        cycle: "peer:spec:login:cycle:2".parse().unwrap(),
        instruction: Instruction::CreateSpec.to_string(),
        mode: Mode::New,
        instruction_args: String::new(),
        user_requirements: "People can log in".to_owned(),
        continues: None,
    };
    let plan = json!({ "phases": [{ "phase": "preparation" }], "success_criteria": "it works" });
    let opened = change::initialise(new, second(0));
    let planned = change::start(&opened, Phase::Plan, second(1)).unwrap();
    let planned = change::complete(&planned, Phase::Plan, plan, second(2)).unwrap();
    let executing = change::start(&planned, Phase::Execute, second(3)).unwrap();
    let mut fields = UnknownFields::of(&executing);
    fields.root.insert("owner".to_owned(), json!("ada"));
    let executing = change::set_unknown_fields(&executing, fields, second(4));
    let output = json!({ "progress": 10, "files_created": ["a.rs"] });
    change::progress(&executing, Phase::Execute, output, second(5)).unwrap()
}

fn set(pointer: &str, value: Value) -> Patch {
    Patch::Set(vec![(pointer.to_owned(), value)])
}

fn operations(list: Value) -> Patch {
    Patch::Operations(serde_json::from_value(list).unwrap())
}

/// The document after a patch from outside, without concurrent writes.
fn written(document: &Document, patch: &Patch) -> Document {
    let edit = edit(document, document, &EditAuthor::Outside, patch).unwrap().expect("it changes something");
    apply(document, &edit, "ada".to_owned(), second(9)).expect("the edit applies")
}

fn kind<T>(result: Result<T, EditRefusal>) -> &'static str {
    result.err().map_or("ok", |error| error.kind())
}

#[test]
fn progress_is_one_write_with_an_entry_that_names_its_author() {
    let old = executing();
    let new = written(&old, &set("/phases/execute/output/progress", json!(20)));
    assert_eq!(
        recognise(Some(&old), &new),
        Ok(Transition::Progress { phase: Phase::Execute, unknown_fields: false })
    );
    assert_eq!(new.phases.execute.output, Some(json!({ "progress": 20, "files_created": ["a.rs"] })));
    let entry = new.history.last().unwrap();
    assert_eq!(
        (new.sequence, entry.sequence, entry.phase),
        (old.sequence + 1, new.sequence, Some(Phase::Execute))
    );
    assert_eq!((entry.timestamp, &entry.unknown["by"]), (second(9), &json!("ada")));
    assert_eq!(new.metadata.updated_at, second(9));
}

#[test]
fn unknown_fields_change_alone_or_together_with_progress() {
    let old = executing();
    let new = written(&old, &set("/owner", json!("grace")));
    assert_eq!(recognise(Some(&old), &new), Ok(Transition::UnknownFields));
    assert_eq!(new.history.last().unwrap().phase, None);
    let both =
        Patch::Merge(json!({ "owner": null, "phases": { "execute": { "output": { "progress": 30 } } } }));
    let new = written(&old, &both);
    assert_eq!(
        recognise(Some(&old), &new),
        Ok(Transition::Progress { phase: Phase::Execute, unknown_fields: true })
    );
    assert!(new.unknown.is_empty(), "{new:?}");
}

#[test]
fn the_owner_of_a_field_decides_the_error() {
    let old = executing();
    let error = json!({ "kind": "note", "message": "slow", "timestamp": "2025-08-05T10:00:06Z" });
    // The result for a person or another program, and for the agent of the phase in progress.
    for (pointer, value, outside, inside) in [
        ("/phases/execute/output/progress", json!(20), "ok", "ok"),
        ("/phases/execute/errors/-", error.clone(), "ok", "ok"),
        ("/phases/execute/errors/-", json!("slow"), "schema_validation_failed", "schema_validation_failed"),
        ("/phases/execute/note", json!(1), "ok", "not_yours"),
        ("/phases/review/note", json!(1), "ok", "not_yours"),
        ("/note", json!(1), "ok", "not_yours"),
        ("/metadata/note", json!(1), "ok", "not_yours"),
        ("/phases/plan/output/risks", json!([]), "invalid_transition", "invalid_transition"),
        ("/phases/review/output", json!({}), "invalid_transition", "invalid_transition"),
        ("/phases/review/output/not/there", json!(1), "invalid_transition", "invalid_transition"),
        ("/metadata/status/not/there", json!(1), "invalid_transition", "invalid_transition"),
        ("/phases/execute/output/not/there", json!(1), "unpatchable", "unpatchable"),
        ("/phases/execute/status", json!("completed"), "invalid_transition", "invalid_transition"),
        ("/phases/execute", json!({}), "invalid_transition", "invalid_transition"),
        ("/phases/no_such_phase", json!({}), "invalid_transition", "invalid_transition"),
        ("/metadata/status", json!("completed"), "invalid_transition", "invalid_transition"),
        ("/metadata/updated_at", json!("2025-08-05T10:00:09Z"), "invalid_transition", "invalid_transition"),
        ("/cycle_summary", json!({}), "invalid_transition", "invalid_transition"),
        ("/sequence", json!(99), "invalid_transition", "invalid_transition"),
        ("/history/-", json!({}), "invalid_transition", "invalid_transition"),
        ("", json!(null), "invalid_transition", "invalid_transition"),
        ("/nowhere/near", json!(1), "unpatchable", "unpatchable"),
    ] {
        let patch = set(pointer, value);
        assert_eq!(kind(edit(&old, &old, &EditAuthor::Outside, &patch)), outside, "{pointer} from outside");
        let step = EditAuthor::Step(Phase::Execute);
        assert_eq!(kind(edit(&old, &old, &step, &patch)), inside, "{pointer} from inside");
    }
    let other = edit(&old, &old, &EditAuthor::Step(Phase::Plan), &set("/phases/execute/output", json!({})));
    assert_eq!(kind(other), "not_yours");
}

#[test]
fn errors_can_be_added_but_not_changed_or_removed() {
    let error = ErrorDetail { kind: "timeout".to_owned(), message: "too slow".to_owned() };
    let old = change::fail_attempt(&executing(), Phase::Execute, error, second(6)).unwrap();
    for patch in [
        set("/phases/execute/errors", json!([])),
        set("/phases/execute/errors/0/message", json!("it was nothing")),
        operations(json!([{ "op": "remove", "path": "/phases/execute/errors" }])),
    ] {
        assert_eq!(kind(edit(&old, &old, &EditAuthor::Outside, &patch)), "invalid_transition", "{patch:?}");
    }
}

#[test]
fn a_refusal_names_every_field() {
    let old = executing();
    let patch = Patch::Merge(json!({ "sequence": 9, "phases": { "plan": { "output": 1 } }, "note": 1 }));
    let refused = edit(&old, &old, &EditAuthor::Outside, &patch).unwrap_err();
    let named: Vec<_> = refused.violations().iter().map(|violation| violation.pointer.as_str()).collect();
    assert_eq!(named, ["/sequence", "/phases/plan/output"]);
    assert_eq!(
        refused.to_string(),
        "cycle `peer:spec:login:cycle:2` is at execute in_progress: only the engine writes `/sequence`"
    );
}

/// Each case: what was written since the document was read, the current document, the patch, and the result.
#[test]
fn a_patch_applies_unless_its_section_was_changed_since() {
    let based_on = executing();
    let progress = |progress: u32| set("/phases/execute/output/progress", json!(progress));
    let note = set("/note", json!("mine"));
    let tested = |pointer: &str, value: Value| {
        operations(json!([
            { "op": "test", "path": pointer, "value": value },
            { "op": "add", "path": "/note", "value": "mine" },
        ]))
    };
    let copied =
        operations(json!([{ "op": "copy", "from": "/phases/execute/output/progress", "path": "/note" }]));

    let unchanged = based_on.clone();
    let progressed = written(&based_on, &progress(20));
    let owner_changed = written(&based_on, &set("/owner", json!("grace")));
    let noted = written(&based_on, &set("/note", json!("theirs")));
    let result = json!({ "files_created": ["a.rs"] });
    let completed = change::complete(&based_on, Phase::Execute, result, second(6)).unwrap();
    let expressing = change::start(&completed, Phase::Express, second(7)).unwrap();
    let stopped = || ErrorDetail { kind: "cancelled".to_owned(), message: "stopped".to_owned() };
    let failed = change::fail(&based_on, Phase::Execute, stopped(), second(6)).unwrap();
    let removed = written(&based_on, &operations(json!([{ "op": "remove", "path": "/owner" }])));

    let applies = "applies";
    let done = "already done";
    let conflict = "sequence_conflict";
    for (since, current, patch, outcome) in [
        ("nothing", &unchanged, &progress(30), applies),
        ("nothing", &unchanged, &progress(10), done),
        ("other progress", &progressed, &progress(30), conflict),
        ("the same progress", &progressed, &progress(20), done),
        ("progress, and we want it as it was", &progressed, &progress(10), conflict),
        (
            "other progress",
            &progressed,
            &set("/phases/execute/output/files_created/-", json!("b.rs")),
            conflict,
        ),
        ("other progress", &progressed, &note, applies),
        ("an unknown field", &owner_changed, &progress(30), applies),
        ("an unknown field", &owner_changed, &note, applies),
        ("the same unknown field", &noted, &note, conflict),
        ("the same unknown field", &noted, &set("/note", json!("theirs")), done),
        ("the phase is completed", &completed, &progress(30), conflict),
        ("the phase is completed", &completed, &note, applies),
        ("the next phase is in progress", &expressing, &progress(30), conflict),
        ("the next phase is in progress", &expressing, &note, applies),
        ("the phase has failed", &failed, &progress(30), conflict),
        ("the phase has failed", &failed, &note, applies),
        (
            "what is tested has changed",
            &progressed,
            &tested("/phases/execute/output/progress", json!(10)),
            conflict,
        ),
        (
            "what is tested has not",
            &owner_changed,
            &tested("/phases/execute/output/progress", json!(10)),
            applies,
        ),
        ("what is tested is gone", &removed, &tested("/owner", json!("ada")), conflict),
        ("what is copied has changed", &progressed, &copied, conflict),
        ("what is copied has not", &owner_changed, &copied, applies),
    ] {
        let found = match edit(&based_on, current, &EditAuthor::Outside, patch) {
            Ok(Some(_)) => applies,
            Ok(None) => done,
            Err(error) => error.kind(),
        };
        assert_eq!(found, outcome, "{since}: {patch:?}");
    }
}

#[test]
fn a_patch_that_was_invalid_from_the_start_is_no_conflict() {
    let based_on = executing();
    let current = written(&based_on, &set("/phases/execute/output/progress", json!(20)));
    for (patch, why) in [
        (set("/phases/plan/output/risks", json!([])), "invalid_transition"),
        (set("/sequence", json!(1)), "invalid_transition"),
        (set("/nowhere/near", json!(1)), "unpatchable"),
    ] {
        assert_eq!(kind(edit(&based_on, &current, &EditAuthor::Outside, &patch)), why, "{patch:?}");
    }
}

#[test]
fn a_patch_that_still_applies_keeps_the_other_writes() {
    let based_on = executing();
    let current = written(&based_on, &set("/phases/execute/output/progress", json!(20)));
    let edit =
        edit(&based_on, &current, &EditAuthor::Outside, &set("/note", json!("mine"))).unwrap().unwrap();
    let new = apply(&current, &edit, "ada".to_owned(), second(9)).unwrap();
    assert_eq!(new.phases.execute.output.as_ref().unwrap()["progress"], 20);
    assert_eq!((&new.unknown["note"], new.sequence), (&json!("mine"), current.sequence + 1));
}

#[test]
fn a_conflict_names_the_section_or_the_failed_operation() {
    let based_on = executing();
    let current = written(&based_on, &set("/phases/execute/output/progress", json!(20)));
    let patch = set("/phases/execute/output/progress", json!(30));
    let conflict = edit(&based_on, &current, &EditAuthor::Outside, &patch).unwrap_err();
    assert_eq!(conflict.to_string(), "`/phases/execute` has been changed since");
    let patch = operations(json!([
        { "op": "test", "path": "/phases/execute/output/progress", "value": 10 },
        { "op": "add", "path": "/note", "value": "mine" },
    ]));
    let conflict = edit(&based_on, &current, &EditAuthor::Outside, &patch).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "it can no longer be applied: operation 1 of the patch failed: `/phases/execute/output/progress` does \
         not have the tested value"
    );
    let refusal = edit(&current, &current, &EditAuthor::Outside, &patch).unwrap_err();
    let path = "/phases/execute/output/progress".to_owned();
    assert_eq!(refusal, EditRefusal::Patch(PatchError::TestFailed { number: 1, path }));
}

#[test]
fn an_edit_from_a_damaged_journal_changes_nothing() {
    let old = executing();
    for broken in [
        json!([{ "op": "remove", "path": "/nowhere" }]),
        json!([{ "op": "replace", "path": "/phases", "value": 1 }]),
        json!([{ "op": "replace", "path": "/cycle_summary", "value": 1 }]),
        json!([{ "op": "replace", "path": "/phases/plan/output", "value": 1 }]),
        json!([{ "op": "replace", "path": "/metadata/status", "value": "failed" }]),
    ] {
        let edit = serde_json::from_value(broken).unwrap();
        assert_eq!(apply(&old, &edit, "ada".to_owned(), second(9)), None, "{edit}");
    }
}

#[test]
fn a_patch_may_test_the_history_but_not_change_it() {
    let old = executing();
    let test = |event: &str| {
        operations(json!([
            { "op": "test", "path": "/history/4/event", "value": event },
            { "op": "add", "path": "/note", "value": "mine" },
        ]))
    };
    assert_eq!(old.history[4].event, Event::Progress, "progress entries count as well");
    assert_eq!(kind(edit(&old, &old, &EditAuthor::Outside, &test("progress"))), "ok");
    assert_eq!(kind(edit(&old, &old, &EditAuthor::Outside, &test("started"))), "unpatchable");
    let rewritten = set("/history/4/event", json!("started"));
    assert_eq!(kind(edit(&old, &old, &EditAuthor::Outside, &rewritten)), "invalid_transition");
    assert_eq!(
        kind(edit(&old, &old, &EditAuthor::Outside, &Patch::Merge(json!({ "history": null })))),
        "invalid_transition"
    );
}

#[test]
fn a_copy_conflicts_with_a_change_of_any_part_of_its_source() {
    let old = executing();
    let theirs = written(&old, &set("/metadata/team", json!("blue")));
    let both = written(&theirs, &set("/phases/execute/output/progress", json!(20)));
    let copy = |from: &str| operations(json!([{ "op": "copy", "from": from, "path": "/seen" }]));
    for from in
        ["/metadata", "/metadata/team", "/phases", "/phases/execute/output", "/sequence", "/history", ""]
    {
        let tried = edit(&old, &both, &EditAuthor::Outside, &copy(from));
        let expected = if from == "/metadata/team" { "unpatchable" } else { "sequence_conflict" };
        assert_eq!(kind(tried), expected, "{from}");
    }
    for from in ["/metadata/status", "/phases/plan", "/context", "/owner"] {
        assert_eq!(kind(edit(&old, &both, &EditAuthor::Outside, &copy(from))), "ok", "{from}");
    }
}
