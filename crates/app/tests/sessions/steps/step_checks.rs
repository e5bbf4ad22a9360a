//! `checks` of a step: what the engine runs after the agent's report. They have a turn of their own: `test#1.1` is the agent,
//! `test#2.1` its checks, `test#3.1` the agent's next attempt.

use insta::assert_snapshot;
use serde_json::json;
use testkit::TestEnv;

use crate::sessions::{last_error, status, test_env};

/// Makes a workflow whose step `test` has these `checks` and, from `keys`, further keys.
fn with_checks(checks: &str, keys: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("callboard.toml", "[checks]\nfast = ['sh', '-c', 'test -e ready']\n");
    let workflow = format!(
        "name: trial\nsteps:\n  - {{id: code, agent: coder, prompt: task.md}}\n  - {{id: test, agent: coder, prompt: task.md, needs: [code], checks: {checks}{keys}}}\n"
    );
    test_env.write("wf.yaml", &workflow);
    test_env
}

#[test]
fn passed_checks_complete_the_step_with_evidence() {
    let test_env = with_checks("[fast, {run: 'echo well > checked', name: own, timeout: 1m}]", "");
    test_env.write("ready", "");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let view = test_env.document("trial");
    assert_eq!(status(&view, "test"), "COMPLETED");
    assert_eq!(view["steps"]["test"]["attempts"], 1);
    assert_eq!(view["steps"]["test"]["artifacts"], json!(["made/test.txt"]), "the agent's results stay");
    assert_eq!(view["steps"]["test"]["logs"], json!(["did test", "fast passed", "own passed"]));
    assert!(test_env.repo().join("checked").exists(), "the checks run in the step's tree");
    let report = std::fs::read_to_string(view["steps"]["test"]["report_path"].as_str().unwrap()).unwrap();
    assert!(report.contains("\"agent\": \"coder\""), "the file shows the agent's report: {report}");
}

#[test]
fn an_attempt_that_runs_checks_is_named_by_them_and_has_no_prompt() {
    let test_env = with_checks("[fast]", "");
    test_env.write("ready", "");
    let session = test_env.run(&[]).run();
    assert!(session.stderr.contains("checks of test (test#2.1) started"), "{}", session.transcript());
    assert!(session.stderr.contains("checks of test (test#2.1) finished"), "{}", session.transcript());
    let prompt = test_env.callboard(&["prompt", "trial", "test"]).run();
    let prompt_of_agent =
        std::fs::read_to_string(test_env.attempt_dir("trial", "test", "1.1").join("prompt.md")).unwrap();
    assert_eq!(prompt.stdout, prompt_of_agent, "{}", prompt.transcript());
    let named = test_env.callboard(&["prompt", "trial", "test", "--attempt", "2.1"]).run();
    assert_snapshot!(named.transcript(), @"
    $ callboard prompt trial test --attempt 2.1
    error: attempt `test#2.1` has no prompt: it runs the checks of `test`
    [exit 2]
    ");
    let missing = test_env.callboard(&["prompt", "trial", "test", "--attempt", "3.1"]).run();
    assert!(missing.stderr.contains("its only attempt with a prompt is `test#1.1`"), "{}", missing.stderr);
    let log = test_env.callboard(&["log", "trial", "--full", "--step", "test"]).run();
    assert!(!log.stdout.contains("invalid"), "{}", log.transcript());
    assert!(!log.stdout.contains("prompt of test#2.1"), "{}", log.transcript());
    let expected = [
        "checks of test (test#2.1) ended",
        "report of checks of test (test#2.1), from its checks:",
        "fast passed",
    ];
    for text in expected {
        assert!(log.stdout.contains(text), "{text}: {}", log.transcript());
    }
}

#[test]
fn a_failed_check_is_a_failed_attempt_and_its_output_reaches_the_agent() {
    let test_env = with_checks("[{run: [sh, -c, 'echo one test failed; test -e ready'], name: unit}]", "");
    test_env.script_agent(&["test 2 do touch ready; write_report COMPLETED fixed"]);
    let session = test_env.run(&["--max-attempts", "2"]).run();
    let prompt = test_env.callboard(&["prompt", "trial", "test", "--attempt", "3.1"]).run();
    assert!(prompt.stdout.contains("This is attempt 2 of 2"), "{}", prompt.transcript());
    assert!(prompt.stdout.contains("unit failed: exit code 1"), "{}", prompt.transcript());
    assert!(prompt.stdout.contains("one test failed"), "{}", prompt.transcript());
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "test#1.1", "test#3.1"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.document("trial")["steps"]["test"]["attempts"], 2);
}

#[test]
fn failed_checks_fail_the_step_when_its_attempts_are_used_up() {
    let test_env = with_checks("[fast]", "");
    let session = test_env.run(&["--max-attempts", "2"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let view = test_env.document("trial");
    assert_eq!(status(&view, "test"), "FAILED");
    assert_eq!(last_error(&view, "test"), "fast failed: exit code 1");
    let show = test_env.callboard(&["show", "trial"]).run();
    assert!(show.stdout.contains("last error: checks of test (test#4.1), "), "{}", show.transcript());
}

#[test]
fn a_failed_check_of_a_gate_loops_back_with_its_output() {
    let test_env = with_checks(
        "[{run: [sh, -c, 'echo one test failed; test -e ready'], name: unit}]",
        ", loop_back_to: code",
    );
    test_env.script_agent(&[
        "code * do if [ $STEP_ITERATION = 2 ]; then touch ready; fi; write_report COMPLETED fixed",
    ]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let prompt = test_env.callboard(&["prompt", "trial", "code", "--attempt", "2.1"]).run();
    assert!(prompt.stdout.contains("one test failed"), "{}", prompt.transcript());
    assert_eq!(test_env.document("trial")["steps"]["code"]["iteration_count"], 1);
}

#[test]
fn an_unknown_check_is_refused_before_the_run() {
    let test_env = with_checks("[slow]", "");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(
        session.stderr.contains("step `test` names the check `slow`, which is not configured"),
        "{}",
        session.transcript()
    );
    assert!(session.stderr.contains("known are `fast`"), "{}", session.transcript());
}
