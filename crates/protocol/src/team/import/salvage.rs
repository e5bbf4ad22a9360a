//! Parses the files in `coordination/`, which the original of `team` writes. A damaged file is read up to the damage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::document::Mailbox;
use crate::json::parse_prefix;

/// The files that must be there. Mailboxes may be missing.
const MAIN_FILES: [&str; 3] = ["pm_state.json", "group_status.json", "orchestrator_state.json"];

/// The files in `coordination/`, as far as they could be read. A run is made from the JSON of this.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CoordinationFiles {
    /// By their paths below `coordination/`.
    pub files: BTreeMap<String, Value>,
    /// The files of which only the beginning could be read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub damaged: BTreeSet<String>,
    /// What the branches of the groups have in git, by branch. What the files say about finished work is only a claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub branches: BTreeMap<String, BranchWork>,
}

/// What a branch has that the base branch does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchWork {
    /// Short ids with their subjects, oldest first.
    pub commits: Vec<String>,
    pub files: Vec<String>,
}

/// The parsed files, and what parsing found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Salvaged {
    pub coordination_files: CoordinationFiles,
    /// What deviates from JSON and does no harm, in a sentence each.
    pub notes: Vec<String>,
    /// What is lost, in a sentence each.
    pub lost: Vec<String>,
}

impl CoordinationFiles {
    /// Returns the paths of all files that there can be, relative to `coordination/`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MAIN_FILES.into_iter().chain(Mailbox::ALL.map(Mailbox::file))
    }

    /// Parses the texts of files, by their paths relative to `coordination/`.
    pub fn read(texts: &BTreeMap<String, String>) -> Salvaged {
        let mut salvaged = Salvaged::default();
        for name in Self::names() {
            match texts.get(name) {
                Some(text) => salvaged.add(name, text),
                None if MAIN_FILES.contains(&name) => salvaged.lost.push(format!("`{name}` is missing")),
                None => {}
            }
        }
        salvaged
    }
}

impl Salvaged {
    fn add(&mut self, name: &str, text: &str) {
        // Old versions of PowerShell write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let value = match values.next() {
            Some(Ok(value)) => {
                let rest = text[values.byte_offset()..].trim();
                if !rest.is_empty() {
                    self.notes.push(format!(
                        "`{name}`: {} bytes after the end of its value are ignored",
                        rest.len()
                    ));
                }
                Some(value)
            }
            Some(Err(error)) => {
                let (line, column) = (error.line(), error.column());
                let value = parse_prefix(text, &error, usize::MAX);
                let what =
                    if value.is_some() { "the rest of it is lost" } else { "nothing of it could be read" };
                self.lost.push(format!("`{name}` is damaged in line {line}, column {column}: {what}"));
                self.mark_damaged(name);
                value
            }
            None => {
                self.lost.push(format!("`{name}` is empty"));
                self.mark_damaged(name);
                None
            }
        };
        self.coordination_files.files.extend(value.map(|value| (name.to_owned(), value)));
    }

    fn mark_damaged(&mut self, name: &str) {
        self.coordination_files.damaged.insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Salvaged {
        CoordinationFiles::read(&BTreeMap::from([("pm_state.json".to_owned(), text.to_owned())]))
    }

    #[test]
    fn a_byte_order_mark_crlf_and_trailing_bytes_do_no_harm() {
        let read = read("\u{feff}{\r\n  \"mode\": \"simple\"\r\n}\r\n  \"mode\": 1}");
        assert_eq!(read.coordination_files.files["pm_state.json"], serde_json::json!({ "mode": "simple" }));
        assert_eq!(read.notes, ["`pm_state.json`: 10 bytes after the end of its value are ignored"]);
        assert!(read.coordination_files.damaged.is_empty());
    }

    #[test]
    fn a_torn_file_is_read_up_to_its_last_whole_value() {
        let whole = r#"{"a": [1, {"b": "x,]\"}"}], "c": {"d": true}, "e": 2}"#;
        for length in 1..whole.len() {
            let read = read(&whole[..length]);
            assert!(read.coordination_files.damaged.contains("pm_state.json"), "{length}");
            assert!(read.coordination_files.files.contains_key("pm_state.json"), "{length}: {:?}", read.lost);
        }
        let torn = read(&whole[..whole.len() - 4]);
        assert_eq!(
            torn.coordination_files.files["pm_state.json"],
            serde_json::json!({ "a": [1, { "b": "x,]\"}" }], "c": { "d": true } })
        );
        assert_eq!(torn.lost[0], "`pm_state.json` is damaged in line 1, column 49: the rest of it is lost");
        let nothing = read("no JSON");
        assert_eq!(nothing.coordination_files.files.len(), 0);
        assert!(nothing.lost[0].ends_with("nothing of it could be read"), "{:?}", nothing.lost);
    }
}
