//! The format of journal entries: each fixture has a line of every kind of input, and encoding reproduces it.
//!
//! A released version is never edited: a new version gets new fixtures.

use std::collections::BTreeSet;

use protocol::Protocol;
use protocol::entry::{ENTRY_VERSION, Entry, Input};
use protocol::peer::Peer;
use protocol::steps::Steps;

/// Names the kind of input. A new kind stops the build here, and needs a line in the fixture.
fn kind<P: Protocol>(entry: &Entry<P>) -> &'static str {
    match entry.input {
        Input::Opened { .. } => "opened",
        Input::Fact { .. } => "fact",
        Input::Request { .. } => "request",
        Input::Refused { .. } => "refused",
        Input::Edited { .. } => "edited",
        Input::Deferred => "deferred",
        Input::Recovered { .. } => "recovered",
    }
}

/// Asserts that every line of a fixture survives decoding and encoding; returns the kinds of input in it.
fn round_trip<P: Protocol>(fixture: &str) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    for line in fixture.lines() {
        let entry = Entry::<P>::decode(line).unwrap_or_else(|error| panic!("{error:?} in {line}"));
        assert_eq!(entry.v, ENTRY_VERSION);
        kinds.insert(kind(&entry));
        let read: serde_json::Value = serde_json::from_str(line).unwrap();
        let written: serde_json::Value = serde_json::from_str(&entry.encode()).unwrap();
        assert_eq!(written, read);
    }
    kinds
}

#[test]
fn every_kind_of_entry_is_encoded_as_it_was_decoded() {
    let mut all = BTreeSet::from(["opened", "fact", "request", "refused", "deferred", "recovered"]);
    assert_eq!(round_trip::<Steps>(include_str!("fixtures/entries/v1.jsonl")), all);
    // Only the engine writes the document of `steps`.
    all.insert("edited");
    assert_eq!(round_trip::<Peer>(include_str!("fixtures/entries/peer-v1.jsonl")), all);
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let error = Entry::<Steps>::decode(r#"{"v":99}"#).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}
