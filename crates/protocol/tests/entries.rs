//! Entries of every version there was, one line of each kind: this program reads each of them.
//!
//! A version that was released is never edited: a new one is a new file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use protocol::entry::{ENTRY_VERSION, Entry, Input};
use protocol::steps::Steps;

fn lines(version: u32) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/entries/v{version}.jsonl"));
    let text = fs::read_to_string(&file)
        .unwrap_or_else(|_| panic!("version {version} has no fixture: write `{}`", file.display()));
    text.lines().map(str::to_owned).collect()
}

/// The kinds of input. A new one stops the build here, and wants a line in the newest fixture.
fn kind(entry: &Entry<Steps>) -> &'static str {
    match entry.input {
        Input::Opened { .. } => "opened",
        Input::Fact { .. } => "fact",
        Input::Request { .. } => "request",
        Input::Refused { .. } => "refused",
        Input::Edited { .. } => "edited",
        Input::Due => "due",
        Input::Recovered { .. } => "recovered",
    }
}

#[test]
fn entries_of_every_version_are_read() {
    for version in 1..=ENTRY_VERSION {
        for line in lines(version) {
            let entry = Entry::<Steps>::decode(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
            assert_eq!(entry.v, version);
        }
    }
}

#[test]
fn the_newest_version_has_a_line_of_each_kind_and_is_written_as_it_is_read() {
    let mut kinds = BTreeSet::new();
    for line in lines(ENTRY_VERSION) {
        let entry = Entry::<Steps>::decode(&line).unwrap();
        kinds.insert(kind(&entry));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let written: serde_json::Value = serde_json::from_str(&entry.encode()).unwrap();
        assert_eq!(written, read);
    }
    let all = BTreeSet::from(["opened", "fact", "request", "refused", "due", "recovered"]);
    assert_eq!(kinds, all);
}

#[test]
fn a_newer_version_is_named() {
    let error = Entry::<Steps>::decode(r#"{"v":99}"#).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}
