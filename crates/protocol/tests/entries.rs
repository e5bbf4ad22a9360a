//! Entries of every version there was, one line of each kind: this program reads each of them.
//!
//! A version that was released is never edited: a new one is a new file.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, like the tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use protocol::Protocol;
use protocol::entry::{ENTRY_VERSION, Entry, Input};
use protocol::peer::Peer;
use protocol::steps::Steps;

/// The first version in which `peer` has entries.
const PEER: u32 = 3;

/// The entries of `steps` are `v1.jsonl`, those of others have the protocol's name before that.
fn lines<P: Protocol>(version: u32) -> Vec<String> {
    let of = if P::NAME == Steps::NAME { String::new() } else { format!("{}-", P::NAME) };
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/entries/{of}v{version}.jsonl"));
    let text = fs::read_to_string(&file)
        .unwrap_or_else(|_| panic!("version {version} has no fixture: write `{}`", file.display()));
    text.lines().map(str::to_owned).collect()
}

/// The kinds of input. A new one stops the build here, and wants a line in the newest fixture.
fn kind<P: Protocol>(entry: &Entry<P>) -> &'static str {
    match entry.input {
        Input::Opened { .. } => "opened",
        Input::Fact { .. } => "fact",
        Input::Request { .. } => "request",
        Input::Refused { .. } => "refused",
        Input::Edited { .. } => "edited",
        Input::Deferred => "due",
        Input::Recovered { .. } => "recovered",
    }
}

fn are_read<P: Protocol>(first: u32) {
    for version in first..=ENTRY_VERSION {
        for line in lines::<P>(version) {
            let entry = Entry::<P>::decode(&line).unwrap_or_else(|error| panic!("{error} in {line}"));
            assert_eq!(entry.v, version);
        }
    }
}

/// Holds that the newest entries are written as they are read; answers their kinds.
fn written_as_read<P: Protocol>() -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    for line in lines::<P>(ENTRY_VERSION) {
        let entry = Entry::<P>::decode(&line).unwrap();
        kinds.insert(kind(&entry));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let written: serde_json::Value = serde_json::from_str(&entry.encode()).unwrap();
        assert_eq!(written, read);
    }
    kinds
}

#[test]
fn entries_of_every_version_are_read() {
    are_read::<Steps>(1);
    are_read::<Peer>(PEER);
}

#[test]
fn the_newest_version_has_a_line_of_each_kind_and_is_written_as_it_is_read() {
    let mut all = BTreeSet::from(["opened", "fact", "request", "refused", "due", "recovered"]);
    assert_eq!(written_as_read::<Steps>(), all);
    // Nobody but the engine writes the document of `steps`.
    all.insert("edited");
    assert_eq!(written_as_read::<Peer>(), all);
}

#[test]
fn a_newer_version_is_named() {
    let error = Entry::<Steps>::decode(r#"{"v":99}"#).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}
