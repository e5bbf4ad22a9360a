//! The JSON Schema of workflow files, for editors. It covers keys and types; only the loader checks the graph.

use serde_json::{Map, Value, json};

use super::super::workflow::PERSON;
use super::draft::ATTEMPT_KEYS;
use super::grammar::{Key, Requirement, STEP, ValueType, WORKFLOW};
use super::when::COMPARISONS;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A block text (`|`) ends with a line break, which the loader removes; hence the `\n*`.
const ID: &str = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\n*$";
const VARIABLE: &str = r"^[A-Za-z_][A-Za-z0-9_]*$";
const NOT_BLANK: &str = r"\S";
/// Seconds, or each unit at most once from long to short. The lookahead requires at least one unit.
const TIME: &str = r"^([0-9]+\.?[0-9]*|\.[0-9]+|(?=[0-9])([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$";

/// The JSON Schema (draft 2020-12) of workflow files.
pub fn schema() -> Value {
    let mut schema = mapping(&WORKFLOW);
    let head = json!({
        "$schema": DIALECT,
        "title": "Callboard workflow",
        "description": "Steps, each run by an agent, and which of them wait for which.",
    });
    if let (Value::Object(schema), Value::Object(head)) = (&mut schema, head) {
        let rest = std::mem::replace(schema, head);
        schema.extend(rest);
        let mut step = mapping(&STEP);
        step["description"] = "One step: an agent, its prompt, and the steps it needs.".into();
        let prompts: Vec<_> = STEP
            .iter()
            .filter(|key| key.requirement == Requirement::UnlessPerson)
            .map(|key| key.name)
            .collect();
        step["if"] =
            json!({ "not": { "properties": { "agent": { "const": PERSON } }, "required": ["agent"] } });
        step["then"] = json!({ "required": prompts });
        let without_attempts: Map<_, _> =
            ATTEMPT_KEYS.iter().map(|key| ((*key).to_owned(), json!(false))).collect();
        step["else"] = json!({ "properties": without_attempts });
        schema.insert("$defs".to_owned(), json!({ "step": step }));
    }
    schema
}

fn mapping(keys: &[Key]) -> Value {
    let required: Vec<_> =
        keys.iter().filter(|key| key.requirement == Requirement::Always).map(|key| key.name).collect();
    let properties: Map<_, _> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn property(key: &Key) -> Value {
    let mut property = value(key.value_type);
    property["description"] = key.description.into();
    property
}

fn value(value_type: ValueType) -> Value {
    match value_type {
        ValueType::Text => json!({ "type": "string", "pattern": NOT_BLANK }),
        ValueType::AnyText => json!({ "type": "string" }),
        ValueType::Id => json!({ "type": "string", "pattern": ID }),
        ValueType::Ids => json!({ "type": "array", "items": { "type": "string", "pattern": ID } }),
        ValueType::Names => json!({ "type": "array", "items": { "type": "string", "pattern": NOT_BLANK } }),
        ValueType::Loop => {
            let sources = ["items", "items_from_step", "items_from_artifact", "with"];
            let one_of: Vec<_> = sources.iter().map(|source| json!({ "required": [source] })).collect();
            json!({
                "type": "object",
                "additionalProperties": false,
                "oneOf": one_of,
                "properties": {
                    "items": { "type": "array" },
                    "items_from_step": value(ValueType::Id),
                    "items_from_artifact": value(ValueType::Text),
                    "with": value(ValueType::Id),
                    "max_iterations": value(ValueType::Count),
                    "item_var": { "type": "string", "pattern": VARIABLE },
                    "index_var": { "type": "string", "pattern": VARIABLE },
                    "parallel": value(ValueType::Count),
                },
            })
        }
        ValueType::When => {
            let with = |key: &str, schema: Value, of_step: bool| {
                let mut properties = Map::from_iter([(key.to_owned(), schema)]);
                if of_step {
                    properties.insert("step".to_owned(), value(ValueType::Id));
                }
                properties
            };
            let object = |properties: Map<String, Value>| {
                let required: Vec<_> = properties.keys().cloned().collect();
                json!({
                    "type": "object",
                    "additionalProperties": false,
                    "required": required,
                    "properties": properties,
                })
            };
            let compared = COMPARISONS.iter().map(|comparison| {
                let mut properties = with("metric", value(ValueType::Text), true);
                let operand = match *comparison {
                    "is" | "is_not" => json!({ "type": ["number", "string"] }),
                    _ => json!({ "type": "number" }),
                };
                properties.insert((*comparison).to_owned(), operand);
                object(properties)
            });
            let status = json!({ "enum": ["COMPLETED", "SKIPPED"] });
            let others = [
                object(with("status", status, true)),
                object(with("artifact", value(ValueType::Text), false)),
            ];
            let one = json!({ "anyOf": others.into_iter().chain(compared).collect::<Vec<_>>() });
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        ValueType::Checks => json!({ "type": "array", "items": { "anyOf": [
            { "type": "string", "pattern": NOT_BLANK },
            {
                "type": "object",
                "required": ["run"],
                "additionalProperties": false,
                "properties": {
                    "run": { "anyOf": [
                        { "type": "string", "pattern": NOT_BLANK },
                        { "type": "array", "minItems": 1, "items": { "type": "string" } },
                    ] },
                    "name": value(ValueType::Text),
                    "timeout": value(ValueType::Time),
                },
            },
        ] } }),
        ValueType::Mapping => json!({ "type": "object" }),
        ValueType::Time => json!({ "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000 },
            { "type": "string", "pattern": TIME },
        ] }),
        ValueType::Count => json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
        ValueType::Flag => json!({ "type": "boolean" }),
        ValueType::Steps => json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/step" } }),
    }
}
