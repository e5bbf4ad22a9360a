//! Tests of helpers that other tests rely on: the reader of views, free ports, and `redact`.

use std::fs;
use std::path::Path;

use testkit::nats::Port;
use testkit::{ViewReader, redact};

/// Returns the problems that a [`ViewReader`] finds in a view with this content. `change` may rewrite the view meanwhile.
fn problems_seen(content: &[u8], change: impl FnOnce(&Path)) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let view = directory.path().join("run_state.json");
    fs::write(&view, content).unwrap();
    let reader = ViewReader::start(&view);
    change(&view);
    reader.finish().bad
}

#[test]
fn a_torn_view_and_one_without_fields_are_detected() {
    assert_eq!(
        problems_seen(b"{\"run_id\": ", |_| {}),
        ["11 bytes: EOF while parsing a value at line 1 column 11"]
    );
    assert_eq!(problems_seen(b"", |_| {}), ["0 bytes: EOF while parsing a value at line 1 column 0"]);
    assert_eq!(problems_seen(b"{}\n", |_| {}), ["`steps` is no object, or empty"]);
    let incomplete = problems_seen(b"{\"steps\": {\"a\": {\"status\": \"DONE\"}}}\n", |_| {});
    assert!(incomplete.len() == 1 && incomplete[0].contains("run_id"), "{incomplete:?}");
}

#[test]
fn a_port_is_not_taken_twice() {
    let taken: Vec<_> = (0..200).map(|_| Port::take()).collect();
    let mut numbers: Vec<_> = taken.iter().map(|port| port.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), taken.len());
}

#[test]
fn redact_replaces_only_what_differs_between_runs() {
    let text = "3 of 4 steps, 0.1 s; 12 s, 2 min 05 s at 2026-01-02T03:04:05.123456Z by engine 412, a1.1 s2";
    let redacted = "3 of 4 steps, [TIME]; [TIME], [TIME] at [WHEN] by engine [PID], a1.1 s2";
    assert_eq!(redact(text), redacted);
    assert_eq!(redact("x 0192f0c1d2e37a5b8c9d0e1f2a3b4c5d-y"), "x [HEX]-y");
}
