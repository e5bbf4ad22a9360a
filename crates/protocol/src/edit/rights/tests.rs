//! Which changes of an edit are allowed, and which are refused.

use serde_json::{Value, json};

use super::*;

fn document() -> Value {
    json!({
        "title": "a lamp",
        "status": "open",
        "review": { "feedback_for_writer": null, "score": 1 },
        "plan": null,
        "tasks": [{ "name": "one", "done": false }, { "name": "two", "done": false }],
        "notes": ["first"],
    })
}

fn operations(operations: Value) -> json_patch::Patch {
    serde_json::from_value(operations).unwrap()
}

/// Applies the allowed part of the operations. The engine computes `derived` members, so an edit does not change them. Returns
/// the resulting document, and a sentence for each refused change.
#[track_caller]
fn apply_allowed(allowed: &[&str], derived: &[&str], patch: Value) -> (Value, Vec<String>) {
    let rights = Rights::new(allowed.iter().copied(), derived.iter().copied());
    let FilteredPatch { patch, refused } = rights.filter(&document(), &operations(patch));
    let mut patched = document();
    json_patch::patch(&mut patched, &patch).expect("the filtered patch applies to the document");
    (patched, refused)
}

/// The document with one value changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = document();
    *document.pointer_mut(pointer).unwrap() = value;
    document
}

#[test]
fn allowed_changes_stay_and_others_are_named() {
    let patch = json!([
        { "op": "replace", "path": "/review/feedback_for_writer", "value": "shorter" },
        { "op": "replace", "path": "/title", "value": "mine" },
        { "op": "remove", "path": "/notes" },
        { "op": "add", "path": "/a~1b", "value": 1 },
    ]);
    let (patched, refused) = apply_allowed(&["/review/feedback_for_writer"], &[], patch);
    assert_eq!(patched, with("/review/feedback_for_writer", json!("shorter")));
    let expected = ["/title", "/notes", "/a~1b"].map(|at| format!("the step may not change `{at}`"));
    assert_eq!(refused, expected);
}

#[test]
fn a_replacement_above_an_allowed_member_is_reduced_to_it() {
    let value = json!({ "feedback_for_writer": "shorter", "score": 9, "by": "me" });
    for op in ["add", "replace"] {
        let patch = json!([{ "op": op, "path": "/review", "value": value }]);
        let (patched, refused) = apply_allowed(&["/review/feedback_for_writer"], &[], patch);
        assert_eq!(patched, with("/review/feedback_for_writer", json!("shorter")), "{op}");
        assert_eq!(
            refused,
            ["the step may not change `/review/score`", "the step may not change `/review/by`"]
        );
    }
    let (patched, refused) =
        apply_allowed(&["/review/feedback_for_writer"], &[], json!([{ "op": "remove", "path": "/review" }]));
    assert_eq!((patched, refused), (document(), vec!["the step may not change `/review`".to_owned()]));
}

#[test]
fn an_object_is_made_for_allowed_members_only() {
    let patch = json!([{ "op": "replace", "path": "/plan", "value": { "steps": [1], "owner": "me" } }]);
    let (patched, refused) = apply_allowed(&["/plan/steps"], &[], patch.clone());
    assert_eq!(patched, with("/plan", json!({ "steps": [1] })));
    assert_eq!(refused, ["the step may not change `/plan/owner`"]);
    let (patched, refused) = apply_allowed(&["/plan/other"], &[], patch.clone());
    assert_eq!((patched, refused.len()), (document(), 2));
    let (patched, refused) = apply_allowed(&["/title"], &[], patch);
    assert_eq!((patched, refused), (document(), vec!["the step may not change `/plan`".to_owned()]));
}

#[test]
fn derived_members_keep_their_value_and_are_not_listed_as_refused() {
    let patch = json!([
        { "op": "replace", "path": "/status", "value": "done" },
        { "op": "replace", "path": "/review/score", "value": 9 },
        { "op": "replace", "path": "/review/feedback_for_writer", "value": "shorter" },
    ]);
    let (patched, refused) = apply_allowed(&["/review"], &["/status", "/review/score"], patch);
    assert_eq!(patched, with("/review/feedback_for_writer", json!("shorter")));
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_star_stands_for_one_reference_token() {
    let patch = json!([
        { "op": "replace", "path": "/tasks/0/done", "value": true },
        { "op": "replace", "path": "/tasks/1/name", "value": "2" },
        { "op": "add", "path": "/tasks/-", "value": { "name": "three", "done": true } },
    ]);
    let (patched, refused) = apply_allowed(&["/tasks/*/done"], &[], patch.clone());
    assert_eq!(patched, with("/tasks/0/done", json!(true)), "no entry is made for its allowed member");
    assert_eq!(refused, ["the step may not change `/tasks/1/name`", "the step may not change `/tasks/2`"]);
    let (patched, refused) = apply_allowed(&["/tasks/*"], &[], patch);
    assert_eq!((patched["tasks"].as_array().unwrap().len(), refused.len()), (3, 0));
    let (patched, refused) = apply_allowed(&["/*"], &[], json!([{ "op": "remove", "path": "/notes" }]));
    assert_eq!((patched.get("notes"), refused.len()), (None, 0));
}

#[test]
fn moves_copies_and_the_whole_document_are_judged_by_what_they_change() {
    let moved = json!([{ "op": "move", "from": "/title", "path": "/review/feedback_for_writer" }]);
    let (patched, refused) = apply_allowed(&["/review"], &[], moved);
    assert_eq!(patched, with("/review/feedback_for_writer", json!("a lamp")));
    assert_eq!(refused, ["the step may not change `/title`"]);
    let copied = json!([{ "op": "copy", "from": "/title", "path": "/review/feedback_for_writer" }]);
    assert_eq!(apply_allowed(&["/review"], &[], copied).1, Vec::<String>::new());
    let whole = json!([{ "op": "replace", "path": "", "value": [] }]);
    assert_eq!(apply_allowed(&["/review"], &[], whole.clone()).1, ["the step may not replace the document"]);
    assert_eq!(apply_allowed(&[""], &[], whole).0, json!([]));
}

#[test]
fn a_change_that_does_not_apply_is_refused_as_a_whole() {
    let patch = json!([
        { "op": "replace", "path": "/title", "value": "mine" },
        { "op": "remove", "path": "/absent" },
    ]);
    let (patched, refused) = apply_allowed(&["/title"], &[], patch);
    assert_eq!((patched, refused.len()), (document(), 1));
    assert!(refused[0].contains("/absent"), "{refused:?}");
}

#[test]
fn refused_changes_beyond_the_limit_are_counted() {
    let additions: Vec<_> =
        (0..30).map(|n| json!({ "op": "add", "path": format!("/m{n}"), "value": n })).collect();
    let (_, refused) = apply_allowed(&[], &[], Value::Array(additions));
    assert_eq!((refused.len(), refused[20].as_str()), (21, "the step may not make 10 more changes"));
}

#[test]
fn a_report_keeps_only_its_allowed_edits() {
    let expected = crate::report::ReportIdentity {
        run_id: crate::RunId::new("r").unwrap(),
        step_id: crate::StepId::new("s").unwrap(),
        agent: "a".to_owned(),
    };
    let rights = Rights::new(["/title"], []);
    let remove_unauthorized = |edit: CopyEdit| {
        let mut report = Report::completed(&expected, crate::Timestamp::from_micros(0), Map::new());
        report.copy_edits.insert("x.json".to_owned(), edit);
        let refused = rights.remove_unauthorized(&mut report, "x.json", &document());
        (report.copy_edits.len(), refused)
    };
    let replace = |path| CopyEdit::Patch(operations(json!([{ "op": "replace", "path": path, "value": 1 }])));
    assert_eq!(remove_unauthorized(replace("/title")), (1, Vec::new()));
    assert_eq!(
        remove_unauthorized(replace("/status")),
        (0, vec!["`x.json`: the step may not change `/status`".to_owned()])
    );
    assert_eq!(
        remove_unauthorized(CopyEdit::Deleted),
        (0, vec!["`x.json`: it may not be deleted".to_owned()])
    );
    assert_eq!(
        remove_unauthorized(CopyEdit::Unreadable("it is torn".to_owned())),
        (0, vec!["`x.json`: it is torn".to_owned()])
    );
}
