//! How deep JSON from outside may be nested.
//!
//! serde_json cannot read 128 levels or more. A journal entry adds a few levels around what it contains, so the limits for
//! input are lower: otherwise an entry could be written and never be read again.

use serde_json::Value;

/// How deep a report or an imported value may be nested.
pub const MAX_INPUT_DEPTH: usize = 100;

/// How deep a document may be nested after an edit. The document adds levels around the value that the edit gives.
pub const MAX_DOCUMENT_DEPTH: usize = 110;

/// Returns whether lists and objects are nested more than `limit` levels deep. An empty list is one level.
pub fn exceeds_depth(value: &Value, limit: usize) -> bool {
    let mut to_visit = vec![(value, 0)];
    while let Some((value, depth)) = to_visit.pop() {
        let children: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(members) => members.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
        };
        if depth == limit {
            return true;
        }
        to_visit.extend(children.into_iter().map(|value| (value, depth + 1)));
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_objects_count_as_levels() {
        for (value, depth) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({"a": 1, "b": [2], "c": [[3], 4]}), 3),
            (json!([{"a": [{"b": {}}]}, 1]), 5),
        ] {
            assert!(!exceeds_depth(&value, depth), "{value}");
            assert!(depth == 0 || exceeds_depth(&value, depth - 1), "{value}");
        }
    }
}
