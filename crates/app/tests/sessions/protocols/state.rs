//! `callboard state`: documents read, patched and watched by independent programs.

mod documentation;
mod following;
mod within_attempt;
mod writers;

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::{AgentBarrier, CallOutput, Running, TestEnv};

use crate::sessions::protocols::every_protocol::{CYCLE, RUN, open};
use crate::sessions::test_env;

/// Runs the shell script of its phase, and reports what the script prints as the phase's output.
const AGENT: &str = r#"#!/bin/sh
PATH=$SHARED:$PATH
output=$(. "$SHARED/phase-scripts/$STEP_ID") || exit 1
printf '{"schema":"run_report@v0","run_id":"%s","step_id":"%s","agent":"%s","status":"COMPLETED","started_at":"x","ended_at":"y","output":%s}' \
    "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$output" > "$REPORT_PATH"
"#;

const PRINT_PLAN: &str = r#"echo '{"phases": [{"phase": "preparation"}], "success_criteria": "it works"}'"#;

/// Opens a cycle whose planner runs this script; the other phases report a minimal output.
fn open_cycle(planner: &str) -> TestEnv {
    let test_env = test_env();
    open(&test_env);
    test_env.write_program(agent_path(&test_env), AGENT);
    fs::create_dir_all(test_env.agent_dir().join("phase-scripts")).unwrap();
    write_phase_script(&test_env, "plan", &format!("{planner}\n{PRINT_PLAN}\n"));
    write_phase_script(&test_env, "execute", r#"echo '{"execution_status": "success"}'"#);
    write_phase_script(&test_env, "express", r#"echo '{"summary": "done"}'"#);
    write_phase_script(&test_env, "review", r#"echo '{"quality_score": 90}'"#);
    test_env
}

fn agent_path(test_env: &TestEnv) -> std::path::PathBuf {
    test_env.agent_dir().join("by-phase.sh")
}

/// Writes the shell script of a phase.
fn write_phase_script(test_env: &TestEnv, phase: &str, script: &str) {
    fs::write(test_env.agent_dir().join("phase-scripts").join(phase), script).unwrap();
}

/// Starts the engine of the cycle.
fn resume_cycle(test_env: &TestEnv) -> Running<'_> {
    let (agent, shared) = (agent_path(test_env), format!("SHARED={}", test_env.agent_dir().display()));
    test_env.callboard(&["resume", CYCLE, "--wrapper", agent.to_str().unwrap(), "--env", &shared]).start()
}

/// Starts the engine, and waits until the planner, whose script is `WAIT_AT_BARRIER`, is running.
fn start_planner(test_env: &TestEnv) -> (Running<'_>, AgentBarrier) {
    let barrier = test_env.barrier("hold");
    let engine = resume_cycle(test_env);
    test_env.wait_for_file("planning");
    (engine, barrier)
}

/// A script of the planner: it says that it is running, and waits until the pipe `hold` is opened.
const WAIT_AT_BARRIER: &str = "echo > \"$SHARED/planning\"; read -r _ < \"$SHARED/hold\"";

fn get(test_env: &TestEnv) -> Value {
    test_env.callboard(&["state", "get", CYCLE, "--json"]).run().json()
}

fn sequence(test_env: &TestEnv) -> u64 {
    get(test_env)["sequence"].as_u64().unwrap()
}

fn patch(test_env: &TestEnv, expect: u64, extra_args: &[&str]) -> CallOutput {
    let expect = expect.to_string();
    test_env
        .callboard(&[&["state", "patch", CYCLE, "--json", "--expect", &expect], extra_args].concat())
        .run()
}

/// Returns every write, as `state history --json` prints it.
fn history(test_env: &TestEnv) -> Vec<Value> {
    let session = test_env.callboard(&["state", "history", CYCLE, "--json"]).run();
    assert_eq!(session.code, 0, "{}", session.stderr);
    session.json_lines()
}

#[test]
fn a_document_can_be_read_whole_or_in_part_by_every_name_of_its_run() {
    let test_env = open_cycle("");
    let whole = test_env.callboard(&["state", "get", CYCLE]).run().json();
    assert_eq!((&whole["cycle_id"], &whole["sequence"]), (&json!(CYCLE), &json!(1)));
    for key in [CYCLE, RUN, "peer.spec"] {
        assert_eq!(test_env.callboard(&["state", "get", key]).run().json(), whole, "{key}");
    }
    let inherited =
        test_env.callboard(&["state", "get", "--json"]).env("CALLBOARD_STATE_KEY", RUN).run().json();
    assert_eq!(inherited["document"], whole);
    assert_eq!((&inherited["run"], &inherited["protocol"]), (&json!(RUN), &json!("peer")));
    assert_eq!((&inherited["sequence"], &inherited["revision"]), (&json!(1), &json!(1)));
    assert_snapshot!(test_env.callboard(&["state", "get", CYCLE, "--path", "/metadata/status"]).run().transcript(), @r#"
    $ callboard state get peer:spec:feature-name:cycle:1 --path /metadata/status
    "initialized"
    [exit 0]
    "#);
    assert_snapshot!(test_env.callboard(&["state", "get", CYCLE, "--path", "metadata"]).run().transcript(), @"
    $ callboard state get peer:spec:feature-name:cycle:1 --path metadata
    error: the document has no value at `metadata`

    hint: start a JSON pointer with `/`, such as `/phases/plan/status`
    [exit 2]
    ");
    assert_snapshot!(test_env.callboard(&["state", "get"]).run().transcript(), @"
    $ callboard state get
    error: KEY is missing, and CALLBOARD_STATE_KEY is not set

    hint: name a run; `callboard ls` lists them. CALLBOARD_STATE_KEY is set inside attempts of a peer cycle
    [exit 2]
    ");
    let absent = test_env.callboard(&["state", "get", "peer:global:cycle:9", "--json"]).run();
    assert_eq!((absent.code, &absent.json()["code"]), (2, &json!("E011")), "{}", absent.stdout);
}

#[test]
fn a_workflows_document_can_be_read_and_watched_but_not_patched() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let read = test_env.callboard(&["state", "get", "trial", "--json"]).run().json();
    assert_eq!((&read["protocol"], &read["sequence"]), (&json!("steps"), &json!(null)));
    assert_eq!(read["document"], test_env.document("trial"), "it is what the view shows");
    assert_snapshot!(test_env.callboard(&["state", "patch", "trial", "--expect", "1", "--set", "/note=1"]).run().transcript(), @"
    $ callboard state patch trial --expect 1 --set /note=1
    error[E021]: cannot change the document of run `trial`
      caused by: only the engine writes this document

    hint: report the result of an attempt with `callboard report`
    [exit 3]
    ");
    let writes = test_env.callboard(&["state", "history", "trial", "--json"]).run().json_lines();
    assert_eq!(writes[0]["changed"], json!([""]));
    let changes_status_of_a = |write: &Value| write["changed"].to_string().contains("\"/steps/a/status\"");
    assert!(writes.iter().any(changes_status_of_a), "{writes:?}");
}

#[test]
fn a_refused_patch_names_the_rule() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let before = get(&test_env);
    let now = before["sequence"].as_u64().unwrap();
    for (set, kind, code) in [
        ("/phases/execute/output={}", "invalid_transition", "E021"),
        ("/metadata/status=\"completed\"", "invalid_transition", "E021"),
        ("/sequence=99", "invalid_transition", "E021"),
        ("/history=[]", "invalid_transition", "E021"),
        ("/phases/plan/errors/-=\"slow\"", "schema_validation_failed", "E022"),
    ] {
        let refused = patch(&test_env, now, &["--set", set]);
        let answer = refused.json();
        assert_eq!(
            (refused.code, &answer["kind"], &answer["code"]),
            (3, &json!(kind), &json!(code)),
            "{set}"
        );
        assert!(!answer["violations"].as_array().unwrap().is_empty(), "{answer}");
    }
    let unpatchable = patch(&test_env, now, &["--set", "/nowhere/near=1"]);
    assert_eq!((unpatchable.code, &unpatchable.json()["kind"]), (3, &json!("unpatchable")));
    // The size counts twice: a patch is written to the entry and to the document.
    test_env.write("large.json", &json!({ "note": "x".repeat(20 << 20) }).to_string());
    let large = patch(&test_env, now, &["--merge", "large.json"]);
    let answer = large.json();
    assert_eq!((large.code, &answer["kind"]), (3, &json!("state_too_large")));
    assert!(answer["size"].as_u64() > answer["limit"].as_u64(), "{answer}");
    for (arguments, message) in [
        (&["--set", "/note=hello"][..], "has a value that is not JSON"),
        (&["--set", "note=1"], "does not begin with a JSON pointer"),
        (&["--merge", "missing.json"], "cannot read the merge patch in `missing.json`"),
        (&["--patch", "task.md"], "`task.md` is not a valid list of operations"),
        (&["--patch", "-"], "standard input is not a valid list of operations"),
    ] {
        let invalid = patch(&test_env, now, arguments);
        assert_eq!(invalid.code, 2, "{arguments:?}");
        assert!(invalid.stderr.contains(message), "{}", invalid.stderr);
    }
    assert_eq!(get(&test_env), before, "nothing was written");
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn a_conflict_is_reported_as_text_and_json() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let read = sequence(&test_env);
    assert_eq!(patch(&test_env, read, &["--set", "/phases/plan/output/draft=1"]).code, 0);
    let expect = read.to_string();
    let set = "/phases/plan/output/draft=2";
    assert_snapshot!(test_env.callboard(&["state", "patch", CYCLE, "--expect", &expect, "--set", set]).run().transcript(), @"
    $ callboard state patch peer:spec:feature-name:cycle:1 --expect 2 --set /phases/plan/output/draft=2
    error[E020]: cannot change the document of run `peer.spec.feature-name.cycle.1`
      caused by: it was read at sequence 2 (revision 4), and is at 3 (revision 5) now: `/phases/plan` has been changed since
      caused by: the last change is 3: plan progress by tester at [WHEN]

    hint: read the document again (`callboard state get KEY --json`) and repeat the change with its new `sequence`
    [exit 3]
    ");
    let answer = patch(&test_env, read, &["--set", set]).json();
    assert_eq!(
        (&answer["kind"], &answer["why"]),
        (&json!("sequence_conflict"), &json!("`/phases/plan` has been changed since"))
    );
    assert_eq!((&answer["expected"], &answer["found"]), (&json!(read), &json!(read + 1)));
    assert_eq!((&answer["expected_revision"], &answer["found_revision"]), (&json!(4), &json!(5)));
    assert_eq!((&answer["last"]["by"], &answer["last"]["sequence"]), (&json!("tester"), &json!(read + 1)));
    let never_reached = patch(&test_env, 99, &["--set", "/note=1"]).json();
    assert_eq!(
        (&never_reached["kind"], &never_reached["expected_revision"]),
        (&json!("sequence_conflict"), &json!(null))
    );
    let applied_before = patch(&test_env, read, &["--set", "/phases/plan/output/draft=1"]).json();
    assert_eq!(
        (&applied_before["written"], &applied_before["sequence"]),
        (&json!(false), &json!(read + 1)),
        "the document has this value already"
    );
    barrier.open();
    assert_eq!(engine.wait().code, 0);
}

#[test]
fn an_unknown_field_outside_the_phases_is_kept() {
    let test_env = open_cycle(WAIT_AT_BARRIER);
    let (engine, mut barrier) = start_planner(&test_env);
    let read = sequence(&test_env);
    assert_eq!(patch(&test_env, read, &["--set", "/phases/plan/output/draft=1"]).code, 0);
    // `read` is an old sequence now. A patch from it is applied, because what it changes has not been changed since.
    let applied =
        patch(&test_env, read, &["--set", "/ticket=\"AB-12\"", "--set", "/phases/review/hint=\"be kind\""]);
    assert_eq!((applied.code, &applied.json()["sequence"]), (0, &json!(read + 2)), "{}", applied.stdout);
    let merge = test_env.write("merge.json", r#"{"metadata": {"team": "blue"}}"#);
    assert_eq!(patch(&test_env, read, &["--merge", merge.to_str().unwrap()]).code, 0);
    let operations = test_env.write(
        "operations.json",
        r#"[
        {"op": "test", "path": "/phases/plan/output/draft", "value": 1},
        {"op": "add", "path": "/phases/plan/output/list", "value": ["a"]}
    ]"#,
    );
    assert_eq!(patch(&test_env, read + 3, &["--patch", operations.to_str().unwrap()]).code, 0);
    assert_eq!(get(&test_env)["document"]["phases"]["plan"]["output"], json!({ "draft": 1, "list": ["a"] }));
    barrier.open();
    assert_eq!(engine.wait().code, 0);
    let document = get(&test_env)["document"].clone();
    assert_eq!((&document["ticket"], &document["metadata"]["team"]), (&json!("AB-12"), &json!("blue")));
    assert_eq!(document["phases"]["review"]["hint"], "be kind");
    assert_eq!(document["metadata"]["status"], "completed");
    let file = test_env.write("cycle.json", &document.to_string());
    assert_eq!(test_env.callboard(&["check", file.to_str().unwrap()]).run().code, 0);
}
