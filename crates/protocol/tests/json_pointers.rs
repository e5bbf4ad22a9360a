//! The pointers of all values in a JSON document, for tests that change them one by one.

use serde_json::Value;

/// Returns the pointers of all values in a value, beginning with the value itself.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found
}

fn collect(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    let members = value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value));
    let entries = value.as_array().into_iter().flatten().enumerate();
    for (key, value) in members.chain(entries.map(|(index, value)| (index.to_string(), value))) {
        collect(value, &format!("{pointer}/{key}"), found);
    }
}
