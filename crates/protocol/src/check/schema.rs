//! A value against a JSON Schema of draft 07, with the keywords that the schemas of the seeds have.

use serde_json::{Map, Value};

use super::{Violation, entry, kind, member, shortened};
use crate::Stamp;

/// Returns what of the value does not fit the schema.
pub(crate) fn violations(schema: &Value, value: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    check(schema, value, String::new(), &mut found);
    found
}

fn check(schema: &Value, value: &Value, at: String, found: &mut Vec<Violation>) {
    let mut add = |rule, message: String, repair: String| {
        found.push(Violation { rule, pointer: at.clone(), message, repair });
    };
    if let Some(expected) = schema["type"].as_str().filter(|expected| !has_type(value, expected)) {
        let repair = if value.is_null() {
            "leave it out until it is known".to_owned()
        } else {
            format!("write {}", article(expected))
        };
        return add("type", format!("it is {}, not {}", kind(value), article(expected)), repair);
    }
    let words = schema["enum"].as_array().cloned().or_else(|| Some(vec![schema.get("const")?.clone()]));
    if let Some(words) = words.filter(|words| !words.contains(value)) {
        let words: Vec<_> = words.iter().map(Value::to_string).collect();
        add("word", format!("it is {}", shortened(value)), format!("use one of {}", words.join(", ")));
    }
    let is_time = schema["format"] == "date-time";
    if let Some(text) = value.as_str().filter(|text| is_time && text.parse::<Stamp>().is_err()) {
        add("time", format!("`{text}` is not a time"), "write it as 2025-01-06T10:00:00Z".to_owned());
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| value.get(name).is_none()) {
        add("required", format!("`{name}` is missing"), "add it".to_owned());
    }
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (name, member_value) in value.as_object().into_iter().flatten() {
        if let Some(inner) = properties.get(name).or_else(|| schema.get("additionalProperties")) {
            check(inner, member_value, member(&at, name), found);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], item, entry(&at, index), found);
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    }
}

fn article(expected: &str) -> String {
    match expected {
        "integer" => "a whole number".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        other => format!("a {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The schemas of the seed of `team`, each with its example.
    const SEED_FILES: [(&str, &str); 6] = [
        (
            include_str!("../../../../docs/schema/team/pm_state.schema.json"),
            include_str!("../../tests/fixtures/team/pm_state.json"),
        ),
        (
            include_str!("../../../../docs/schema/team/group_status.schema.json"),
            include_str!("../../tests/fixtures/team/group_status.json"),
        ),
        (
            include_str!("../../../../docs/schema/team/orchestrator_state.schema.json"),
            include_str!("../../tests/fixtures/team/orchestrator_state.json"),
        ),
        (
            include_str!("../../../../docs/schema/team/dev_to_qa.schema.json"),
            include_str!("../../tests/fixtures/team/dev_to_qa.json"),
        ),
        (
            include_str!("../../../../docs/schema/team/qa_to_techlead.schema.json"),
            include_str!("../../tests/fixtures/team/qa_to_techlead.json"),
        ),
        (
            include_str!("../../../../docs/schema/team/techlead_to_dev.schema.json"),
            include_str!("../../tests/fixtures/team/techlead_to_dev.json"),
        ),
    ];

    #[test]
    fn each_keyword_is_checked_where_it_stands() {
        let schema = json!({
            "type": "object", "required": ["id"],
            "properties": {
                "id": { "type": "string", "const": "x" }, "at": { "type": "string", "format": "date-time" },
                "list": { "type": "array", "items": { "type": "integer" } }, "any": {},
            },
            "additionalProperties": { "enum": ["a", "b"] },
        });
        let rules = |value: Value| -> Vec<String> {
            let found = violations(&schema, &value);
            found.into_iter().map(|found| format!("{} {}", found.rule, found.pointer)).collect()
        };
        let good =
            json!({ "id": "x", "at": "2025-01-06T10:00:00Z", "list": [1, 2.0], "any": null, "k": "b" });
        assert_eq!(rules(good), Vec::<String>::new());
        assert_eq!(rules(json!([])), ["type "]);
        let bad = json!({ "at": "soon", "list": [1, 1.5, "1"], "k/l": "c" });
        assert_eq!(rules(bad), ["required ", "time /at", "type /list/1", "type /list/2", "word /k~1l"]);
        assert_eq!(rules(json!({ "id": "y", "at": null })), ["word /id", "type /at"]);
    }

    /// Returns the pointers to all values within a value.
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        for (name, inner) in value.as_object().into_iter().flatten() {
            pointers(inner, &member(at, name), found);
        }
        for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
            pointers(inner, &entry(at, index), found);
        }
    }

    /// Removes the value that the pointer names from its object or list.
    fn remove(value: &mut Value, pointer: &str) {
        let Some((parent, name)) = pointer.rsplit_once('/') else { return };
        match value.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.shift_remove(name)),
            Some(Value::Array(items)) => drop(items.remove(name.parse::<usize>().unwrap())),
            _ => panic!("`{pointer}` is in no object or list"),
        }
    }

    #[test]
    fn a_full_validator_finds_violations_at_the_same_places() {
        let replacements = [
            json!(null),
            json!(true),
            json!(-1),
            json!(1.5),
            json!("x"),
            json!("2025-01-06T10:00:00+02:00"),
            json!("2025-01-06"),
            json!([1, {}, "x"]),
            json!({ "id": 1, "status": "x", "started_at": "soon" }),
        ];
        let mut compared = 0;
        for (schema, example) in SEED_FILES {
            let schema: Value = serde_json::from_str(schema).unwrap();
            let example: Value = serde_json::from_str(example).unwrap();
            let full = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
            let mut places = Vec::new();
            pointers(&example, "", &mut places);
            for place in &places {
                let replaced = replacements.iter().map(|replacement| {
                    let mut value = example.clone();
                    *value.pointer_mut(place).unwrap() = replacement.clone();
                    value
                });
                let mut without = example.clone();
                remove(&mut without, place);
                for value in replaced.chain([without]) {
                    let ours = violations(&schema, &value).into_iter().map(|found| found.pointer);
                    let theirs = full.iter_errors(&value).map(|error| error.instance_path().to_string());
                    let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) = (ours.collect(), theirs.collect());
                    assert_eq!(ours, theirs, "{place}: {value}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 1000, "{compared} values");
    }
}
