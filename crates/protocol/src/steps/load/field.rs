//! One key's value, read as what it must be. Each function names the problem and returns nothing when it is not that.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::duration::{BadDuration, parse_duration};
use super::grammar::{Key, Needed, STEP};
use super::problem::{Problems, Rule};
use super::scalar::Scalar;
use super::tree::{Entry, Node, Position, Value};

const TRIES: &str = "write how often the step may be tried in all, such as `max_attempts: 3`";
const TIMES: &str = "write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`";

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) position: Position,
}

/// A text that is not empty.
pub(super) fn text(entry: &Entry, problems: &mut Problems) -> Option<Placed<String>> {
    let (key, node) = (&entry.key, &entry.value);
    match &node.value {
        Value::Scalar { text, quoted: true } => {
            if text.trim().is_empty() {
                let message = format!("`{key}` is empty");
                problems.add(node.position, Rule::EmptyValue, message, give_one(&entry.key));
                return None;
            }
            // A block (`|`) brings its line's end along, which is part of no name and no path.
            Some(Placed { value: text.trim_end_matches('\n').to_owned(), position: node.position })
        }
        Value::Scalar { text, quoted: false } => match Scalar::of(text) {
            Scalar::Text => Some(Placed { value: text.clone(), position: node.position }),
            Scalar::Null => {
                no_value(entry, "a text", problems);
                None
            }
            other @ (Scalar::Bool(_) | Scalar::Number(_) | Scalar::OldBool) => {
                let message = format!("`{key}` is {} where a text is expected", other.kind());
                let hint = format!("quote it: `{key}: \"{text}\"`");
                problems.add(node.position, Rule::WrongType, message, hint);
                None
            }
        },
        Value::List(_) | Value::Mapping(_) => {
            wrong_type(entry, "a text", &format!("write `{key}: …` on one line"), problems);
            None
        }
    }
}

/// As [`text`], but may be empty.
pub(super) fn text_or_empty(entry: &Entry, problems: &mut Problems) -> Option<String> {
    match &entry.value.value {
        Value::Scalar { text, quoted: true } => Some(text.clone()),
        Value::Scalar { quoted: false, .. } | Value::List(_) | Value::Mapping(_) => {
            text(entry, problems).map(|text| text.value)
        }
    }
}

/// A list of step ids.
pub(super) fn ids(entry: &Entry, problems: &mut Problems) -> Vec<Placed<String>> {
    let key = &entry.key;
    let items = match &entry.value.value {
        Value::List(items) => items,
        Value::Scalar { text, .. } if !entry.value.is_null() => {
            let message = format!("`{key}` is {} where a list is expected", kind(&entry.value));
            let hint = format!("write `{key}: [{text}]`");
            problems.add(entry.value.position, Rule::WrongType, message, hint);
            return vec![];
        }
        Value::Scalar { .. } => {
            no_value(entry, "a list", problems);
            return vec![];
        }
        Value::Mapping(_) => {
            wrong_type(entry, "a list", &format!("write `{key}: [one, two]`"), problems);
            return vec![];
        }
    };
    items.iter().filter_map(|item| id(key, item, problems)).collect()
}

fn id(key: &str, item: &Node, problems: &mut Problems) -> Option<Placed<String>> {
    let hint = match &item.value {
        Value::Scalar { text, quoted } if *quoted || Scalar::of(text) == Scalar::Text => {
            return Some(Placed { value: text.clone(), position: item.position });
        }
        Value::Scalar { text, .. } if !item.is_null() => format!("quote it: `\"{text}\"`"),
        Value::Scalar { .. } | Value::List(_) | Value::Mapping(_) => format!("write `{key}: [one, two]`"),
    };
    let message = format!("an entry of `{key}` is {} where the id of a step is expected", kind(item));
    problems.add(item.position, Rule::WrongType, message, hint);
    None
}

/// A mapping of anything, as JSON.
pub(super) fn mapping(entry: &Entry, problems: &mut Problems) -> Map<String, Json> {
    match &entry.value.value {
        Value::Mapping(entries) => json_map(entries),
        Value::Scalar { .. } if entry.value.is_null() => {
            no_value(entry, "a mapping", problems);
            Map::new()
        }
        Value::Scalar { .. } | Value::List(_) => {
            wrong_type(entry, "a mapping", &format!("write `{}: {{name: value}}`", entry.key), problems);
            Map::new()
        }
    }
}

/// How many attempts: a whole number from 1.
pub(super) fn max_attempts(entry: &Entry, problems: &mut Problems) -> Option<NonZeroU32> {
    let (key, node) = (&entry.key, &entry.value);
    let (word, quoted) = match &node.value {
        Value::Scalar { text, quoted } if !node.is_null() => (text, *quoted),
        Value::Scalar { .. } => {
            no_value(entry, "a whole number", problems);
            return None;
        }
        Value::List(_) | Value::Mapping(_) => {
            wrong_type(entry, "a whole number", TRIES, problems);
            return None;
        }
    };
    match Scalar::of(word) {
        Scalar::Number(number) if !quoted => {
            let tries =
                number.as_u64().and_then(|number| u32::try_from(number).ok()).and_then(NonZeroU32::new);
            if tries.is_none() {
                let message = format!("`{key}` is {word}; it must be a whole number from 1");
                problems.add(node.position, Rule::BadMaxAttempts, message, TRIES);
            }
            tries
        }
        Scalar::Number(_) => {
            let message = format!("`{key}` is a text where a whole number is expected");
            let hint = format!("remove the quotes: `{key}: {word}`");
            problems.add(node.position, Rule::WrongType, message, hint);
            None
        }
        Scalar::Null | Scalar::Bool(_) | Scalar::OldBool | Scalar::Text => {
            wrong_type(entry, "a whole number", TRIES, problems);
            None
        }
    }
}

/// A length of time, as a number of seconds or as `1h30m`.
pub(super) fn length_of_time(entry: &Entry, problems: &mut Problems) -> Option<Duration> {
    match &entry.value.value {
        Value::Scalar { text, .. } if !entry.value.is_null() => match parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(error) => {
                let message = match error {
                    // The hint says the rest.
                    BadDuration::Unreadable(text) => format!("`{text}` is not a length of time"),
                    BadDuration::Zero | BadDuration::TooLong(_) => format!("bad `{}`: {error}", entry.key),
                };
                problems.add(entry.value.position, Rule::BadTimeout, message, TIMES);
                None
            }
        },
        Value::Scalar { .. } => {
            no_value(entry, "a length of time", problems);
            None
        }
        Value::List(_) | Value::Mapping(_) => {
            wrong_type(entry, "a length of time", TIMES, problems);
            None
        }
    }
}

pub(super) fn wrong_type(entry: &Entry, expected: &str, hint: &str, problems: &mut Problems) {
    let message = format!("`{}` is {} where {expected} is expected", entry.key, kind(&entry.value));
    problems.add(entry.value.position, Rule::WrongType, message, hint);
}

fn no_value(entry: &Entry, expected: &str, problems: &mut Problems) {
    let message = format!("`{}` has no value where {expected} is expected", entry.key);
    problems.add(entry.key_position, Rule::EmptyValue, message, give_one(&entry.key));
}

fn give_one(key: &str) -> &'static str {
    let always = |known: &Key| known.name == key && known.needed == Needed::Always;
    if STEP.iter().any(always) { "give it a value" } else { "give it a value, or remove the key" }
}

/// What to call a node in a message.
pub(super) fn kind(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar { quoted: true, .. } => "a text",
        Value::Scalar { text, quoted: false } => Scalar::of(text).kind(),
        Value::List(_) => "a list",
        Value::Mapping(_) => "a mapping",
    }
}

fn json_map(entries: &[Entry]) -> Map<String, Json> {
    entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect()
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar { text, quoted: true } => Json::from(text.as_str()),
        Value::Scalar { text, quoted: false } => Scalar::of(text).json(text),
        Value::List(items) => items.iter().map(|item| json(item)).collect(),
        Value::Mapping(entries) => Json::Object(json_map(entries)),
    }
}
