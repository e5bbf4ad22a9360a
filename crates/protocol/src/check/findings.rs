//! Gathering violations: where one is, what to call that place, and in which words.

use serde_json::Value;

use super::{Violation, entry, member};

/// A value's place, and what to call it in a message.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) pointer: String,
    pub(crate) owner: String,
}

impl At {
    /// The document as a whole.
    pub(crate) fn document() -> Self {
        Self { pointer: String::new(), owner: "the document".to_owned() }
    }

    /// A field that the format knows.
    pub(crate) fn field(&self, name: &str) -> Self {
        Self { pointer: member(&self.pointer, name), owner: format!("`{name}` of {}", self.owner) }
    }

    /// A member whose name is the user's.
    pub(crate) fn inside(&self, name: &str) -> Self {
        Self { pointer: member(&self.pointer, name), owner: format!("`{name}` in {}", self.owner) }
    }

    /// An entry of a list.
    pub(crate) fn entry(&self, index: usize) -> Self {
        Self { pointer: entry(&self.pointer, index), owner: format!("entry {} in {}", index + 1, self.owner) }
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Violation>);

impl Findings {
    pub(crate) fn add(&mut self, rule: &'static str, at: &At, message: String, repair: impl Into<String>) {
        self.0.push(Violation { rule, pointer: at.pointer.clone(), message, repair: repair.into() });
    }

    pub(crate) fn wrong_type(&mut self, at: &At, value: &Value, expected: &str, repair: &str) {
        self.mistyped("wrong-type", at, value, expected, repair);
    }

    /// The same under a rule that has a name of its own.
    pub(crate) fn mistyped(
        &mut self,
        rule: &'static str,
        at: &At,
        value: &Value,
        expected: &str,
        repair: impl Into<String>,
    ) {
        let message = format!("{} is {} where {expected} is expected", at.owner, kind(value));
        self.add(rule, at, message, repair);
    }
}

/// What to call a value in a message.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
