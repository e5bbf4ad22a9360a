//! Scenarios in which the original tool of the format failed, and which must work here. Others are
//! `missing_binary_ends_the_run` in `failing`, `three_item_data_loop_strictly_one_by_one` in `data_loops`,
//! `success_keeps_unpushed_commits` in `worktrees` and `git_worktree`, `mapping_style_gate_accepted_or_refused_cleanly`
//! in `conditions`, and `malformed_answer_file_does_not_approve` in `approvals`.

use std::fs;

use testkit::{ProcessHandle, TestEnv};

use crate::sessions::{status, test_env};

#[test]
fn retry_after_failed_report() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 failed"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        test_env.agent_log().starts_and_ends(),
        ["begin a#1.1", "end a#1.1", "begin a#1.2", "end a#1.2"]
    );
    assert_eq!(
        test_env.document("trial")["steps"]["a"]["logs"],
        serde_json::json!(["did a"]),
        "not the old report"
    );
}

#[test]
fn loop_back_passing_on_second_round() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: review, needs: [code], loop_back_to: code",
        "id: ship, needs: [review]",
    ]);
    test_env.script_agent(&["review * gate-failure 1"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(
        test_env.agent_log().started(),
        ["code#1.1", "review#1.1", "code#2.1", "review#2.1", "ship#1.1"]
    );
}

#[test]
fn resume_after_reported_failure() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a 1 failed", "a 2 hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.2");
    running.kill();
    running.wait();
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["resume"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "a#1.3", "b#1.1"]);
    assert_eq!(
        test_env.document("trial")["steps"]["a"]["attempts"],
        2,
        "the reported failure counts, the stop does not"
    );
}

#[test]
fn failed_run_exits_non_zero_and_is_retried() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * failed"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "a#2.1", "b#1.1"]);
}

#[test]
fn resume_with_a_sibling_left_running() {
    let test_env = test_env();
    test_env.workflow(&["l", "r", "join: l r"]);
    test_env.script_agent(&["l * wait barrier", "r * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    let siblings = ["l#1.1", "r#1.1"].map(|attempt| test_env.agent_log().wait_for_start(attempt));
    test_env.wait_for_view("trial", "both at work", |document| {
        status(document, "l") == "RUNNING" && status(document, "r") == "RUNNING"
    });
    running.kill();
    running.wait();
    // One of the two dies with its shim, the other keeps running; the document shows both as running.
    ProcessHandle::shim(&test_env.attempt_dir("trial", "l", "1.1")).expect("its shim lives").kill();
    ProcessHandle::of(siblings[0]).iter().for_each(ProcessHandle::wait);
    let resumed = test_env.callboard(&["resume", "--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("l#1.2");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let started = test_env.agent_log().started();
    assert_eq!(started.iter().filter(|started| started.starts_with("r#")).count(), 1, "{started:?}");
    assert_eq!(status(&test_env.document("trial"), "join"), "COMPLETED");
}

#[test]
fn orphan_report_accepted_after_restart() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    barrier.open();
    test_env.agent_log().wait_for_end("a#1.1");
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn repeated_env_keeps_all() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * save-input"]);
    let flags = ["--env", "ONE=1", "--env", "TWO=2 and more", "--env", "THREE=a=b", "--env", "ONE=last"];
    assert_eq!(test_env.run(&flags).run().code, 0);
    let environment = fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    for line in ["ONE=last", "TWO=2 and more", "THREE=a=b"] {
        assert!(environment.lines().any(|variable| variable == line), "{line}: {environment}");
    }
}

#[test]
fn repo_path_with_a_space() {
    let test_env = TestEnv::named(env!("CARGO_BIN_EXE_callboard"), "my repo's \"tree\"");
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * save-input"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let directory = fs::read_to_string(test_env.agent_dir().join("directory")).unwrap();
    assert_eq!(directory.trim_end(), test_env.repo().to_str().unwrap());
    let made = format!("DEP_A_ARTIFACTS={}/made/a.txt\n", test_env.repo().display());
    assert!(fs::read_to_string(test_env.agent_dir().join("environment")).unwrap().contains(&made));
}

#[test]
fn stop_kills_the_agents_whole_group() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env
        .script_agent(&["a * do leave_grandchild; sleep 1000 & log_event grandchild same-group $!; wait"]);
    let running = test_env.run(&[]).start();
    let grandchildren = ["a#1.1", "same-group"].map(|name| test_env.agent_log().wait_for_grandchild(name));
    let grandchildren = grandchildren.map(|pid| ProcessHandle::of(pid).expect("it lives"));
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert!(grandchildren.iter().all(ProcessHandle::has_ended));
    assert_eq!(running.wait().code, 130);
    test_env.expect_no_orphans();
}

#[test]
fn stream_json_gate_failure_honoured() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    // As agent CLIs print it: the report is escaped inside an event's text.
    let prints_report = r#"review * do [ $STEP_ITERATION = 2 ] || gate_failure=true; log_event end "$CALLBOARD_ATTEMPT"; words=$(report_json COMPLETED "looked at it" | sed 's/"/\\"/g' | tr -d '\n'); echo '{"type":"system","subtype":"init"}'; printf '{"type":"assistant","message":{"content":[{"type":"text","text":"Here it is.\\n<<<RUN_REPORT_JSON\\n%s\\nRUN_REPORT_JSON>>>\\nThat was it."}]}}\n' "$words""#;
    test_env.script_agent(&[prints_report]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "review#1.1", "code#2.1", "review#2.1"]);
}

/// The steps need each other in a circle.
#[test]
fn cycle_refused() {
    let test_env = test_env();
    test_env.workflow(&["a: c", "b: a", "c: b"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.stderr.contains("a → c → b → a"), "{}", session.transcript());
    assert!(test_env.agent_log().started().is_empty());
}

#[test]
fn kill_9_100_times_with_readable_state_each_time() {
    let test_env = test_env();
    let steps: Vec<_> =
        (1..=60).map(|n| if n == 1 { "s1".to_owned() } else { format!("s{n}: s{}", n - 1) }).collect();
    test_env.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    let read = || match fs::read_to_string(test_env.view_path("trial")) {
        Ok(text) => serde_json::from_str::<serde_json::Value>(&text).expect("the state is always whole"),
        Err(_) => serde_json::Value::Null,
    };
    let mut engine = test_env.run(&[]).start();
    test_env.wait_for_view("trial", "the run exists", |_| true);
    for kill in 0..100 {
        // Each is killed at another time: after a number of reads, while it may be writing.
        for _ in 0..kill % 10 {
            read();
        }
        assert!(kill > 50 || status(&read(), "s60") == "PENDING", "it ended too early to be killed");
        engine.kill();
        engine.wait();
        read();
        engine = test_env.callboard(&["resume", "trial"]).start();
    }
    // A run that has ended is not resumed.
    let last = engine.wait();
    assert!([0, 3].contains(&last.code), "{}", last.transcript());
    assert_eq!(status(&read(), "s60"), "COMPLETED");
    let mut started = test_env.agent_log().started();
    started.sort();
    let all = started.len();
    started.dedup();
    assert_eq!((started.len(), all), (60, 60), "each step ran once");
    test_env.expect_no_orphans();
}
