//! `--schema`: the report of every agent matches a JSON Schema of the user.

use std::fs;

use testkit::TestEnv;

use crate::sessions::test_env;

fn with_schema(schema: &str) -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code"]);
    fs::write(test_env.repo().join("report.schema.json"), schema).unwrap();
    test_env
}

#[test]
fn a_report_that_does_not_match_costs_an_attempt() {
    let test_env = with_schema(
        r#"{
            "required": ["coverage"],
            "properties": { "coverage": { "type": "number", "minimum": 80 } }
        }"#,
    );
    // Each line has a step, an attempt, and what the agent does in it.
    test_env.script_agent(&[
        "code 1 ok",
        r#"code 2 do extra_fields=', "coverage": 79'; write_report COMPLETED did"#,
        r#"code 3 do extra_fields=', "coverage": 80'; write_report COMPLETED did"#,
    ]);
    let session = test_env.run(&["--schema", "report.schema.json", "--max-attempts", "3"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let log = test_env.callboard(&["log", "trial"]).run().stdout;
    for error in [
        "it does not match the schema: the report: `coverage` is missing, add it",
        "it does not match the schema: /coverage: it is 79, 80 is the least",
    ] {
        assert!(log.contains(error), "{log}");
    }
    let prompt = test_env.callboard(&["prompt", "trial", "code"]).run().stdout;
    assert!(prompt.contains(r#""minimum": 80"#), "{prompt}");
}

#[test]
fn a_schema_that_cannot_be_checked_is_refused_before_the_run() {
    let test_env = with_schema(r#"{ "properties": { "coverage": { "oneOf": [] } } }"#);
    let session = test_env.run(&["--schema", "report.schema.json"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    insta::assert_snapshot!(session.stderr, @"
    error: cannot check reports with the schema `report.schema.json`: /properties/coverage/oneOf: callboard does not check this keyword

    hint: leave it out; `docs/workflow.md` lists the keywords
    ");
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 2);
}
