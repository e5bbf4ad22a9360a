//! Rehearsed runs: the built-in scripted agent instead of real ones.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{CallOutput, TestEnv};

use crate::sessions::last_error;

const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// Makes a repository with a committed workflow. Its path contains a space.
fn rehearsal(steps: &[&str]) -> TestEnv {
    let test_env = TestEnv::named(CALLBOARD, "a repo");
    test_env.workflow_yaml(steps);
    test_env.git(&["add", "."]);
    test_env.git(&["commit", "--quiet", "--message=workflow"]);
    test_env
}

/// Writes a script outside the repository; returns the flag that uses it.
fn script(test_env: &TestEnv, steps: &str) -> String {
    let file = script_file(test_env);
    fs::write(&file, format!("steps:\n{steps}")).unwrap();
    format!("--rehearse={}", file.display())
}

fn script_file(test_env: &TestEnv) -> PathBuf {
    test_env.agent_dir().join("script.yaml")
}

/// Runs the workflow with the flag `--rehearse` or `--rehearse=FILE`, and expects this exit code.
#[track_caller]
fn rehearse(test_env: &TestEnv, flag: &str, code: i32) {
    let session = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", flag]).run();
    assert_eq!(session.code, code, "{}", output_of(&session));
}

fn step_of(test_env: &TestEnv, step: &str) -> Value {
    test_env.document("trial")["steps"][step].clone()
}

/// Returns the path of a file of an attempt, which is named by its turn and number, such as `2.1`.
fn file_of(test_env: &TestEnv, step: &str, attempt: &str, file: &str) -> PathBuf {
    test_env.attempt_dir("trial", step, attempt).join(file)
}

/// Returns stdout and stderr, without redaction.
fn output_of(session: &CallOutput) -> String {
    format!("{}{}", session.stdout, session.stderr)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn any_workflow_succeeds_and_the_work_tree_stays_clean() {
    let test_env =
        rehearsal(&["id: plan", "id: code, needs: [plan]", "id: review, needs: [code], loop_back_to: code"]);
    rehearse(&test_env, "--rehearse", 0);
    assert_eq!(test_env.git(&["status", "--porcelain"]), "");
    for step in ["plan", "code", "review"] {
        let shown = step_of(&test_env, step);
        assert_eq!((&shown["status"], &shown["attempts"]), (&"COMPLETED".into(), &1.into()));
        let artifact = format!(".agents/runs/trial/artifacts/{step}.1.1.json");
        assert_eq!(shown["artifacts"], serde_json::json!([artifact]));
        assert!(test_env.repo().join(artifact).is_file());
    }
    let printed = fs::read_to_string(file_of(&test_env, "plan", "1.1", "stdout.log")).unwrap();
    assert_eq!(printed, "rehearsing `plan`: iteration 1, attempt 1\nreported COMPLETED\n");
}

#[test]
fn a_script_says_which_files_and_logs_a_step_leaves() {
    let test_env = rehearsal(&["id: code"]);
    let entry =
        "- ok: {logs: [\"fixed\"], artifacts: [\"a/notes.txt\"], write: {\"src/x.txt\": \"content\"}}";
    rehearse(&test_env, &script(&test_env, &format!("  code:\n    {entry}\n")), 0);
    assert_eq!(test_env.git(&["status", "--porcelain", "-uall"]), "?? src/x.txt\n");
    assert_eq!(fs::read_to_string(test_env.repo().join("src/x.txt")).unwrap(), "content");
    let shown = step_of(&test_env, "code");
    let artifacts = serde_json::json!([".agents/runs/trial/artifacts/a/notes.txt", "src/x.txt"]);
    assert_eq!((&shown["artifacts"], &shown["logs"]), (&artifacts, &serde_json::json!(["fixed"])));
}

#[test]
fn a_scripted_failure_is_retried() {
    let test_env = rehearsal(&["id: code"]);
    rehearse(&test_env, &script(&test_env, "  code: [fail: syntax error, ok]\n"), 0);
    assert_eq!(step_of(&test_env, "code")["attempts"], 2);
    assert_eq!(
        json(&file_of(&test_env, "code", "1.1", "report.json"))["logs"],
        serde_json::json!(["syntax error"])
    );
}

#[test]
fn a_gate_fails_twice_and_then_passes() {
    let test_env = rehearsal(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    rehearse(&test_env, &script(&test_env, "  review: [gate_fail: {times: 2, why: found P0 issues}]\n"), 0);
    for step in ["code", "review"] {
        assert_eq!(step_of(&test_env, step)["iteration_count"], 2, "{step}");
    }
    let prompt = fs::read_to_string(file_of(&test_env, "code", "3.1", "prompt.md")).unwrap();
    assert!(prompt.contains("found P0 issues"), "{prompt}");
}

#[test]
fn every_scripted_failure_has_an_error_of_its_own() {
    let steps = ["hangs", "crashes", "exits", "babbles"];
    let written = steps
        .map(|id| format!("id: {id}, max_attempts: 1, timeout: {}", if id == "hangs" { "1s" } else { "1h" }));
    let test_env = rehearsal(&written.each_ref().map(String::as_str));
    let flag =
        script(&test_env, "  hangs: [hang]\n  crashes: [crash]\n  exits: [exit: 3]\n  babbles: [rubbish]\n");
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--on-failure", "continue", &flag];
    let output = test_env.callboard(&arguments).run();
    assert_eq!(output.code, 1, "{}", output_of(&output));
    // The time until the timeout was noticed varies.
    let without_duration = |error: String| match error.split_once(" after ") {
        Some((what, _)) => format!("{what} after […]"),
        None => error,
    };
    let document = test_env.document("trial");
    let errors = steps.map(|step| without_duration(last_error(&document, step).to_owned())).join("\n");
    insta::assert_snapshot!(errors, @"
    Agent process timed out after […]
    Agent process was ended by signal 9 without a report: crashing
    Agent process exited with code 3 without a report: leaving with code 3 and without a report
    Agent process exited with code 0 and its report was refused: the report file: it is not JSON: expected value at line 1, column 39
    ");
    assert_eq!(test_env.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_large_output_is_kept_and_a_leftover_child_is_killed() {
    let test_env = rehearsal(&["id: floods", "id: forgets"]);
    rehearse(&test_env, &script(&test_env, "  floods: [flood: 10MB]\n  forgets: [leave_child]\n"), 0);
    assert!(fs::metadata(file_of(&test_env, "floods", "1.1", "stdout.log")).unwrap().len() > 10_000_000);
    let printed = fs::read_to_string(file_of(&test_env, "forgets", "1.1", "stdout.log")).unwrap();
    let (_, after) = printed.split_once("leaving process ").unwrap();
    let (process, how) = after.split_once(" behind: ").unwrap();
    assert!(how.starts_with("in a session of its own\n"), "{printed}");
    assert_eq!(json(&file_of(&test_env, "forgets", "1.1", "exit.json"))["leftover_processes"], 1);
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&command).contains("left-behind"), "it lives on");
}

#[test]
fn a_rehearsal_resumes_with_its_script_although_the_file_was_removed() {
    let test_env = rehearsal(&["id: a", "id: b, needs: [a]"]);
    let flag = script(&test_env, "  a: [delay: 300ms]\n  b: [fail: once, ok: {logs: [from the script]}]\n");
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--json", &flag];
    let engine = test_env.callboard(&arguments).start();
    engine.wait_for_stdout("a#1.1");
    engine.kill();
    engine.wait();
    fs::remove_file(script_file(&test_env)).unwrap();
    let output = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(output.code, 0, "{}", output_of(&output));
    assert_eq!(step_of(&test_env, "a")["attempts"], 1);
    let shown = step_of(&test_env, "b");
    assert_eq!((&shown["attempts"], &shown["logs"]), (&2.into(), &serde_json::json!(["from the script"])));
}

#[test]
fn a_rehearsed_run_cannot_be_retried_with_another_adapter() {
    let test_env = rehearsal(&["id: code"]);
    let flag = script(&test_env, "  code: [{fail: \"no\"}]\n");
    rehearse(&test_env, &flag, 1);
    let output = test_env.callboard(&["retry", "trial", "--wrapper", "true"]).run();
    assert_eq!(output.code, 3, "{}", output_of(&output));
    assert!(output_of(&output).contains("it is a rehearsal"), "{}", output_of(&output));
}

#[test]
fn a_retried_run_is_still_rehearsed() {
    let test_env = rehearsal(&["id: a, max_attempts: 1"]);
    rehearse(&test_env, &script(&test_env, "  a: [fail: never]\n"), 1);
    fs::remove_file(script_file(&test_env)).unwrap();
    let output = test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(output.code, 1, "{}", output_of(&output));
    assert_eq!(json(&file_of(&test_env, "a", "2.1", "report.json"))["logs"], serde_json::json!(["never"]));
}

#[test]
fn a_scripted_agent_that_reports_and_hangs_has_written_its_report() {
    let root = tempfile::tempdir().unwrap();
    let report = root.path().join("report.json");
    let behaviour = r#"{"behaviour": "report_then_hang", "default_files": {"code.txt": "made"}}"#;
    let path = root.path().display().to_string();
    let variables = [
        ("RUN_ID", "trial"),
        ("STEP_ID", "a"),
        ("AGENT_ID", "x"),
        ("CALLBOARD_ATTEMPT", "a#1.1"),
        ("STEP_ITERATION", "1"),
        ("STEP_ATTEMPT", "1"),
        ("REPO_DIR", &path),
        ("ARTIFACTS_DIR", &path),
    ];
    let mut agent = Command::new(CALLBOARD)
        .args(["__rehearse", behaviour])
        .envs(variables)
        .env("REPORT_PATH", &report)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = BufReader::new(agent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let printed: Vec<_> = printed.take_while(|line| line != "hanging").collect();
    assert_eq!(printed[1..], ["writing `code.txt`", "reported COMPLETED"]);
    assert_eq!(json(&report)["artifacts"], serde_json::json!(["a.1.1.json", "code.txt"]));
    assert_eq!(fs::read_to_string(root.path().join("code.txt")).unwrap(), "made");
    assert!(agent.try_wait().unwrap().is_none(), "it does not end by itself");
    agent.kill().unwrap();
    agent.wait().unwrap();
}

#[test]
fn a_broken_script_is_refused_before_anything_happens() {
    let test_env = rehearsal(&["id: code"]);
    let flag = script(&test_env, "  coed: [ok]\n  code: [hnag]\n");
    let output = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", &flag]).run();
    assert_eq!(output.code, 2);
    let printed = output_of(&output);
    for text in ["has 2 problems", ":2:3", "did you mean `code`?", ":3:10", "did you mean `hang`?"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    assert!(!test_env.repo().join(".agents").exists());
    let output = test_env.callboard(&["run", "wf.yaml", "--rehearse", "--wrapper", "x"]).run();
    assert_eq!(output.code, 2, "{}", output_of(&output));
}

#[test]
fn a_printed_script_can_be_used_and_is_never_overwritten() {
    let test_env = rehearsal(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    let file = script_file(&test_env).display().to_string();
    let write = || test_env.callboard(&["rehearse-script", "wf.yaml", "--output", &file]).run();
    assert_eq!(write().code, 0);
    let printed = test_env.callboard(&["rehearse-script", "wf.yaml"]).run();
    assert_eq!(printed.stdout, fs::read_to_string(&file).unwrap());
    rehearse(&test_env, &format!("--rehearse={file}"), 0);
    fs::write(&file, "edited for hours").unwrap();
    let again = write();
    assert_eq!(again.code, 3, "{}", output_of(&again));
    assert_eq!(fs::read_to_string(&file).unwrap(), "edited for hours");
}

#[test]
fn the_hidden_rehearsal_command_explains_itself() {
    for arguments in [&["__rehearse"][..], &["__rehearse", "{"], &["__rehearse", r#"{"behaviour":"hang"}"#]] {
        let output = Command::new(CALLBOARD).args(arguments).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(printed.starts_with("error: `__rehearse` is how a rehearsed run"), "{printed}");
    }
}
