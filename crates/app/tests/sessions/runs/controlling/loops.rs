//! Gates that loop back, end to end.
//!
//! Agents are scripted with lines that `agent.sh` of testkit explains. `review * gate-failure 1` fails the gate `review` in
//! iteration 1 and passes it later.

use std::fs;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::{last_error, status, test_env};

/// Makes a workflow of `code`, `lint`, `review` and `ship`, in this order. `review` can loop back to `code`.
fn with_review(behaviours: &[&str]) -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: lint, needs: [code]",
        "id: review, needs: [lint], loop_back_to: code",
        "id: ship, needs: [review]",
    ]);
    test_env.script_agent(behaviours);
    test_env
}

/// An agent of `code` that saves its environment and prompt in later iterations, and waits until the pipe `barrier` is
/// opened.
const CODE: &str = r#"code * do [ $STEP_ITERATION = 1 ] || { env >"$shared/environment"; cp "$PROMPT_PATH" "$shared/prompt"; read -r _ <"$shared/barrier"; }; write_report COMPLETED "did code""#;

#[test]
fn a_failed_gate_loops_back_with_its_findings() {
    let test_env = with_review(&[CODE, "review * gate-failure 1"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("code#2.1");
    let document = test_env.wait_for_view("trial", "the second iteration", |document| {
        status(document, "code") == "RUNNING" && document["steps"]["code"]["iteration_count"] == 1
    });
    let step = |id: &str| &document["steps"][id];
    for id in ["lint", "review", "ship"] {
        assert_eq!((status(&document, id), &step(id)["iteration_count"]), ("PENDING", &1.into()), "{id}");
    }
    assert_eq!(step("lint")["blocked_by_loop"], "review");
    assert_eq!(step("ship")["blocked_by_loop"], "review");
    assert_eq!(step("review")["blocked_by_loop"], serde_json::Value::Null);
    assert_eq!(step("code")["blocked_by_loop"], serde_json::Value::Null);
    let report = step("review")["report_path"].as_str().expect("a report stays where it is").to_owned();
    barrier.open();
    let session = running.wait();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ code#1.1 started
    ✓ code#1.1 finished [TIME]
    ▸ lint#1.1 started
    ✓ lint#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ⟲ gate review failed
    ⟲ looping back to code for review
    ▸ code#2.1 started
    ✓ code#2.1 finished [TIME]
    ▸ lint#2.1 started
    ✓ lint#2.1 finished [TIME]
    ▸ review#2.1 started
    ✓ review#2.1 finished [TIME]
    ▸ ship#1.1 started
    ✓ ship#1.1 finished [TIME]

    run `trial` succeeded: 4 of 4 steps done, [TIME]
    [exit 0]
    ");

    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    let variable = |name: &str| environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    assert_eq!(variable("LOOP_BACK_FROM"), Some("review"));
    assert_eq!(variable("LOOP_BACK_REPORT"), Some(report.as_str()));
    assert_eq!((variable("STEP_ITERATION"), variable("STEP_ATTEMPT")), (Some("2"), Some("1")));
    let prompt = fs::read_to_string(test_env.agent_dir().join("prompt")).unwrap();
    let findings = prompt.split("\n## ").nth(1).unwrap().replace(test_env.repo().to_str().unwrap(), "[REPO]");
    assert_snapshot!(findings, @"
    Sent back by `review` (iteration 2)

    Its whole report: `[REPO]/.agents/runs/trial/reports/trial__review.json`

    - file `made/review.txt`

    ```text
    review saw iteration 1
    ```
    ");

    let document = test_env.document("trial");
    for id in ["code", "lint", "review", "ship"] {
        let step = &document["steps"][id];
        assert_eq!((status(&document, id), &step["attempts"]), ("COMPLETED", &1.into()), "{id}");
        assert_eq!(step["iteration_count"], 1, "{id}");
        assert_eq!(
            (&step["blocked_by_loop"], &step["last_error"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
    }
    assert!(
        session.code == 0
            && test_env.agent_log().started().iter().filter(|attempt| attempt.starts_with("ship")).count()
                == 1
    );
}

#[test]
fn the_gate_is_shown_completed_with_its_findings_before_the_loop_back() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: lint, needs: [code]",
        "id: review, needs: [code], loop_back_to: code",
    ]);
    test_env.script_agent(&["lint * wait barrier", "review * gate-failure 1"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    // While `lint` runs, nothing is reset.
    let document =
        test_env.wait_for_view("trial", "the gate", |document| status(document, "review") == "COMPLETED");
    assert_eq!(last_error(&document, "review"), "Gate failure: review saw iteration 1");
    test_env.agent_log().wait_for_start("lint#1.1");
    assert_eq!(test_env.document("trial")["steps"]["code"]["iteration_count"], 0);
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.agent_log().count_ends("code"), 2);
}

#[test]
fn an_engine_that_dies_between_a_failed_gate_and_the_loop_back_loses_nothing() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: lint, needs: [code]",
        "id: review, needs: [code], loop_back_to: code",
    ]);
    test_env.script_agent(&["lint * wait barrier", "review * gate-failure 1"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    test_env.wait_for_view("trial", "the gate", |document| status(document, "review") == "COMPLETED");
    test_env.agent_log().wait_for_start("lint#1.1");
    running.kill();
    running.wait();
    barrier.open();
    let attempt_dir = test_env.attempt_dir("trial", "lint", "1.1");
    testkit::wait_until(&attempt_dir, "the exit record", || {
        attempt_dir.join("exit.json").exists().then_some(())
    });
    let session = test_env.callboard(&["resume", "--jobs", "1"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = test_env.document("trial");
    for id in ["code", "lint", "review"] {
        assert_eq!(
            (status(&document, id), &document["steps"][id]["iteration_count"]),
            ("COMPLETED", &1.into()),
            "{id}"
        );
        assert_eq!(test_env.agent_log().count_ends(id), 2, "{id}");
    }
}

#[test]
fn a_gates_last_failure_is_final() {
    let test_env = with_review(&["review * gate-failure 99"]);
    let session = test_env.run(&["--max-iterations", "2"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert_eq!((test_env.agent_log().count_ends("review"), test_env.agent_log().count_ends("code")), (2, 2));
    let document = test_env.document("trial");
    assert_eq!(
        (status(&document, "review"), &document["steps"]["review"]["attempts"]),
        ("FAILED", &1.into())
    );
    assert_eq!(
        last_error(&document, "review"),
        "Gate failure: review saw iteration 2 (iteration 2, the last)"
    );
    assert_eq!(status(&document, "ship"), "PENDING");
}

#[test]
fn by_default_a_gate_runs_four_times() {
    let test_env = with_review(&["review * gate-failure 99"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    assert_eq!((test_env.agent_log().count_ends("review"), test_env.agent_log().count_ends("ship")), (4, 0));
}

#[test]
fn two_failed_gates_make_one_loop_back_with_both_findings() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: style, needs: [code], loop_back_to: code",
        "id: logic, needs: [code], loop_back_to: code",
    ]);
    let style = r#"style * do [ $STEP_ITERATION = 2 ] || { read -r _ <"$shared/style-barrier"; gate_failure=true; }; write_report COMPLETED "style says no""#;
    test_env.script_agent(&[CODE, style, "logic * gate-failure 1"]);
    let (mut barrier, mut style_barrier) = (test_env.barrier("barrier"), test_env.barrier("style-barrier"));
    let running = test_env.run(&["--jobs", "2"]).start();
    running.wait_for_stderr("gate logic failed");
    style_barrier.open();
    test_env.agent_log().wait_for_start("code#2.1");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.agent_log().count_ends("code"), 2, "one loop-back for both");
    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    assert!(environment.contains("LOOP_BACK_FROM=style,logic\n"), "{environment}");
    let prompt = fs::read_to_string(test_env.agent_dir().join("prompt")).unwrap();
    assert!(prompt.contains("style says no") && prompt.contains("logic saw iteration 1"), "{prompt}");
}

#[test]
fn a_pause_holds_a_loop_back() {
    let test_env = with_review(&[
        "review * do read -r _ <\"$shared/barrier\"; [ $STEP_ITERATION = 2 ] || gate_failure=true; write_report COMPLETED \"saw it\"",
    ]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("review#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    barrier.open();
    // The gate has failed, whether its loop-back is made (the iteration) or pending (the error).
    test_env.wait_for_view("trial", "the gate", |document| {
        document["steps"]["review"]["iteration_count"] == 1 || !last_error(document, "review").is_empty()
    });
    assert_eq!(
        test_env.agent_log().started().len(),
        3,
        "nothing starts: {:?}",
        test_env.agent_log().started()
    );
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.agent_log().count_ends("code"), 2);
}

#[test]
fn a_final_failure_wins_over_a_loop_back() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: lint, needs: [code]",
        "id: review, needs: [code], loop_back_to: code",
    ]);
    test_env.script_agent(&["lint * wait-and-fail barrier", "review * gate-failure 1"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2", "--max-attempts", "1"]).start();
    running.wait_for_stderr("gate review failed");
    test_env.agent_log().wait_for_start("lint#1.1");
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert_eq!(test_env.agent_log().count_ends("code"), 1);
    assert_eq!(status(&test_env.document("trial"), "lint"), "FAILED");
    // Retried, the step succeeds; then the loop-back happens.
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["retry", "trial", "--jobs", "1"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().count_ends("code"), 2);
}

#[test]
fn nested_loop_backs_start_at_the_earlier_target() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: plan",
        "id: code, needs: [plan]",
        "id: style, needs: [code], loop_back_to: code",
        "id: logic, needs: [code], loop_back_to: plan",
    ]);
    let style = r#"style * do [ $STEP_ITERATION = 2 ] || { read -r _ <"$shared/barrier"; gate_failure=true; }; write_report COMPLETED "style says no""#;
    let plan = r#"plan * do [ $STEP_ITERATION = 1 ] || env >"$shared/environment"; write_report COMPLETED "did plan""#;
    test_env.script_agent(&[plan, style, "logic * gate-failure 1"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    running.wait_for_stderr("gate logic failed");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!((test_env.agent_log().count_ends("plan"), test_env.agent_log().count_ends("code")), (2, 2));
    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    assert!(environment.contains("LOOP_BACK_FROM=style,logic\n"), "{environment}");
}
