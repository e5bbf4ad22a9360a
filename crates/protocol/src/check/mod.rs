//! Violations of the rules of a document, for all protocols. Each protocol has its rules in its own `check.rs`.

pub mod schema;
mod violation_collector;

use serde::Serialize;

pub(crate) use violation_collector::{Location, ViolationCollector, json_type};

/// One violated rule of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule's stable name, for programs.
    pub rule: &'static str,
    /// The JSON pointer (RFC 6901) of the value. For a missing field, that of the object.
    pub pointer: String,
    pub message: String,
    /// What to change.
    pub repair: String,
}

/// Returns the pointer of a member of the object at `pointer`.
pub(crate) fn member_pointer(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Returns the pointer of an entry of the list at `pointer`.
pub(crate) fn entry_pointer(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}

/// Returns the beginning of a value as JSON, in backquotes, for a message.
pub(crate) fn shortened(value: &serde_json::Value) -> String {
    const LENGTH: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Returns why a path cannot be an artifact, which is a relative path inside the repository.
pub fn artifact_path_problem(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.starts_with('/') {
        return Some("is absolute");
    }
    let mut depth = 0_usize;
    for part in path.split('/') {
        depth = match part {
            "" | "." => depth,
            ".." => match depth.checked_sub(1) {
                Some(depth) => depth,
                None => return Some("leaves the repository"),
            },
            _ => depth + 1,
        };
    }
    None
}
