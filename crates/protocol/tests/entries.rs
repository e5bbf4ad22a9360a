//! The format of journal entries: each fixture has a line of every kind of input that its protocol has. Decoding and encoding a
//! line reproduces it.
//!
//! The fixtures of a released version are never edited: a new version gets new ones.

use std::collections::BTreeSet;

use protocol::Protocol;
use protocol::entry::{ENTRY_VERSION, Entry, Input};
use protocol::peer::Peer;
use protocol::steps::Steps;

/// Names the kind of input. A new kind stops the build here, and needs a line in the fixture.
fn kind(entry: &Entry) -> &'static str {
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

/// Asserts that every line of a fixture survives decoding and encoding, as plain JSON and with the types of the protocol.
/// Returns the kinds of input in it.
fn round_trip<P: Protocol>(fixture: &str) -> BTreeSet<&'static str> {
    let mut kinds = BTreeSet::new();
    for line in fixture.lines() {
        let entry = Entry::decode(line).unwrap_or_else(|error| panic!("{error:?} in {line}"));
        assert_eq!(entry.v, ENTRY_VERSION);
        kinds.insert(kind(&entry));
        assert_eq!(entry.encode(), line);
        let typed = entry.typed::<P>().unwrap_or_else(|error| panic!("{error:?} in {line}"));
        assert_eq!(serde_json::to_string(&typed).unwrap(), line);
    }
    kinds
}

#[test]
fn every_kind_of_entry_is_encoded_as_it_was_decoded() {
    let mut kinds = BTreeSet::from(["opened", "fact", "request", "refused", "deferred", "recovered"]);
    assert_eq!(round_trip::<Steps>(include_str!("fixtures/entries/v1.jsonl")), kinds);
    // Not in `steps`: only the engine writes its document.
    kinds.insert("edited");
    assert_eq!(round_trip::<Peer>(include_str!("fixtures/entries/peer-v1.jsonl")), kinds);
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let error = Entry::decode(r#"{"v":99}"#).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[test]
fn an_entry_of_another_protocol_cannot_be_typed() {
    let fixture = include_str!("fixtures/entries/peer-v1.jsonl");
    let entries: Vec<_> = fixture.lines().map(|line| Entry::decode(line).unwrap()).collect();
    assert!(entries.iter().any(|entry| entry.typed::<Steps>().is_err()));
}
