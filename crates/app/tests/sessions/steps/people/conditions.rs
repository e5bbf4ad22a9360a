//! `gates` and `--gate-state-file`. The key `gates` lists conditions outside of the run, which must hold before a step
//! starts; it does not make the step a gate.

use std::fs;

use serde_json::json;
use testkit::{Running, TestEnv};

use crate::sessions::{status, test_env};

const WORKFLOW: &str = "\
name: trial
steps:
  - {id: code, agent: coder, prompt: task.md, gates: []}
  - {id: ship, agent: coder, prompt: task.md, needs: [code], gates: [ci.tests, legal]}
";

fn with_workflow(workflow: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("wf.yaml", workflow);
    test_env
}

/// Starts the run and waits until `code` is done: the same commit makes `ship` wait for its conditions.
fn start_until_ship_waits(test_env: &TestEnv) -> Running<'_> {
    let engine = test_env.run(&["--gate-state-file", "gates.json"]).start();
    test_env.wait_for_view("trial", "code is done", |view| status(view, "code") == "COMPLETED");
    engine
}

#[test]
fn a_step_starts_when_all_its_conditions_hold() {
    let test_env = with_workflow(WORKFLOW);
    let engine = start_until_ship_waits(&test_env);
    test_env.write("gates.json", r#"{"ci.tests": true}"#);
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    let question = inbox[0]["question"].as_str().unwrap();
    assert_eq!(inbox[0]["kind"], "condition");
    assert!(question.starts_with("Waits until `ci.tests` and `legal` are true in `/"), "{inbox:#}");
    let show = test_env.callboard(&["show", "trial"]).run();
    assert!(
        show.stdout.contains("waits for conditions `ci.tests` and `legal` for "),
        "it does not wait for a person: {}",
        show.transcript()
    );
    assert!(show.stdout.contains("Waits until `ci.tests` and `legal` are true"), "{}", show.transcript());
    assert_eq!(status(&test_env.document("trial"), "ship"), "PENDING");
    test_env.write("gates.json", r#"{"ci.tests": true, "legal": true}"#);
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let log = test_env.callboard(&["log", "trial"]).run();
    for shown in [&ended.stderr, &log.stdout] {
        assert!(shown.contains("ship waits for conditions `ci.tests` and `legal`"), "{shown}");
        assert!(shown.contains("ship may start: conditions `ci.tests` and `legal` hold"), "{shown}");
        assert!(!shown.contains("person") && !shown.contains("answered"), "{shown}");
    }
    assert!(log.stdout.contains("conditions `ci.tests` and `legal` hold for ship#1"), "{}", log.transcript());
    assert_eq!(test_env.callboard(&["inbox", "--json"]).run().json(), json!([]));
}

#[test]
fn a_condition_that_is_not_a_boolean_is_refused_with_a_note() {
    let test_env = with_workflow(WORKFLOW);
    test_env.write("gates.json", r#"{"ci.tests": true, "legal": "true"}"#);
    let session = test_env.run(&["--gate-state-file", "gates.json", "--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(
        session.stderr.contains("does not answer trial/ship#1: `legal` is neither `true` nor `false`"),
        "{}",
        session.transcript()
    );
    fs::remove_file(test_env.repo().join("gates.json")).unwrap();
    let again = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
    assert_eq!(again.code, 4, "a missing file is false: {}", again.transcript());
    let resolved = test_env.callboard(&["answer", "trial/ship", "resolve", "--text", "by hand"]).run();
    assert_eq!(resolved.code, 0, "{}", resolved.transcript());
    let log = test_env.callboard(&["log", "trial", "--last", "1"]).run();
    assert!(log.stdout.contains("ship#1 was answered: resolve: by hand"), "{}", log.transcript());
    assert!(
        log.stdout.contains("ship no longer waits for conditions `ci.tests` and `legal`"),
        "{}",
        log.transcript()
    );
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
}

#[test]
fn without_the_flag_conditions_count_as_true_with_a_note() {
    let test_env = with_workflow(WORKFLOW);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(
        session.stderr.contains("the conditions `ci.tests`, `legal` in `gates` count as true"),
        "{}",
        session.transcript()
    );
}

/// A scenario in which the original tool failed: its guide writes `- ci.tests: passed`, and a run with it crashed.
#[test]
fn mapping_style_gate_accepted_or_refused_cleanly() {
    let test_env = with_workflow(&WORKFLOW.replace("[ci.tests, legal]", "[{ci.tests: passed}]"));
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.stderr.contains("wf.yaml:4:"), "{}", session.transcript());
    assert!(
        session.stderr.contains("what the engine runs itself goes into `checks`"),
        "{}",
        session.transcript()
    );
}
