//! Names of specs and numbers of cycles.

use std::collections::BTreeSet;

use super::{SUCCESS_TRANSITIONS, document, peer, transitions};
use crate::sessions::test_env;

#[test]
fn a_spec_may_have_any_name_and_each_has_cycles_of_its_own() {
    let test_env = test_env();
    let composed = "caf\u{e9}";
    let names = ["a.b", "a", "b", "a:cycle:9", "日本", "two words", "=3A", ":", "-x", "..", composed];
    for name in names {
        let session = peer(&test_env, &["create-spec", &format!("--spec={name}")]).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
        let document = document(&test_env, &format!("peer:spec:{name}:cycle:1"));
        assert_eq!(document.metadata.spec_name.as_ref().unwrap().as_str(), name);
        assert_eq!(transitions(&document), SUCCESS_TRANSITIONS);
    }
    // The Unicode-decomposed spelling of the name means the same spec.
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "cafe\u{301}"]).run().code, 0);
    assert_eq!(document(&test_env, &format!("peer:spec:{composed}:cycle:2")).metadata.cycle_number, 2);
    let listed = test_env.callboard(&["ls", "--json"]).run();
    assert_eq!(listed.stdout.matches("\"peer.").count(), names.len() + 1, "{}", listed.stdout);
}

#[test]
fn a_spec_name_cannot_send_escape_sequences() {
    let test_env = test_env();
    let name = "two\nlines\u{1b}[2J";
    let session = peer(&test_env, &["create-spec", "--spec", name]).run();
    let first = session.stderr.lines().next().unwrap();
    assert_eq!(
        first,
        "cycle peer:spec:two lines [2J:cycle:1 is run peer.spec.two=0Alines=1B=5B2J.cycle.1: create-spec"
    );
    document(&test_env, &format!("peer:spec:{name}:cycle:1"));
}

#[test]
fn eight_cycles_started_at_once_get_eight_numbers() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    test_env.script_agent(&["plan * wait barrier"]);
    let started: Vec<_> =
        (0..8).map(|_| peer(&test_env, &["create-spec", "--spec", "x", "--json"]).start()).collect();
    started.iter().for_each(|running| running.wait_for_stdout("\"started\""));
    barrier.open();
    let mut cycles = BTreeSet::new();
    for running in started {
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        let cycle = session.json_lines()[0]["cycle_id"].as_str().unwrap().to_owned();
        assert_eq!(transitions(&document(&test_env, &cycle)), SUCCESS_TRANSITIONS);
        cycles.insert(cycle);
    }
    let expected: BTreeSet<_> = (1..=8).map(|number| format!("peer:spec:x:cycle:{number}")).collect();
    assert_eq!(cycles, expected);
}
