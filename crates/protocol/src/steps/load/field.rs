//! Reads the value of one key as the type it must have. Each function reports a problem if it has another.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::Prompt;
use super::duration::{BadDuration, parse_duration};
use super::grammar::{Key, Requirement, STEP};
use crate::located::{Located, MappingEntry, Node, Problems, Rule, Value, is_number};

const MAX_ATTEMPTS_HINT: &str = "write how many attempts the step has in all, such as `max_attempts: 3`";
const DURATION_HINT: &str = "write seconds, or a length such as `90s`, `10m`, `2h`, `1h30m`";

/// A text that is not empty.
pub(super) fn text(entry: &MappingEntry, problems: &mut Problems) -> Option<Located<String>> {
    let (key, node) = (&entry.key.value, &entry.value);
    match &node.value {
        Value::Text(text) if text.trim().is_empty() => {
            problems.add(node.pos, Rule::EmptyValue, format!("`{key}` is empty"), empty_hint(key));
            None
        }
        // A block (`|`) ends with a line break, which is part of no name and no path.
        Value::Text(text) => Some(Located { value: text.trim_end_matches('\n').to_owned(), pos: node.pos }),
        Value::Null => {
            no_value(entry, "a string", problems);
            None
        }
        Value::Bool { word, .. } | Value::AmbiguousBool(word) | Value::Number { word, .. } => {
            wrong_type(entry, "a string", &format!("quote it: `{key}: \"{word}\"`"), problems);
            None
        }
        Value::List(_) | Value::Mapping(_) => {
            wrong_type(entry, "a string", &format!("write `{key}: …` on one line"), problems);
            None
        }
    }
}

/// A prompt: a path, or a block of text (`|`). Only a block contains a line break: it ends with one.
pub(super) fn prompt(entry: &MappingEntry, problems: &mut Problems) -> Option<Located<Prompt>> {
    let Located { value, pos } = text(entry, problems)?;
    let written = entry.value.scalar_text().filter(|text| text.contains('\n'));
    let prompt = written.map_or(Prompt::File(value), |text| Prompt::Text(text.to_owned()));
    Some(Located { value: prompt, pos })
}

/// A text that may be empty.
pub(super) fn text_or_empty(entry: &MappingEntry, problems: &mut Problems) -> Option<String> {
    match &entry.value.value {
        Value::Text(text) => Some(text.clone()),
        Value::Null
        | Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::List(_)
        | Value::Mapping(_) => text(entry, problems).map(|text| text.value),
    }
}

/// A list of step ids.
pub(super) fn ids(entry: &MappingEntry, problems: &mut Problems) -> Vec<Located<String>> {
    let key = &entry.key.value;
    match &entry.value.value {
        Value::List(items) => items.iter().filter_map(|item| id(key, item, problems)).collect(),
        Value::Null => {
            no_value(entry, "a list", problems);
            vec![]
        }
        Value::Text(word)
        | Value::AmbiguousBool(word)
        | Value::Bool { word, .. }
        | Value::Number { word, .. } => {
            wrong_type(entry, "a list", &format!("write `{key}: [{word}]`"), problems);
            vec![]
        }
        Value::Mapping(_) => {
            wrong_type(entry, "a list", &format!("write `{key}: [one, two]`"), problems);
            vec![]
        }
    }
}

/// The names of conditions, each once.
pub(super) fn conditions(entry: &MappingEntry, problems: &mut Problems) -> Vec<String> {
    const HINT: &str = "`gates` lists names of the file that `--gate-state-file` names, such as `gates: [ci, legal]`; \
                        what the engine runs itself goes into `checks`";
    let Value::List(items) = &entry.value.value else {
        wrong_type(entry, "a list of names", HINT, problems);
        return Vec::new();
    };
    let mut names = Vec::new();
    for item in items {
        match &item.value {
            Value::Text(name) if !name.trim().is_empty() => {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            Value::Text(_)
            | Value::Null
            | Value::Bool { .. }
            | Value::AmbiguousBool(_)
            | Value::Number { .. }
            | Value::List(_)
            | Value::Mapping(_) => {
                let message = format!(
                    "an entry of `gates` is {} where the name of a condition is expected",
                    item.kind()
                );
                problems.add(item.pos, Rule::WrongType, message, HINT);
            }
        }
    }
    names
}

fn id(key: &str, item: &Node, problems: &mut Problems) -> Option<Located<String>> {
    let hint = match &item.value {
        Value::Text(text) => return Some(Located { value: text.clone(), pos: item.pos }),
        Value::Bool { word, .. } | Value::AmbiguousBool(word) | Value::Number { word, .. } => {
            format!("quote it: `\"{word}\"`")
        }
        Value::Null | Value::List(_) | Value::Mapping(_) => format!("write `{key}: [one, two]`"),
    };
    let message = format!("an entry of `{key}` is {} where the id of a step is expected", item.kind());
    problems.add(item.pos, Rule::WrongType, message, hint);
    None
}

/// A mapping of any content, as JSON.
pub(super) fn mapping(entry: &MappingEntry, problems: &mut Problems) -> Map<String, Json> {
    match entry.value.to_json() {
        Json::Object(members) => return members,
        Json::Null => no_value(entry, "a mapping", problems),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            wrong_type(
                entry,
                "a mapping",
                &format!("write `{}: {{name: value}}`", entry.key.value),
                problems,
            );
        }
    }
    Map::new()
}

/// How many attempts a step has.
pub(super) fn max_attempts(entry: &MappingEntry, problems: &mut Problems) -> Option<NonZeroU32> {
    whole_number(entry, Rule::BadMaxAttempts, MAX_ATTEMPTS_HINT, problems)
}

/// How many items a data loop has at most, or works on at once.
pub(super) fn loop_limit(entry: &MappingEntry, problems: &mut Problems) -> Option<NonZeroU32> {
    whole_number(entry, Rule::BadLoopLimit, "write a whole number from 1, such as `3`", problems)
}

fn whole_number(entry: &MappingEntry, rule: Rule, hint: &str, problems: &mut Problems) -> Option<NonZeroU32> {
    let (key, node) = (&entry.key.value, &entry.value);
    match &node.value {
        Value::Number { value, word } => {
            let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).and_then(NonZeroU32::new);
            if count.is_none() {
                let message = format!("`{key}` is {word}; it must be a whole number from 1");
                problems.add(node.pos, rule, message, hint);
            }
            return count;
        }
        Value::Text(word) if is_number(word) => {
            wrong_type(entry, "a whole number", &format!("remove the quotes: `{key}: {word}`"), problems);
        }
        Value::Null => no_value(entry, "a whole number", problems),
        Value::Bool { .. }
        | Value::AmbiguousBool(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Mapping(_) => wrong_type(entry, "a whole number", hint, problems),
    }
    None
}

/// `true` or `false`; `false` if it is neither, which is reported.
pub(super) fn flag(entry: &MappingEntry, problems: &mut Problems) -> bool {
    let hint = format!("write `{}: true`", entry.key.value);
    match &entry.value.value {
        Value::Bool { value, .. } => return *value,
        Value::Null => no_value(entry, "`true` or `false`", problems),
        Value::AmbiguousBool(_)
        | Value::Number { .. }
        | Value::Text(_)
        | Value::List(_)
        | Value::Mapping(_) => wrong_type(entry, "`true` or `false`", &hint, problems),
    }
    false
}

/// A length of time: a number of seconds, or `1h30m`.
pub(super) fn duration(entry: &MappingEntry, problems: &mut Problems) -> Option<Duration> {
    let Some(word) = entry.value.scalar_text() else {
        if entry.value.is_null() {
            no_value(entry, "a length of time", problems);
        } else {
            wrong_type(entry, "a length of time", DURATION_HINT, problems);
        }
        return None;
    };
    match parse_duration(word) {
        Ok(duration) => Some(duration),
        Err(error) => {
            let message = match error {
                // Not the error's own text, which repeats what the hint says.
                BadDuration::Unreadable(text) => format!("`{text}` is not a length of time"),
                BadDuration::Zero | BadDuration::TooLong(_) => format!("bad `{}`: {error}", entry.key.value),
            };
            problems.add(entry.value.pos, Rule::BadTimeout, message, DURATION_HINT);
            None
        }
    }
}

pub(super) fn wrong_type(entry: &MappingEntry, expected: &str, hint: &str, problems: &mut Problems) {
    let message = format!("`{}` is {} where {expected} is expected", entry.key.value, entry.value.kind());
    problems.add(entry.value.pos, Rule::WrongType, message, hint);
}

fn no_value(entry: &MappingEntry, expected: &str, problems: &mut Problems) {
    let message = format!("`{}` has no value where {expected} is expected", entry.key.value);
    problems.add(entry.key.pos, Rule::EmptyValue, message, empty_hint(&entry.key.value));
}

fn empty_hint(key: &str) -> &'static str {
    let is_required = |known: &Key| known.name == key && known.requirement != Requirement::Optional;
    if STEP.iter().any(is_required) { "give it a value" } else { "give it a value, or remove the key" }
}
