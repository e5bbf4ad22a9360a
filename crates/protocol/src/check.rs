//! Checking a document of any protocol: what a rule that is broken looks like, and where in a file it was broken.
//!
//! The rules themselves are each protocol's own, in its `check.rs`.

mod findings;

use serde::Serialize;

pub(crate) use findings::{At, Findings, kind};

/// One broken rule of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The rule's stable name, for programs.
    pub rule: &'static str,
    /// The JSON pointer (RFC 6901) of the value concerned; of the object where a field is missing.
    pub pointer: String,
    pub message: String,
    /// What to change.
    pub repair: String,
}

/// The pointer of a member of the object at `pointer`.
pub(crate) fn member(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The pointer of an entry of the list at `pointer`.
pub(crate) fn entry(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}

/// Why a path cannot be an artifact: those are named from the repository's top, and lie in it.
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
