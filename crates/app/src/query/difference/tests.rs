//! Patches between JSON values. A standard library applies each one and must get the new value.

use serde_json::json;

use super::*;

/// Returns the patch, after asserting that a standard JSON patch library turns the old value into the new one with it.
#[track_caller]
fn patch(old: Value, new: Value) -> Value {
    let found = serde_json::to_value(between(&old, &new)).unwrap();
    let patch: json_patch::Patch = serde_json::from_value(found.clone()).unwrap();
    let mut patched = old.clone();
    json_patch::patch(&mut patched, &patch).unwrap();
    assert_eq!(patched, new, "{found}");
    found
}

#[test]
fn equal_values_have_no_difference() {
    assert_eq!(patch(json!({"a": [1, {"b": null}]}), json!({"a": [1, {"b": null}]})), json!([]));
}

#[test]
fn fields_are_added_removed_and_replaced() {
    let found = patch(
        json!({"same": 1, "gone": true, "changed": "x"}),
        json!({"changed": "y", "same": 1, "new": null}),
    );
    assert_eq!(
        found,
        json!([
            {"op": "remove", "path": "/gone", "old": true},
            {"op": "replace", "path": "/changed", "value": "y", "old": "x"},
            {"op": "add", "path": "/new", "value": null},
        ])
    );
}

#[test]
fn an_element_added_in_front_of_a_list_is_one_operation() {
    let found = patch(json!(["b", "c"]), json!(["a", "b", "c"]));
    assert_eq!(found, json!([{"op": "add", "path": "/0", "value": "a"}]));
}

#[test]
fn lists_shrink_grow_and_change_in_the_middle() {
    patch(json!([1, 2, 3, 4, 5]), json!([1, 5]));
    patch(json!([1, 5]), json!([1, 2, 3, 4, 5]));
    patch(json!([1, {"a": 1, "b": 2}, 3]), json!([1, {"a": 2, "b": 2}, 3]));
    patch(json!([1, 2, 3]), json!([4, 5]));
    patch(json!([1, 1, 1]), json!([1, 1]));
    patch(json!([]), json!([[], [0]]));
    patch(json!({"a": [1]}), json!({"a": {"0": 1}}));
}

#[test]
fn special_characters_in_keys_are_escaped() {
    let found = patch(json!({"a/b": 1, "m~n": 1, "": 1}), json!({"a/b": 2, "m~n": 2, "": 2}));
    let paths: Vec<_> =
        found.as_array().unwrap().iter().map(|difference| difference["path"].clone()).collect();
    assert_eq!(paths, ["/a~1b", "/m~0n", "/"]);
}
