//! How the edits of private copies are found, and when they replace a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an attempt changed a private copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyEdit {
    /// The operations (RFC 6902) that turn the JSON that it was given into the JSON that it left.
    Patch(json_patch::Patch),
    /// The whole text of a file that is not JSON.
    Text(String),
    Deleted,
    /// Why the file cannot be read: it is a symbolic link, is not UTF-8, or is no longer JSON.
    Unreadable(String),
}

impl CopyEdit {
    /// Compares a private copy with `base`, the text that the attempt was given. `left` is its content after the
    /// attempt, `None` if it was deleted, or why it cannot be read. Returns `None` if nothing has changed.
    pub fn between(base: &str, left: Result<Option<&[u8]>, String>) -> Option<Self> {
        let bytes = match left {
            Ok(Some(bytes)) if bytes == base.as_bytes() => return None,
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Some(Self::Deleted),
            Err(reason) => return Some(Self::Unreadable(reason)),
        };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Some(Self::Unreadable("it is not UTF-8".to_owned()));
        };
        let Some(base) = parse_object_or_list(base) else { return Some(Self::Text(text.to_owned())) };
        match serde_json::from_str::<Value>(text) {
            Err(error) => Some(Self::Unreadable(format!("it is not JSON: {error}"))),
            Ok(left) if left == base => None,
            Ok(left) => Some(Self::Patch(json_patch::diff(&base, &left))),
        }
    }

    /// Returns the JSON document after the edit; `None` if the file was deleted, which does not count as an edit. Fails
    /// if the file cannot be read, is not JSON, or its changes do not fit `document`.
    pub fn applied_to(&self, path: &str, document: &Value) -> Result<Option<Value>, String> {
        match self {
            Self::Patch(patch) => {
                let mut edited = document.clone();
                json_patch::patch(&mut edited, patch)
                    .map_err(|error| format!("the edit of `{path}` cannot be applied: {error}"))?;
                Ok(Some(edited))
            }
            Self::Text(_) => Err(format!("`{path}` is not JSON any more")),
            Self::Unreadable(why) => Err(format!("`{path}` cannot be read: {why}")),
            Self::Deleted => Ok(None),
        }
    }
}

/// Parses a JSON object or list; `None` if the text is anything else.
fn parse_object_or_list(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Returns whether the edits of an attempt without a report can replace one: at least one file was written. Deletions
/// do not count, because a tool that cleans the worktree deletes files, too. Fails with the reason why a file cannot be
/// read.
pub fn can_replace_report(edits: &BTreeMap<String, CopyEdit>) -> Result<bool, String> {
    let mut wrote = false;
    for (path, edit) in edits {
        match edit {
            CopyEdit::Patch(_) | CopyEdit::Text(_) => wrote = true,
            CopyEdit::Deleted => {}
            CopyEdit::Unreadable(reason) => return Err(format!("`{path}`: {reason}")),
        }
    }
    Ok(wrote)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn between(base: &str, left: &str) -> Option<CopyEdit> {
        CopyEdit::between(base, Ok(Some(left.as_bytes())))
    }

    #[test]
    fn json_is_compared_by_value() {
        let base = r#"{"a": 1, "b": [1]}"#;
        assert_eq!(between(base, "{\n \"b\": [1], \"a\": 1}\n"), None);
        let Some(CopyEdit::Patch(patch)) = between(base, r#"{"a": 1, "b": [1, 2], "c": null}"#) else {
            panic!("it has changed")
        };
        let mut patched = json!({"a": 1, "b": [1]});
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, json!({"a": 1, "b": [1, 2], "c": null}));
    }

    #[test]
    fn what_is_not_json_is_compared_as_text() {
        for base in ["# Notes\n", "17", "", "null"] {
            assert_eq!(between(base, base), None);
            assert_eq!(between(base, "more"), Some(CopyEdit::Text("more".to_owned())), "{base}");
        }
    }

    #[test]
    fn a_deleted_file_and_an_unreadable_one_are_told_apart() {
        assert_eq!(CopyEdit::between("{}", Ok(None)), Some(CopyEdit::Deleted));
        let link = "it is a symbolic link".to_owned();
        assert_eq!(CopyEdit::between("{}", Err(link.clone())), Some(CopyEdit::Unreadable(link)));
        for torn in [&b"{\"a\": tru"[..], b"\xff", b""] {
            let edit = CopyEdit::between("{}", Ok(Some(torn)));
            assert!(matches!(edit, Some(CopyEdit::Unreadable(_))), "{edit:?}");
        }
    }

    #[test]
    fn only_a_written_file_replaces_a_report() {
        let edits = |edits: &[CopyEdit]| {
            let edits = edits.iter().cloned().enumerate().map(|(n, edit)| (format!("{n}.json"), edit));
            can_replace_report(&edits.collect())
        };
        let (text, gone) = (CopyEdit::Text("x".to_owned()), CopyEdit::Deleted);
        assert_eq!(edits(&[]), Ok(false));
        assert_eq!(edits(std::slice::from_ref(&gone)), Ok(false));
        assert_eq!(edits(&[gone, text.clone()]), Ok(true));
        let torn = CopyEdit::Unreadable("it is torn".to_owned());
        assert_eq!(edits(&[text, torn]), Err("`1.json`: it is torn".to_owned()));
    }
}
