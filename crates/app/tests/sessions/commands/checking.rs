//! `callboard check`: exit codes and JSON. The unit tests of the command cover the text of the findings.

use insta::assert_snapshot;

use crate::sessions::test_env;

const CYCLE: &str = include_str!("../../../../protocol/tests/fixtures/peer/cycle.json");

#[test]
fn check_exits_with_0_for_warnings_and_with_2_for_errors() {
    let test_env = test_env();
    test_env.write("cycle.json", CYCLE);
    let session = test_env.callboard(&["check", "--as", "peer", "cycle.json"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(
        session.stdout.ends_with("ok: peer cycle `peer:spec:feature-name:cycle:1` is execute in_progress\n")
    );
    let wrong_status = CYCLE.replacen("\"status\": \"completed\"", "\"status\": \"complete\"", 1);
    let wrong_status_and_time =
        wrong_status.replacen("\"timestamp\": \"2025-08-05T10:05:00Z\"", "\"timestamp\": \"10:05\"", 1);
    test_env.write("cycle.json", &wrong_status_and_time);
    let session = test_env.callboard(&["check", "cycle.json", "--json"]).run();
    assert_eq!(session.code, 2);
    let files = session.json();
    let findings = files[0]["findings"].as_array().unwrap();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error");
    let errors: Vec<_> = errors
        .map(|error| format!("{} {} line {}", error["rule"], error["pointer"], error["line"]))
        .collect();
    assert_snapshot!(errors.join("\n"), @r#"
    "F6" "/phases/plan/status" line 23
    "F7" "/history/1/timestamp" line 82
    "#);
    assert_eq!(files[0]["format"], "peer");
}

#[test]
fn check_of_a_directory_says_how_to_name_its_files() {
    let test_env = test_env();
    let session = test_env.callboard(&["check", "."]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(
        session.stderr.contains("hint: name its files: `callboard check ./*.json`"),
        "{}",
        session.stderr
    );
}
