//! The workflows in `examples/` that have a rehearsal script, each rehearsed with it.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{CallOutput, TestEnv};

use crate::sessions::{status, test_env};

/// Copies an example into a new repository.
fn example(name: &str) -> TestEnv {
    let test_env = test_env();
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).join(name);
    for folder in ["", "prompts"] {
        for file in fs::read_dir(source.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_file() {
                let to = Path::new("example").join(file.strip_prefix(&source).unwrap());
                test_env.write(to, &fs::read_to_string(&file).unwrap());
            }
        }
    }
    test_env
}

fn rehearse(test_env: &TestEnv, more: &[&str]) -> CallOutput {
    let flags = ["run", "example/workflow.yaml", "--run-id", "trial", "--rehearse=example/rehearsal.yaml"];
    test_env.callboard(&[&flags, more].concat()).run()
}

fn iterations(test_env: &TestEnv, step: &str) -> Value {
    test_env.document("trial")["steps"][step]["iteration_count"].clone()
}

#[test]
fn plan_code_review_retries_the_code_and_loops_back_once() {
    let test_env = example("plan-code-review");
    let session = rehearse(&test_env, &[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(iterations(&test_env, "code"), 1);
    assert!(test_env.attempt_dir("trial", "code", "1.2").exists(), "the first attempt failed");
    assert_eq!(iterations(&test_env, "plan"), 0);
}

#[test]
fn parallel_features_are_merged_and_the_integration_is_done_twice() {
    let test_env = example("parallel-features");
    let session = rehearse(&test_env, &["--jobs", "2"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let files = test_env.git(&["ls-tree", "-r", "--name-only", "callboard/trial"]);
    for file in ["DESIGN.md", "src/api.txt", "src/ui.txt", "src/app.txt"] {
        assert!(files.lines().any(|line| line == file), "{file}: {files}");
    }
    assert_eq!(iterations(&test_env, "integrate"), 1);
}

#[test]
fn stories_are_approved_then_coded_and_reviewed_one_after_the_other() {
    let test_env = example("stories");
    let session = rehearse(&test_env, &["--exit-when-waiting"]);
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert_eq!(test_env.callboard(&["answer", "trial/breakdown", "approve"]).run().code, 0);
    let session = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let started: Vec<_> = session.stderr.lines().filter(|line| line.ends_with("started")).collect();
    let expected = [
        "▸ code#1.1 started",
        "▸ code.1#1.1 started",
        "▸ review.1#1.1 started",
        "▸ code.1#2.1 started",
        "▸ review.1#2.1 started",
        "▸ code.2#1.1 started",
        "▸ review.2#1.1 started",
        "▸ code.2#2.1 started",
        "▸ review.2#2.1 started",
        "▸ summary#1.1 started",
    ];
    assert_eq!(started, expected, "{}", session.transcript());
}

#[test]
fn flaky_tests_are_repaired_until_each_is_proved() {
    let test_env = example("flaky-tests");
    let session = rehearse(&test_env, &[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    for test in ["fix.1", "fix.2"] {
        assert!(test_env.attempt_dir("trial", test, "2.1").exists(), "{test}: {}", session.transcript());
    }
}

#[test]
fn a_release_waits_for_ci_and_for_a_person() {
    let test_env = example("release");
    let session = rehearse(&test_env, &["--gate-state-file", "gates.json", "--exit-when-waiting"]);
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "prepare"), "PENDING", "CI has not passed");
    test_env.write("gates.json", r#"{"ci": true}"#);
    assert_eq!(test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run().code, 4);
    assert_eq!(status(&test_env.document("trial"), "approve"), "WAITING_ON_HUMAN");
    let reject = ["answer", "trial/approve", "reject", "--reason", "name the new option"];
    assert_eq!(test_env.callboard(&reject).run().code, 0);
    assert_eq!(test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run().code, 4);
    assert_eq!(iterations(&test_env, "notes"), 1, "the rejection sends the notes back");
    assert_eq!(test_env.callboard(&["answer", "trial/approve", "approve"]).run().code, 0);
    let session = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "tag"), "COMPLETED");
}
