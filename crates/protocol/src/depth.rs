//! How deep JSON from outside may be nested.
//!
//! What is written is read again, and no reader follows brackets without end: ours stops at 128. An entry wraps what it
//! holds a few times more, so what just can be read when it comes in could never be read again.

use serde_json::Value;

/// How deep a report may be, or the value of a key that is imported.
pub const DEEPEST_GIVEN: usize = 100;

/// How deep a document may become by an edit: it wraps what was given.
pub const DEEPEST_DOCUMENT: usize = 110;

/// Whether lists and objects lie in one another in more than so many layers.
pub fn is_deeper(value: &Value, than: usize) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, above)) = open.pop() {
        let inside: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(members) => members.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
        };
        if above == than {
            return true;
        }
        open.extend(inside.into_iter().map(|value| (value, above + 1)));
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_are_counted_and_nothing_else() {
        for (value, depth) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({"a": 1, "b": [2], "c": [[3], 4]}), 3),
            (json!([{"a": [{"b": {}}]}, 1]), 5),
        ] {
            assert!(!is_deeper(&value, depth), "{value}");
            assert!(depth == 0 || is_deeper(&value, depth - 1), "{value}");
        }
    }
}
