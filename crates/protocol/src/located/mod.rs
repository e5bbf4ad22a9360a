//! Files that people write: a tree in which every value has its position, and the problems found in it.
//!
//! The tree is read from [YAML](Node::from_yaml) or [JSON](Node::from_json). Deserializing into structs would stop at the
//! first error and lose the positions, so readers of such files walk the tree and collect [`Problems`] instead.

mod json;
mod problem;
mod scalar;
mod yaml;

use std::rc::Rc;

use serde_json::{Number, Value as Json};

pub use problem::{Problem, Problems, Rule};
pub(crate) use scalar::is_number;

/// A position in a text. Both numbers count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePos {
    pub line: usize,
    pub column: usize,
}

impl SourcePos {
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub pos: SourcePos,
}

/// One value of a file. YAML aliases share the node that they name.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub pos: SourcePos,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool {
        value: bool,
        /// As written.
        word: String,
    },
    /// `yes`, `no`, `on` or `off` without quotes: a boolean in YAML 1.1, text in YAML 1.2.
    AmbiguousBool(String),
    Number {
        value: Number,
        /// As written.
        word: String,
    },
    Text(String),
    List(Vec<Rc<Node>>),
    /// In the order of the file.
    Mapping(Vec<MappingEntry>),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct MappingEntry {
    pub key: Located<String>,
    pub value: Rc<Node>,
}

impl MappingEntry {
    /// Returns the entry with this key.
    pub fn find<'a>(entries: &'a [Self], key: &str) -> Option<&'a Self> {
        // JSON allows a key twice; serde_json takes the last one.
        entries.iter().rev().find(|entry| entry.key.value == key)
    }
}

impl Node {
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Returns the text of a scalar as written, without quotes; `None` for null, lists and mappings.
    pub fn scalar_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(word)
            | Value::AmbiguousBool(word)
            | Value::Bool { word, .. }
            | Value::Number { word, .. } => Some(word),
            Value::Null | Value::List(_) | Value::Mapping(_) => None,
        }
    }

    /// Names the type of the value in messages.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool { .. } | Value::AmbiguousBool(_) => "a boolean",
            Value::Number { .. } => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }

    /// Converts the value to JSON. Ambiguous booleans become text.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool { value, .. } => Json::Bool(*value),
            Value::Number { value, .. } => Json::Number(value.clone()),
            Value::Text(text) | Value::AmbiguousBool(text) => Json::from(text.as_str()),
            Value::List(items) => items.iter().map(|item| item.to_json()).collect(),
            Value::Mapping(entries) => {
                let member = |entry: &MappingEntry| (entry.key.value.clone(), entry.value.to_json());
                Json::Object(entries.iter().map(member).collect())
            }
        }
    }

    /// Returns the position of the value at a JSON pointer; if there is none, that of the closest value around it.
    pub fn find(&self, pointer: &str) -> SourcePos {
        let mut node = self;
        for token in pointer.split('/').skip(1) {
            let inner = match &node.value {
                Value::List(items) => token.parse().ok().and_then(|index: usize| items.get(index)),
                Value::Mapping(entries) => {
                    let key = token.replace("~1", "/").replace("~0", "~");
                    MappingEntry::find(entries, &key).map(|entry| &entry.value)
                }
                Value::Null
                | Value::Bool { .. }
                | Value::AmbiguousBool(_)
                | Value::Number { .. }
                | Value::Text(_) => None,
            };
            match inner {
                Some(inner) => node = inner,
                None => break,
            }
        }
        node.pos
    }
}
