//! Brings the outputs of phases in old documents into a form that version 2 of the document accepts.

use serde_json::{Map, Value, json};

use crate::peer::document::Phase;
use crate::peer::output::verify;

/// An output that version 2 accepts, and the changes that were needed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reshaped {
    pub(super) output: Value,
    pub(super) changes: Vec<String>,
}

/// Returns whether a value is no output at all: absent, empty or blank.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        // `jq -r` prints a missing value as `null`.
        Value::String(text) => matches!(text.trim(), "" | "null"),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Reshapes an output that is not empty. An invalid field is renamed, a missing one gets a placeholder that says so.
pub(super) fn reshape(phase: Phase, old_output: &Value) -> Reshaped {
    let mut changes = Vec::new();
    let mut fields = match old_output {
        Value::Object(fields) => fields.clone(),
        Value::String(_) => wrap(text_field(phase), old_output, &mut changes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            wrap("value", old_output, &mut changes)
        }
    };
    for name in invalid_fields(phase, &fields) {
        if let Some(value) = fields.shift_remove(&name) {
            let mut renamed = format!("{name}_as_found");
            while fields.contains_key(&renamed) {
                renamed.push('_');
            }
            changes.push(format!("`{name}` is invalid and was renamed to `{renamed}`"));
            fields.insert(renamed, value);
        }
    }
    if phase == Phase::Plan {
        let placeholders = [
            ("phases", json!([{"phase": "execution", "description": "as the rest of this plan says"}])),
            ("success_criteria", json!("not stated in the old document")),
        ];
        for (name, placeholder) in placeholders {
            if !fields.contains_key(name) {
                changes.push(format!("it has no valid `{name}`; a placeholder was added"));
                fields.insert(name.to_owned(), placeholder);
            }
        }
    }
    Reshaped { output: fields.into(), changes }
}

/// Returns the field for an old output that is only a text.
fn text_field(phase: Phase) -> &'static str {
    match phase {
        Phase::Plan | Phase::Review => "text",
        Phase::Execute => "notes",
        Phase::Express => "formatted_output",
    }
}

fn wrap(name: &str, value: &Value, changes: &mut Vec<String>) -> Map<String, Value> {
    changes.push(format!("it is not an object and became the field `{name}`"));
    Map::from_iter([(name.to_owned(), value.clone())])
}

fn invalid_fields(phase: Phase, fields: &Map<String, Value>) -> Vec<String> {
    let violations = verify(phase, &Value::Object(fields.clone())).err().unwrap_or_default();
    let names = violations.iter().filter_map(|violation| violation.pointer.split('/').nth(1));
    let mut names: Vec<_> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_output_becomes_valid_and_nothing_of_it_is_lost() {
        let outputs = [
            json!(1),
            json!("x"),
            json!([1, {"a": 2}]),
            json!({"phases": [1, null]}),
            json!({"phases": {"one": {"steps": 5}, "two": "x"}}),
            json!({"phases": [1, null], "phases_as_found": "earlier"}),
            json!({"success_criteria": 7, "risks": 3}),
            json!({"files_created": "one", "errors": 4}),
            json!({"quality_score": 300, "scores": []}),
        ];
        for found in outputs {
            for phase in Phase::ALL {
                let Reshaped { output, .. } = reshape(phase, &found);
                assert_eq!(verify(phase, &output), Ok(()), "{phase} {found}");
                assert_eq!(reshape(phase, &output), Reshaped { output: output.clone(), changes: Vec::new() });
                let text = output.to_string();
                let parts = found.as_object().map_or(vec![&found], |fields| fields.values().collect());
                assert!(parts.iter().all(|part| text.contains(&part.to_string())), "{found} in {text}");
            }
        }
    }
}
