//! A torn `run_state.json`: what of it can be read, and what is lost.
//!
//! A program that rewrites its file in place and is killed leaves the beginning of it. The fields above the steps come first,
//! then the steps, so that the steps before the cut are whole.

use serde_json::{Map, Value, json};

use super::definition::Definition;
use super::document::StepDocument;
use super::record;
use crate::Stamp;
use crate::rules::RunLocation;

/// A document with every field and step that an import needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    pub document: Value,
    /// What it did not have, in a few words each.
    pub lost: Vec<String>,
}

/// Returns the fields and the whole steps before the place where the text stops being JSON. Of a text that is JSON, returns
/// everything.
pub fn salvage(text: &str) -> Value {
    let error = match serde_json::from_str(text) {
        Ok(value) => return value,
        Err(error) => error,
    };
    let before = |error: &serde_json::Error| {
        let line: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        text.get(..line + error.column().saturating_sub(1)).unwrap_or(text)
    };
    let readable = if error.is_eof() { text } else { before(&error) };
    let (end, open) = last_whole_member(readable);
    let closed = format!("{}{}", &readable[..end], "}".repeat(open));
    serde_json::from_str(&closed).unwrap_or_else(|_| json!({}))
}

/// Returns where the last field or step ends, and how many objects are open there.
fn last_whole_member(text: &str) -> (usize, usize) {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut last = (0, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth <= 2 {
                    last = (index + 1, depth);
                }
            }
            b',' if depth == 1 || depth == 2 => last = (index, depth),
            _ => {}
        }
    }
    last
}

/// Adds what a document lacks: fields above the steps as in a new run, and steps as pending.
pub fn complete(definition: &Definition, location: &RunLocation, at: Stamp, document: Value) -> Completed {
    let fresh = serde_json::to_value(record::open(definition, location, at));
    let Ok(Value::Object(fresh)) = fresh else { panic!("BUG: a document is an object") };
    let mut lost = Vec::new();
    let mut found = match document {
        Value::Object(found) => found,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    for (field, value) in fresh {
        if !found.contains_key(&field) {
            lost.push(format!("`{field}`"));
            found.insert(field, value);
        }
    }
    if let Some(steps) = found.get_mut("steps").and_then(Value::as_object_mut) {
        for id in definition.step_ids() {
            if !steps.contains_key(id.as_str()) {
                lost.push(format!("step `{id}`"));
                let pending = serde_json::to_value(StepDocument::pending());
                steps.insert(id.to_string(), pending.expect("BUG: a step is plain data"));
            }
        }
    }
    lost.retain(|what| what != "`steps`");
    Completed { document: Value::Object(found), lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{
  "run_id": "a, {b\"",
  "steps": {
    "plan": {"status": "COMPLETED", "logs": ["x, y", "]"], "metrics": {"n": {"deep": 1}}},
    "code": {"status": "RUNNING", "logs": []}
  },
  "more": true
}"#;

    #[test]
    fn a_torn_file_gives_its_fields_and_whole_steps_wherever_it_ends() {
        let whole: Value = serde_json::from_str(WHOLE).unwrap();
        assert_eq!(salvage(WHOLE), whole);
        let plan = WHOLE.find("},\n    \"code\"").unwrap();
        for end in 0..WHOLE.len() {
            let found = salvage(&WHOLE[..end]);
            for (field, value) in found.as_object().unwrap() {
                match field.as_str() {
                    "steps" => {
                        let mut steps = value.as_object().unwrap().iter();
                        assert!(steps.all(|(id, step)| whole["steps"][id] == *step), "{end}: {found}");
                    }
                    field => assert_eq!(whole[field], *value, "{end}"),
                }
            }
            assert_eq!(found["steps"]["plan"].is_object(), end > plan, "{end}: {found}");
        }
    }

    #[test]
    fn foreign_bytes_end_what_can_be_read() {
        let code = WHOLE.find("\"code\"").unwrap();
        let torn = format!("{}\0\0\0{}", &WHOLE[..code], &WHOLE[code..]);
        let found = salvage(&torn);
        assert_eq!(found["steps"].as_object().unwrap().keys().collect::<Vec<_>>(), ["plan"]);
        assert_eq!(salvage("\0\0\0"), json!({}));
        assert_eq!(salvage(""), json!({}));
    }
}
