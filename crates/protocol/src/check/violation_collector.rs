//! Collects violations, each with the JSON pointer of its value and a message.

use serde_json::Value;

use super::{Violation, entry_pointer, member_pointer};

/// Where a value is in the document: its JSON pointer, and its name in messages.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) pointer: String,
    pub(crate) name: String,
}

impl Location {
    /// Returns the location of the whole document.
    pub(crate) fn document() -> Self {
        Self { pointer: String::new(), name: "the document".to_owned() }
    }

    /// Returns the location of a member whose name the format specifies.
    pub(crate) fn field(&self, name: &str) -> Self {
        Self { pointer: member_pointer(&self.pointer, name), name: format!("`{name}` of {}", self.name) }
    }

    /// Returns the location of a member whose name the user chose, such as a step id.
    pub(crate) fn inside(&self, name: &str) -> Self {
        Self { pointer: member_pointer(&self.pointer, name), name: format!("`{name}` in {}", self.name) }
    }

    /// Returns the location of an entry of a list.
    pub(crate) fn entry(&self, index: usize) -> Self {
        Self {
            pointer: entry_pointer(&self.pointer, index),
            name: format!("entry {} in {}", index + 1, self.name),
        }
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct ViolationCollector(pub(crate) Vec<Violation>);

impl ViolationCollector {
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        at: &Location,
        message: String,
        repair: impl Into<String>,
    ) {
        self.0.push(Violation { rule, pointer: at.pointer.clone(), message, repair: repair.into() });
    }

    /// Adds a violation of the rule `wrong-type`.
    pub(crate) fn wrong_type(&mut self, at: &Location, value: &Value, expected: &str, repair: &str) {
        self.wrong_type_for_rule("wrong-type", at, value, expected, repair);
    }

    /// Adds a violation of this rule because a value has the wrong type.
    pub(crate) fn wrong_type_for_rule(
        &mut self,
        rule: &'static str,
        at: &Location,
        value: &Value,
        expected: &str,
        repair: impl Into<String>,
    ) {
        let message = format!("{} is {} where {expected} is expected", at.name, json_type(value));
        self.add(rule, at, message, repair);
    }
}

/// Names the type of a value in messages.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
