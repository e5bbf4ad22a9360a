//! Checks a value against a JSON Schema (draft 07 or 2020-12). Supports the keywords that our schemas use, and a few
//! that the schema of a report needs.

use serde_json::{Map, Value};

use super::{Violation, entry_pointer, json_type, member_pointer, shortened};
use crate::{Timestamp, closest};

/// A JSON Schema for schemas, one level deep. It lists the keywords that [`violations`] checks, and annotations, which
/// [`violations`] ignores. Of `format`, [`violations`] checks only `date-time`; of `pattern`, only [`NOT_BLANK`].
const KEYWORDS: &str = r#"{
    "type": ["object", "boolean"],
    "properties": {
        "type": { "type": ["string", "array"], "items": { "type": "string" } },
        "enum": { "type": "array" }, "const": true, "format": { "type": "string" },
        "required": { "type": "array", "items": { "type": "string" } },
        "properties": { "type": "object" }, "additionalProperties": true, "items": { "type": ["object", "boolean"] },
        "minLength": { "type": "integer" }, "maxLength": { "type": "integer" },
        "minItems": { "type": "integer" }, "maxItems": { "type": "integer" },
        "minProperties": { "type": "integer" }, "maxProperties": { "type": "integer" },
        "minimum": { "type": "number" }, "maximum": { "type": "number" },
        "pattern": { "const": "\\S" }, "anyOf": { "type": "array", "items": { "type": ["object", "boolean"] } },
        "$schema": true, "$id": true, "$comment": true, "title": true, "description": true, "default": true,
        "examples": true
    },
    "additionalProperties": false
}"#;

/// The `pattern` of a text that is not blank.
const NOT_BLANK: &str = r"\S";

/// Returns the first reason why a value that a user wrote is not a schema of these keywords, or `None` if it is one.
pub fn problem(schema: &Value) -> Option<Violation> {
    let keywords = serde_json::from_str(KEYWORDS).expect("BUG: the schema is JSON");
    problem_at(&keywords, schema, "")
}

fn problem_at(keywords: &Value, schema: &Value, at: &str) -> Option<Violation> {
    if let Some(mut violation) = violations(keywords, schema).into_iter().next() {
        violation.pointer.insert_str(0, at);
        if violation.rule == "unknown" {
            violation.message = "callboard does not check this keyword".to_owned();
        }
        return Some(violation);
    }
    let unknown = types(&schema["type"]).into_iter().find(|name| !TYPES.contains(name));
    if let Some(unknown) = unknown {
        let (message, repair) =
            (format!("`{unknown}` is not a type"), format!("use one of {}", TYPES.join(", ")));
        return Some(Violation { rule: "word", pointer: member_pointer(at, "type"), message, repair });
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    let at_properties = member_pointer(at, "properties");
    let inner = properties.map(|(name, inner)| (inner, member_pointer(&at_properties, name)));
    let named = |keyword: &'static str| Some((schema.get(keyword)?, member_pointer(at, keyword)));
    let inner = inner.chain(named("additionalProperties")).chain(named("items"));
    let alternatives = schema["anyOf"].as_array().into_iter().flatten().enumerate();
    let at_alternatives = member_pointer(at, "anyOf");
    let mut inner =
        inner.chain(alternatives.map(|(index, inner)| (inner, entry_pointer(&at_alternatives, index))));
    inner.find_map(|(inner, at)| problem_at(keywords, inner, &at))
}

/// Returns every violation of the schema by the value.
pub fn violations(schema: &Value, value: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    check(schema, value, String::new(), &mut found);
    found
}

fn check(schema: &Value, value: &Value, at: String, found: &mut Vec<Violation>) {
    let mut add = |rule, message: String, repair: String| {
        found.push(Violation { rule, pointer: at.clone(), message, repair });
    };
    if *schema == Value::Bool(false) {
        return add("unknown", "it is not allowed here".to_owned(), "leave it out".to_owned());
    }
    let expected = types(&schema["type"]);
    if !expected.is_empty() && !expected.iter().any(|expected| has_type(value, expected)) {
        let expected = expected.into_iter().map(with_article).collect::<Vec<_>>().join(" or ");
        let repair = if value.is_null() {
            format!("write {expected}, or leave it out until it is known")
        } else {
            format!("write {expected}")
        };
        return add("type", format!("it is {}, not {expected}", json_type(value)), repair);
    }
    let word_lists = schema["enum"]
        .as_array()
        .cloned()
        .into_iter()
        .chain(schema.get("const").map(|word| vec![word.clone()]));
    for words in word_lists.filter(|words| !words.iter().any(|word| is_equal(word, value))) {
        let words: Vec<_> = words.iter().map(Value::to_string).collect();
        add("word", format!("it is {}", shortened(value)), format!("use one of {}", words.join(", ")));
    }
    let is_time = schema["format"] == "date-time";
    if let Some(text) = value.as_str().filter(|text| is_time && text.parse::<Timestamp>().is_err()) {
        add("time", format!("`{text}` is not a time"), "write it as 2025-01-06T10:00:00Z".to_owned());
    }
    if value.as_str().is_some_and(|text| text.trim().is_empty()) && schema["pattern"] == NOT_BLANK {
        add("limit", "it is blank".to_owned(), "write something".to_owned());
    }
    if let Some((size, [least, most], what)) = size(value) {
        if let Some(least) = schema[least].as_f64().filter(|least| size < *least) {
            add("limit", format!("{what} is {size}"), format!("{least} is the least"));
        }
        if let Some(most) = schema[most].as_f64().filter(|most| size > *most) {
            add("limit", format!("{what} is {size}"), format!("{most} is the most"));
        }
    }
    if let Some(object) = value.as_object() {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !object.contains_key(*name)) {
            let unknown = object.keys().map(String::as_str).filter(|key| !properties.contains_key(*key));
            let repair = match closest(name, unknown) {
                Some(typo) => format!("rename `{typo}` to `{name}`"),
                None => "add it".to_owned(),
            };
            add("required", format!("`{name}` is missing"), repair);
        }
        for (name, member_value) in object {
            if let Some(inner) = properties.get(name).or_else(|| schema.get("additionalProperties")) {
                check(inner, member_value, member_pointer(&at, name), found);
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&schema["items"], item, entry_pointer(&at, index), found);
    }
    found.extend(violations_of_nearest(&schema["anyOf"], value, &at));
}

/// Returns the violations of the alternative that the value is nearest to: it matches one without violations, else it
/// is meant for one that has its type.
fn violations_of_nearest(alternatives: &Value, value: &Value, at: &str) -> Vec<Violation> {
    let alternatives = alternatives.as_array().into_iter().flatten().map(|schema| {
        let mut found = Vec::new();
        check(schema, value, at.to_owned(), &mut found);
        found
    });
    let has_other_type =
        |found: &Vec<Violation>| found.iter().any(|found| found.rule == "type" && found.pointer == at);
    alternatives.min_by_key(|found| (has_other_type(found), found.len())).unwrap_or_default()
}

/// The names of the types.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Returns the names in the keyword `type`: none, one or a list.
fn types(keyword: &Value) -> Vec<&str> {
    match keyword {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns the size of a value, the keywords that limit it, and how a message names it.
fn size(value: &Value) -> Option<(f64, [&'static str; 2], &'static str)> {
    // A value of this length is larger than any report.
    let count = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    match value {
        Value::String(text) => Some((count(text.chars().count()), ["minLength", "maxLength"], "its length")),
        Value::Array(items) => Some((count(items.len()), ["minItems", "maxItems"], "its length")),
        Value::Object(members) => {
            Some((count(members.len()), ["minProperties", "maxProperties"], "its number of fields"))
        }
        Value::Number(number) => Some((number.as_f64()?, ["minimum", "maximum"], "it")),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Compares numbers by their value: `3` equals `3.0`. A list or an object must have the same JSON.
fn is_equal(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| other.as_f64() == Some(number))
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

/// Returns the name of a type for a message, with its article.
fn with_article(expected: &str) -> String {
    match expected {
        "integer" => "a whole number".to_owned(),
        "array" => "a list".to_owned(),
        "object" => "an object".to_owned(),
        "null" => "null".to_owned(),
        other => format!("a {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The original schemas of `team`, each with its example.
    const SCHEMAS_WITH_EXAMPLES: [(&str, &str); 6] = [
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
    fn each_violation_has_the_pointer_of_its_value() {
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

    #[test]
    fn limits_types_and_unknown_fields_are_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "logs": { "type": ["array", "null"], "items": { "minLength": 2, "maxLength": 3 }, "minItems": 1, "maxItems": 3 },
                "score": { "minimum": 0, "maximum": 1.5 },
                "name": { "pattern": r"\S" },
                "grade": { "anyOf": [{ "enum": ["good", "bad"], "type": "string" }, { "type": "number", "maximum": 6 }] },
            },
            "additionalProperties": false,
            "maxProperties": 3,
        });
        assert_eq!(problem(&schema), None);
        let rules = |value: Value| -> Vec<String> {
            let found = violations(&schema, &value);
            found
                .into_iter()
                .map(|found| format!("{} {}: {}, {}", found.rule, found.pointer, found.message, found.repair))
                .collect()
        };
        assert_eq!(rules(json!({ "logs": ["ab", "äöü"], "score": 1.5 })), Vec::<String>::new());
        assert_eq!(rules(json!({ "logs": null, "score": 0, "name": " x" })), Vec::<String>::new());
        assert_eq!(rules(json!({ "grade": "good" })), Vec::<String>::new());
        assert_eq!(rules(json!({ "grade": 6 })), Vec::<String>::new());
        insta::assert_snapshot!(
            [
                rules(json!({ "logs": ["a", "abcd", "ab", "ab"], "score": -1, "more": 1 })),
                rules(json!({ "logs": [], "score": 2 })),
                rules(json!({ "logs": 1 })),
                rules(json!({ "score": null, "name": " ", "grade": "god", "logs": null })),
                rules(json!({ "grade": 7 })),
                rules(json!({ "grade": true })),
            ]
            .concat()
            .join("\n"),
            @r#"
        limit /logs: its length is 4, 3 is the most
        limit /logs/0: its length is 1, 2 is the least
        limit /logs/1: its length is 4, 3 is the most
        limit /score: it is -1, 0 is the least
        unknown /more: it is not allowed here, leave it out
        limit /logs: its length is 0, 1 is the least
        limit /score: it is 2, 1.5 is the most
        type /logs: it is a number, not a list or null, write a list or null
        limit : its number of fields is 4, 3 is the most
        limit /name: it is blank, write something
        word /grade: it is `"god"`, use one of "good", "bad"
        limit /grade: it is 7, 6 is the most
        type /grade: it is a boolean, not a string, write a string
        "#
        );
    }

    #[test]
    fn enum_and_const_are_both_checked_and_compare_numbers_by_value() {
        let schema = json!({ "enum": [3, 4, "x"], "const": 3 });
        let is_valid = |value: Value| violations(&schema, &value).is_empty();
        assert!(is_valid(json!(3)) && is_valid(json!(3.0)));
        assert!(!is_valid(json!(4)) && !is_valid(json!("x")) && !is_valid(json!(5)));
    }

    #[test]
    fn a_schema_that_would_not_be_checked_whole_is_refused() {
        let problem = |schema: Value| {
            let found = problem(&schema).expect("BUG: it is refused");
            format!("{}: {}, {}", found.pointer, found.message, found.repair)
        };
        let refused = [
            json!([]),
            json!({ "oneOf": [] }),
            json!({ "properties": { "a": { "items": { "$ref": "#" } } } }),
            json!({ "additionalProperties": { "minimum": "1" } }),
            json!({ "type": "text" }),
            json!({ "items": [{}] }),
            json!({ "anyOf": [{}, { "pattern": "^a" }] }),
        ];
        insta::assert_snapshot!(refused.map(problem).join("\n"), @r#"
        : it is a list, not an object or a boolean, write an object or a boolean
        /oneOf: callboard does not check this keyword, leave it out
        /properties/a/items/$ref: callboard does not check this keyword, leave it out
        /additionalProperties/minimum: it is a string, not a number, write a number
        /type: `text` is not a type, use one of array, boolean, integer, null, number, object, string
        /items: it is a list, not an object or a boolean, write an object or a boolean
        /anyOf/1/pattern: it is `"^a"`, use one of "\\S"
        "#);
    }

    /// Returns the pointers to all values within a value.
    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        for (name, inner) in value.as_object().into_iter().flatten() {
            pointers(inner, &member_pointer(at, name), found);
        }
        for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
            pointers(inner, &entry_pointer(at, index), found);
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
        for (schema, example) in SCHEMAS_WITH_EXAMPLES {
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
