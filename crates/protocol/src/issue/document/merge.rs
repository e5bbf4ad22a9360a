//! Partial documents: merging one into a whole document, and making one of what differs between two documents.

use serde_json::{Map, Value};

/// Merges a partial document into a whole one: objects member by member, everything else by replacement.
pub fn merge(into: &mut Value, partial: &Value) {
    match (into, partial) {
        (Value::Object(into), Value::Object(partial)) => {
            for (name, value) in partial {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, partial) => *into = partial.clone(),
    }
}

/// Returns the partial document with the members that `new` has and `old` has not or has differently; `None` if there are
/// none. It cannot say that a member was removed.
pub fn changed_members(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let changed = new.iter().filter_map(|(name, value)| {
                let change = match old.get(name) {
                    Some(old) => changed_members(old, value)?,
                    None => value.clone(),
                };
                Some((name.clone(), change))
            });
            let changed: Map<_, _> = changed.collect();
            (!changed.is_empty()).then_some(Value::Object(changed))
        }
        (_, new) => Some(new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_members_merged_into_the_old_give_the_new() {
        let old = json!({ "a": { "b": 1, "c": [1, 2] }, "d": "x" });
        let new = json!({ "a": { "b": 2, "c": [1] } });
        let changed = changed_members(&old, &new).unwrap();
        assert_eq!(changed, json!({ "a": { "b": 2, "c": [1] } }));
        let mut merged = old.clone();
        merge(&mut merged, &changed);
        assert_eq!(merged, json!({ "a": { "b": 2, "c": [1] }, "d": "x" }), "what is absent stays");
        assert_eq!(changed_members(&old, &old), None);
    }
}
