//! Scenarios in which the original tool failed, each under its name. Others: a missing binary and a failed
//! run in `failing`, a cycle in `workflows`, reports of orphans in `crash`, a hundred kills in `torture`.

use std::fs;

use testkit::{ProcessHandle, Scene};

use crate::sessions::{scene, status};

#[test]
fn retry_after_failed_report() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a 1 failed"]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().order(), ["begin a#1.1", "end a#1.1", "begin a#1.2", "end a#1.2"]);
    assert_eq!(
        scene.document("trial")["steps"]["a"]["logs"],
        serde_json::json!(["did a"]),
        "not the old report"
    );
}

#[test]
fn loop_back_passing_on_second_round() {
    let scene = scene();
    scene.workflow_of(&[
        "id: code",
        "id: review, needs: [code], loop_back_to: code",
        "id: ship, needs: [review]",
    ]);
    scene.plan(&["review * gate-failure 1"]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["code#1.1", "review#1.1", "code#2.1", "review#2.1", "ship#1.1"]);
}

#[test]
fn resume_after_reported_failure() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a 1 failed", "a 2 hang"]);
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.2");
    running.kill();
    running.wait();
    assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
    scene.plan(&[]);
    let session = scene.callboard(&["resume"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "a#1.3", "b#1.1"]);
    assert_eq!(
        scene.document("trial")["steps"]["a"]["attempts"],
        2,
        "the reported failure counts, the stop does not"
    );
}

#[test]
fn retry_after_a_run_that_ended_with_a_reported_failure() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * failed"]);
    assert_eq!(scene.run(&[]).run().code, 1);
    scene.plan(&[]);
    let session = scene.callboard(&["retry", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "a#2.1", "b#1.1"]);
}

#[test]
fn resume_with_a_sibling_left_running() {
    let scene = scene();
    scene.workflow(&["l", "r", "join: l r"]);
    scene.plan(&["l * wait gate", "r * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&["--jobs", "2"]).start();
    let siblings = ["l#1.1", "r#1.1"].map(|attempt| scene.agent_log().wait_for_start(attempt));
    scene.wait_for_view("trial", "both at work", |document| {
        status(document, "l") == "RUNNING" && status(document, "r") == "RUNNING"
    });
    running.kill();
    running.wait();
    // One of the two dies with its shim, the other keeps running; the document shows both as running.
    ProcessHandle::shim(&scene.attempt("trial", "l", "1.1")).expect("its shim lives").kill();
    ProcessHandle::of(siblings[0]).iter().for_each(ProcessHandle::wait);
    let resumed = scene.callboard(&["resume", "--jobs", "2"]).start();
    scene.agent_log().wait_for_start("l#1.2");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let started = scene.agent_log().started();
    assert_eq!(started.iter().filter(|started| started.starts_with("r#")).count(), 1, "{started:?}");
    assert_eq!(status(&scene.document("trial"), "join"), "COMPLETED");
}

#[test]
fn orphan_report_accepted_after_restart() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    gate.open();
    scene.agent_log().wait_for_end("a#1.1");
    assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn repeated_env_keeps_all() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * tell"]);
    let more = ["--env", "ONE=1", "--env", "TWO=2 and more", "--env", "THREE=a=b", "--env", "ONE=last"];
    assert_eq!(scene.run(&more).run().code, 0);
    let environment = fs::read_to_string(scene.kit().join("environment")).unwrap();
    for line in ["ONE=last", "TWO=2 and more", "THREE=a=b"] {
        assert!(environment.lines().any(|told| told == line), "{line}: {environment}");
    }
}

#[test]
fn repo_path_with_a_space() {
    let scene = Scene::named(env!("CARGO_BIN_EXE_callboard"), "my repo's \"tree\"");
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * tell"]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let directory = fs::read_to_string(scene.kit().join("directory")).unwrap();
    assert_eq!(directory.trim_end(), scene.repo().to_str().unwrap());
    let made = format!("DEP_A_ARTIFACTS={}/made/a.txt\n", scene.repo().display());
    assert!(fs::read_to_string(scene.kit().join("environment")).unwrap().contains(&made));
}

#[test]
fn stop_kills_the_agents_whole_group() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * do leave; sleep 1000 & note grandchild same-group $!; wait"]);
    let running = scene.run(&[]).start();
    let left = ["a#1.1", "same-group"].map(|who| scene.agent_log().wait_for_grandchild(who));
    let left = left.map(|pid| ProcessHandle::of(pid).expect("it lives"));
    assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
    assert!(left.iter().all(ProcessHandle::has_ended));
    assert_eq!(running.wait().code, 130);
    scene.expect_no_orphans();
}

#[test]
fn stream_json_gate_failure_honoured() {
    let scene = scene();
    scene.workflow_of(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    // As agent CLIs print it: the report is escaped inside an event's text.
    let say = r#"review * do [ $STEP_ITERATION = 2 ] || gate_failure=true; note end "$CALLBOARD_ATTEMPT"; words=$(report COMPLETED "looked at it" | sed 's/"/\\"/g' | tr -d '\n'); echo '{"type":"system","subtype":"init"}'; printf '{"type":"assistant","message":{"content":[{"type":"text","text":"Workspace it is.\\n<<<RUN_REPORT_JSON\\n%s\\nRUN_REPORT_JSON>>>\\nThat was it."}]}}\n' "$words""#;
    scene.plan(&[say]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["code#1.1", "review#1.1", "code#2.1", "review#2.1"]);
}

#[test]
fn mapping_style_gate_refused_cleanly() {
    let scene = scene();
    scene.workflow_of(&["id: a, gates: [{name: ci, kind: green}]"]);
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.stderr.contains("wf.yaml:3:"), "with its place: {}", session.stderr);
    assert!(scene.agent_log().started().is_empty());
}
