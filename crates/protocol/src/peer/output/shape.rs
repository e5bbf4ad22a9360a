//! Shapes of JSON as data. The check of a value and the JSON Schema both come from the shape, so that they agree.

use serde_json::{Map, Value, json};

use super::RULE;
use crate::check::{Location, ViolationCollector};
use crate::closest;

/// The shape of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Text,
    Number,
    /// A number from 0 to 100.
    Percent,
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    List(&'static Shape),
    /// A list with at most this many entries.
    AtMost(usize, &'static Shape),
    Object(&'static [Field]),
    /// The inner shape, not blank or empty.
    Filled(&'static Shape),
    /// One of these. No two have the same JSON type, so the type selects the shape.
    Either(&'static [Shape]),
}

/// A field of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// An optional field may be left out, or be null.
    pub(super) required: bool,
    /// The description in the schema.
    pub(super) description: &'static str,
}

pub(super) const fn required(name: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { name, shape, required: true, description }
}

pub(super) const fn optional(name: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { name, shape, required: false, description }
}

impl Shape {
    /// The name of the shape in messages.
    fn name(&self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Percent => "a number from 0 to 100".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Word(words) => format!("one of the words {}", words.join(", ")),
            Self::List(_) | Self::AtMost(..) => "a list".to_owned(),
            Self::Object(_) => "an object".to_owned(),
            Self::Filled(inner) => inner.name(),
            Self::Either(shapes) => {
                let words: Vec<_> = shapes.iter().map(Self::name).collect();
                match words.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => "nothing".to_owned(),
                }
            }
        }
    }

    /// Whether the value has the right JSON type.
    fn has_type(&self, value: &Value) -> bool {
        match self {
            Self::Text | Self::Word(_) => value.is_string(),
            Self::Number | Self::Percent => value.is_number(),
            Self::Flag => value.is_boolean(),
            Self::List(_) | Self::AtMost(..) => value.is_array(),
            Self::Object(_) => value.is_object(),
            Self::Filled(inner) => inner.has_type(value),
            Self::Either(shapes) => shapes.iter().any(|shape| shape.has_type(value)),
        }
    }

    /// Adds every violation of the value.
    pub(super) fn verify(&self, at: &Location, value: &Value, findings: &mut ViolationCollector) {
        if !self.has_type(value) {
            let expected = self.name();
            return findings.wrong_type_for_rule(RULE, at, value, &expected, format!("write {expected}"));
        }
        match self {
            Self::Text | Self::Number | Self::Flag => {}
            Self::Percent => {
                if !value.as_f64().is_some_and(|number| (0.0..=100.0).contains(&number)) {
                    let message = format!("{} is {value}, which is not a number from 0 to 100", at.name);
                    findings.add(RULE, at, message, "0 is the worst, 100 the best");
                }
            }
            Self::Word(words) => {
                let text = value.as_str().unwrap_or_default();
                if !words.contains(&text) {
                    let message = format!("{} is `{text}`, which is not a valid value", at.name);
                    let repair = match closest(text, words.iter().copied()) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("use one of {}", words.join(", ")),
                    };
                    findings.add(RULE, at, message, repair);
                }
            }
            Self::List(inner) => verify_entries(at, inner, value, findings),
            Self::AtMost(most, inner) => {
                let count = value.as_array().map_or(0, Vec::len);
                if count > *most {
                    let message = format!("{} has {count} entries; at most {most} are allowed", at.name);
                    findings.add(RULE, at, message, "keep the most important ones");
                }
                verify_entries(at, inner, value, findings);
            }
            Self::Object(fields) => verify_fields(at, fields, value, findings),
            Self::Filled(inner) => {
                if is_empty(value) {
                    return findings.add(RULE, at, format!("{} is empty", at.name), "write something");
                }
                inner.verify(at, value, findings);
            }
            Self::Either(shapes) => {
                if let Some(shape) = shapes.iter().find(|shape| shape.has_type(value)) {
                    shape.verify(at, value, findings);
                }
            }
        }
    }

    /// The shape as JSON Schema.
    pub(super) fn schema(&self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Number => json!({ "type": "number" }),
            Self::Percent => json!({ "type": "number", "minimum": 0, "maximum": 100 }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Word(words) => json!({ "enum": words }),
            Self::List(inner) => json!({ "type": "array", "items": inner.schema() }),
            Self::AtMost(most, inner) => {
                json!({ "type": "array", "items": inner.schema(), "maxItems": most })
            }
            Self::Object(fields) => object_schema(fields),
            Self::Filled(inner) => {
                let mut schema = inner.schema();
                match schema["type"].as_str() {
                    Some("array") => schema["minItems"] = 1.into(),
                    Some("object") => schema["minProperties"] = 1.into(),
                    _ => schema["pattern"] = r"\S".into(),
                }
                schema
            }
            Self::Either(shapes) => {
                json!({ "anyOf": shapes.iter().map(Self::schema).collect::<Vec<_>>() })
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn verify_entries(at: &Location, shape: &Shape, value: &Value, findings: &mut ViolationCollector) {
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        shape.verify(&at.entry(index), item, findings);
    }
}

fn verify_fields(at: &Location, fields: &[Field], value: &Value, findings: &mut ViolationCollector) {
    for Field { name, shape, required, .. } in fields {
        match value.get(name) {
            None if *required => {
                let unknown = value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
                let unknown = unknown.filter(|key| !fields.iter().any(|field| field.name == *key));
                let repair = match closest(name, unknown) {
                    Some(typo) => format!("rename `{typo}` to `{name}`"),
                    None => format!("add `{name}`: {}", shape.name()),
                };
                findings.add(RULE, at, format!("{} has no `{name}`", at.name), repair);
            }
            Some(Value::Null) if !required => {}
            None => {}
            Some(value) => shape.verify(&at.field(name), value, findings),
        }
    }
}

fn object_schema(fields: &[Field]) -> Value {
    let property = |field: &Field| {
        let mut schema = field.shape.schema();
        if !field.required {
            schema = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        schema["description"] = field.description.into();
        (field.name.to_owned(), schema)
    };
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.insert("properties".to_owned(), fields.iter().map(property).collect::<Map<_, _>>().into());
    schema.into()
}
