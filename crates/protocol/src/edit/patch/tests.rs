//! The three notations of patches.

use fastrand::Rng;
use serde_json::json;

use super::*;

fn set(pointer: &str, value: Value) -> Patch {
    Patch::Set(vec![(pointer.to_owned(), value)])
}

fn operations(list: Value) -> Patch {
    Patch::Operations(serde_json::from_value(list).unwrap())
}

#[test]
fn setting_creates_the_last_member_and_no_parent() {
    let old = json!({ "a": { "b": 1 }, "list": [1, 2], "a/b~c": {} });
    for (pointer, new) in [
        ("/a/b", json!({ "a": { "b": 9 }, "list": [1, 2], "a/b~c": {} })),
        ("/a/c", json!({ "a": { "b": 1, "c": 9 }, "list": [1, 2], "a/b~c": {} })),
        ("/new", json!({ "a": { "b": 1 }, "list": [1, 2], "a/b~c": {}, "new": 9 })),
        ("/list/0", json!({ "a": { "b": 1 }, "list": [9, 2], "a/b~c": {} })),
        ("/list/-", json!({ "a": { "b": 1 }, "list": [1, 2, 9], "a/b~c": {} })),
        ("/list/2", json!({ "a": { "b": 1 }, "list": [1, 2, 9], "a/b~c": {} })),
        ("/a~1b~0c/x", json!({ "a": { "b": 1 }, "list": [1, 2], "a/b~c": { "x": 9 } })),
        ("", json!(9)),
    ] {
        assert_eq!(set(pointer, json!(9)).apply(&old), Ok(new), "{pointer}");
    }
    assert_eq!(set("/a/b", json!(null)).apply(&old).unwrap()["a"], json!({ "b": null }), "null is a value");
}

#[test]
fn a_value_that_cannot_be_set_is_refused_with_the_reason() {
    let old = json!({ "a": { "b": 1 }, "list": [1, 2] });
    for (pointer, why) in [
        ("a", "`a` is not a JSON pointer: it must begin with `/`, and `~` is written as `~0`"),
        ("/a~", "`/a~` is not a JSON pointer: it must begin with `/`, and `~` is written as `~0`"),
        ("/x/y/z", "cannot set `/x/y/z`: there is nothing at `/x`"),
        ("/a/x/y", "cannot set `/a/x/y`: there is nothing at `/a/x`"),
        ("/a/b/c", "cannot set `/a/b/c`: `/a/b` is a number"),
        ("/list/3", "cannot set `/list/3`: the list `/list` has 2 entries, and `-` appends one"),
        ("/list/x", "cannot set `/list/x`: the list `/list` has 2 entries, and `-` appends one"),
        ("/list/01", "cannot set `/list/01`: the list `/list` has 2 entries, and `-` appends one"),
    ] {
        assert_eq!(set(pointer, json!(9)).apply(&old).unwrap_err().to_string(), why);
    }
}

#[test]
fn later_values_see_what_earlier_ones_have_set() {
    let patch = Patch::Set(vec![("/a".to_owned(), json!([])), ("/a/-".to_owned(), json!(1))]);
    assert_eq!(patch.apply(&json!({})), Ok(json!({ "a": [1] })));
}

#[test]
fn merging_removes_nulls_and_replaces_lists() {
    let old = json!({ "a": { "b": 1, "c": 2 }, "list": [1, 2] });
    let merge = Patch::Merge(json!({ "a": { "b": null, "d": { "e": null } }, "list": [3] }));
    assert_eq!(merge.apply(&old), Ok(json!({ "a": { "c": 2, "d": {} }, "list": [3] })));
}

#[test]
fn operations_apply_all_or_none_and_a_failed_test_has_its_own_error() {
    let old = json!({ "a": 1 });
    let good = operations(json!([
        { "op": "test", "path": "/a", "value": 1 },
        { "op": "copy", "from": "/a", "path": "/b" },
    ]));
    assert_eq!(good.apply(&old), Ok(json!({ "a": 1, "b": 1 })));
    assert_eq!(good.sources(), ["/a"]);
    let tested = operations(json!([
        { "op": "add", "path": "/b", "value": 1 },
        { "op": "test", "path": "/a", "value": 2 },
    ]));
    assert_eq!(tested.apply(&old), Err(PatchError::TestFailed { number: 2, path: "/a".to_owned() }));
    let gone = operations(json!([{ "op": "remove", "path": "/x" }]));
    let why = "operation 1 of the patch failed at `/x`: path is invalid";
    assert_eq!(gone.apply(&old).unwrap_err().to_string(), why);
}

#[test]
fn a_patch_reaches_a_member_by_any_of_its_pointers_and_by_the_whole_document() {
    for (patch, reaches) in [
        (set("/a/b", json!(1)), true),
        (set("/ab", json!(1)), false),
        (set("", json!(1)), true),
        (Patch::Merge(json!({ "a": {} })), true),
        (Patch::Merge(json!({ "b": { "a": 1 } })), false),
        (Patch::Merge(json!(null)), true),
        (operations(json!([{ "op": "test", "path": "/a/0", "value": 1 }])), true),
        (operations(json!([{ "op": "copy", "from": "/a/0", "path": "/b" }])), true),
        (operations(json!([{ "op": "move", "from": "/c", "path": "/b" }])), false),
    ] {
        assert_eq!(patch.reaches("a"), reaches, "{patch:?}");
    }
}

/// Returns a value inside `depth` lists.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

#[test]
fn a_patch_must_not_nest_the_document_too_deep_to_be_read_again() {
    let old = json!({ "a": {} });
    assert!(set("/a/b", nested(MAX_DOCUMENT_DEPTH - 2)).apply(&old).is_ok());
    assert_eq!(set("/a/b", nested(MAX_DOCUMENT_DEPTH - 1)).apply(&old), Err(PatchError::TooDeep));
    let again = operations(json!([
        { "op": "add", "path": "/a/b", "value": nested(60) },
        { "op": "copy", "from": "/a/b", "path": "/c" },
        { "op": "copy", "from": "/a/b", "path": "/c/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0" },
    ]));
    assert_eq!(again.apply(&old), Err(PatchError::TooDeep));
}

/// Returns a small value with few names, so that two of them have much in common.
fn random_value(random: &mut Rng, depth: usize) -> Value {
    match random.usize(..if depth == 0 { 4 } else { 7 }) {
        0 => Value::Null,
        1 => random.usize(..3).into(),
        2 => json!(["", "a~b/c", "\u{0}ü"][random.usize(..3)]),
        3 => json!(0.5),
        4 => (0..random.usize(..4)).map(|_| random_value(random, depth - 1)).collect(),
        _ => {
            let members = random.usize(..4);
            let name = |number: usize| ["a", "~1/", "", "0", "-"][number].to_owned();
            let members = (0..members).map(|_| (name(random.usize(..5)), random_value(random, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

#[test]
fn the_difference_of_two_values_turns_one_into_the_other() {
    let mut random = Rng::with_seed(7);
    for _ in 0..20_000 {
        let (old, new) = (random_value(&mut random, 4), random_value(&mut random, 4));
        let mut made = old.clone();
        json_patch::patch_unsafe(&mut made, &json_patch::diff(&old, &new)).unwrap();
        assert_eq!(made, new, "from {old}");
    }
}
