//! The ways to report: a file, markers on standard output, and `callboard report`.

use insta::assert_snapshot;
use serde_json::json;

use crate::sessions::{status, test_env};

#[test]
fn a_report_between_markers_on_standard_output_counts() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * markers"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let document = test_env.document("trial");
    assert_eq!(document["steps"]["a"]["logs"], json!(["said a"]));
    assert_eq!(document["steps"]["a"]["attempts"], 1);
}

#[test]
fn an_agent_can_report_with_the_command() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * submit"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let step = &test_env.document("trial")["steps"]["a"];
    assert_eq!((&step["logs"], &step["metrics"]), (&json!(["submitted a"]), &json!({ "weight": "1 kg" })));
}

#[test]
fn the_report_command_is_refused_outside_an_attempt() {
    let test_env = test_env();
    assert_snapshot!(test_env.callboard(&["report", "--status", "COMPLETED"]).run().transcript(), @"
    $ callboard report --status COMPLETED
    error: this command runs inside an attempt only: `CALLBOARD_RUN` is not set

    hint: let an agent that callboard has started call it
    [exit 3]
    ");
}

#[test]
fn the_report_command_is_refused_after_the_attempt() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let late = |attempt: &str| {
        let report = test_env.callboard(&["report", "--status", "COMPLETED"]);
        let report =
            report.env("CALLBOARD_RUN", "trial").env("CALLBOARD_ATTEMPT", attempt).env("AGENT_ID", "coder");
        report.env("CALLBOARD_STORE", test_env.store_dir()).run()
    };
    assert_snapshot!(late("a#1.1").transcript(), @"
    $ callboard report --status COMPLETED
    error: attempt `a#1.1` of run `trial` has ended
    [exit 3]
    ");
    assert_snapshot!(late("a#1.2").transcript(), @"
    $ callboard report --status COMPLETED
    error: attempt `a#1.2` of run `trial` is not running
    [exit 3]
    ");
}

#[test]
fn an_invalid_report_is_refused_at_once() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let report = |status: &str| {
        let report = test_env.callboard(&["report", "--status", status]);
        let report =
            report.env("CALLBOARD_RUN", "trial").env("CALLBOARD_ATTEMPT", "a#1.1").env("AGENT_ID", "coder");
        report.env("CALLBOARD_STORE", test_env.store_dir()).run()
    };
    assert_snapshot!(report("MAYBE").transcript(), @"
    $ callboard report --status MAYBE
    error: the report cannot be accepted: the status is `MAYBE`, expected COMPLETED or FAILED
    [exit 2]
    ");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_report_counts_even_if_its_agent_had_to_be_stopped() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * report-then-hang"]);
    let running = test_env.run(&[]).start();
    let attempt = test_env.attempt_dir("trial", "a", "1.1");
    test_env.agent_log().wait_for_start("a#1.1");
    testkit::wait_until(&attempt, "the report", || attempt.join("report.json").exists().then_some(()));
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn a_gate_can_fail_with_the_report_command() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    test_env.script_agent(&[
        r#"review * do [ $STEP_ITERATION = 2 ] && write_report COMPLETED fine || "$shared/callboard" report --gate-failure "no tests""#,
        r#"code * do cp "$PROMPT_PATH" "$shared/prompt"; "$shared/callboard" report --gate-failure "not mine" 2>"$shared/refused"; write_report COMPLETED done"#,
    ]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let read = |name: &str| std::fs::read_to_string(test_env.agent_dir().join(name)).unwrap();
    assert!(read("prompt").contains("\nno tests\n"), "{}", read("prompt"));
    assert_snapshot!(read("refused"), @"
    error: step `code` is not a gate, so it cannot send work back

    hint: use `--status FAILED`, or set `loop_back_to` in the workflow
    ");
}

/// A wrapper whose agent reports a failed gate. As soon as the shim has recorded that, the wrapper overwrites the
/// report with its own, which says nothing about the gate.
const WRAPPER: &str = r#"read -r _ <"$shared/barrier"; gate_failure=true; report_json COMPLETED "no tests" >"$REPORT_PATH"; until [ -s "${REPORT_PATH%/*}/reports.jsonl" ]; do :; done; gate_failure=null; write_report COMPLETED "exit code 0""#;

#[test]
fn a_wrapper_that_overwrites_the_report_of_a_gate_does_not_lose_its_failure() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    let prompt = r#"code * do cp "$PROMPT_PATH" "$shared/prompt"; write_report COMPLETED done"#;
    test_env.script_agent(&[
        &format!("review * do [ $STEP_ITERATION = 2 ] || {{ {WRAPPER}; exit; }}; write_report COMPLETED ok"),
        prompt,
    ]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("review#1.1");
    // Without an engine only the shim sees the agent's report.
    running.kill();
    running.wait();
    barrier.open();
    let attempt = test_env.attempt_dir("trial", "review", "1.1");
    testkit::wait_until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "review#1.1", "code#2.1", "review#2.1"]);
    let prompt = std::fs::read_to_string(test_env.agent_dir().join("prompt")).unwrap();
    assert!(prompt.contains("exit code 0\nno tests\n"), "{prompt}");
}
