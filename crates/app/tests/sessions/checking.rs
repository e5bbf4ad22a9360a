//! `callboard check` of documents of peer cycles.

use insta::assert_snapshot;

use crate::scene;

const CYCLE: &str = include_str!("../../../protocol/tests/fixtures/peer/cycle.json");

#[test]
fn a_cycle_that_only_a_literal_reader_would_mind_is_ok() {
    let scene = scene();
    scene.write("cycle.json", CYCLE);
    let session = scene.callboard(&["check", "cycle.json"]).run();
    assert_eq!(session.code, 0);
    // What the warnings look like is shown beside `check` itself.
    assert_eq!(session.transcript().matches("warning[S3]: the history has no entry for").count(), 3);
    assert!(session.stdout.ends_with("ok: cycle `peer:spec:feature-name:cycle:1` is execute in_progress\n"));
}

#[test]
fn a_cycle_that_breaks_a_rule_exits_2_with_the_place() {
    let scene = scene();
    let status = CYCLE.replacen("\"status\": \"completed\"", "\"status\": \"complete\"", 1);
    scene.write(
        "cycle.json",
        &status.replacen("\"timestamp\": \"2025-08-05T10:05:00Z\"", "\"timestamp\": \"10:05\"", 1),
    );
    let session = scene.callboard(&["check", "cycle.json", "--json"]).run();
    assert_eq!(session.code, 2);
    let files = session.json();
    let findings = files[0]["findings"].as_array().unwrap();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error");
    let errors: Vec<_> =
        errors.map(|it| format!("{} {} line {}", it["rule"], it["pointer"], it["line"])).collect();
    assert_snapshot!(errors.join("\n"), @r#"
    "F6" "/phases/plan/status" line 23
    "F7" "/history/1/timestamp" line 82
    "#);
    assert_eq!(files[0]["format"], "peer");
}

#[test]
fn a_file_may_be_said_to_be_a_cycle() {
    let scene = scene();
    scene.write("x.json", "{\"version\": 1}\n");
    let session = scene.callboard(&["check", "--as", "peer", "x.json"]).run();
    assert_eq!(session.code, 2);
    assert_snapshot!(session.transcript(), @r#"
    $ callboard check --as peer x.json
    error: `x.json` has 1 problem
    error[F1]: `version` of the document is 1: it is of an older format and needs migration
     --> x.json:1:13
      |
    1 | {"version": 1}
      |             ^
      |
      = hint: leave it as it is; `callboard import --peer` turns it into version 2

    [exit 2]
    "#);
}
