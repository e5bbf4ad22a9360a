//! Pipes whose reader exits, bytes that are not UTF-8, very long lists.

use std::fs;

use testkit::TestEnv;

use crate::sessions::{status, test_env};

/// Runs `shell_line`, whose reader closes the pipe after one line. Returns the exit code of `callboard`, which the line
/// writes to `../shared/code`: a file in the agent's directory.
fn run_with_closed_pipe(test_env: &TestEnv, extra_args: &[&str], shell_line: &str) -> i32 {
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(extra_args).in_shell(shell_line).start();
    running.wait_for_stdout("reader gone");
    barrier.open();
    running.wait();
    let code = fs::read_to_string(test_env.agent_dir().join("code")).expect("the shell wrote it");
    code.trim().parse().expect("it is a number")
}

/// Reads one line of a pipe, closes the pipe and prints `reader gone`.
const ONE_LINE_READER: &str = "{ head -n 1; exec </dev/null; echo reader gone; }";

#[test]
fn a_run_continues_when_the_reader_of_its_events_exits() {
    let succeeded = test_env();
    succeeded.workflow(&["a", "b: a"]);
    succeeded.script_agent(&["a * wait barrier"]);
    let line = format!(r#"{{ "$@"; echo $? >../shared/code; }} | {ONE_LINE_READER}"#);
    assert_eq!(run_with_closed_pipe(&succeeded, &["--json"], &line), 0);
    assert_eq!(status(&succeeded.document("trial"), "b"), "COMPLETED");
    let failed = test_env();
    failed.workflow(&["a", "b: a"]);
    failed.script_agent(&["a * wait barrier", "b * exit 1"]);
    assert_eq!(run_with_closed_pipe(&failed, &["--json"], &line), 1, "a closed pipe hides no failure");
    assert_eq!(status(&failed.document("trial"), "b"), "FAILED");
}

#[test]
fn a_run_continues_when_its_messages_have_no_reader() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let line = format!(r#"{{ "$@" 2>&1 >/dev/null; echo $? >../shared/code; }} | {ONE_LINE_READER}"#);
    assert_eq!(run_with_closed_pipe(&test_env, &[], &line), 0);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
}

#[test]
fn a_run_continues_without_standard_streams() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * exit 1"]);
    let session = test_env.run(&[]).in_shell(r#"exec "$@" >&- 2>&-"#).run();
    assert_eq!(session.code, 1);
    assert_eq!(status(&test_env.document("trial"), "b"), "FAILED");
}

#[test]
fn paths_that_are_not_utf_8_are_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    for flag in ["--workdir", "--store"] {
        let line = format!(r#"odd="$(printf '../home/odd\351')"; mkdir -p "$odd"; exec "$@" {flag} "$odd""#);
        let session = test_env.run(&[]).in_shell(&line).run();
        assert_eq!(session.code, 2, "{flag}: {}", session.transcript());
        assert!(session.stderr.contains("is not UTF-8"), "{flag}: {}", session.stderr);
    }
    assert!(test_env.agent_log().started().is_empty());
}

#[test]
fn a_byte_that_is_not_utf_8_in_the_exclude_file_is_kept() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let file = test_env.repo().join(".git/info/exclude");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, b"# caf\xe9").unwrap();
    assert_eq!(test_env.run(&[]).run().code, 0);
    let text = fs::read(&file).unwrap();
    assert!(text.starts_with(b"# caf\xe9\n"), "{text:?}");
    assert!(!test_env.git(&["status", "--porcelain"]).contains(".agents"), "views are excluded");
}

#[test]
fn thousands_of_artifacts_do_not_prevent_the_next_step() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    let report_3000_artifacts = r#"a * do { printf '{"schema":"run_report@v0","run_id":"trial","step_id":"a","agent":"coder","status":"COMPLETED","started_at":"2026-01-02T03:04:05Z","ended_at":"2026-01-02T03:04:06Z","logs":["did a"],"artifacts":['; seq -s , -f "\"made/$(printf '%0100d' 0)-%.0f.txt\"" 3000; printf ']}'; } >"$REPORT_PATH.new"; log_event end "$CALLBOARD_ATTEMPT"; mv "$REPORT_PATH.new" "$REPORT_PATH""#;
    test_env.script_agent(&[report_3000_artifacts, "b * save-input"]);
    let session = test_env.run(&["--max-attempts", "1"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.document("trial")["steps"]["a"]["artifacts"].as_array().map(Vec::len), Some(3000));
    let context = fs::read_to_string(test_env.attempt_dir("trial", "b", "1.1").join("context.json")).unwrap();
    assert!(context.contains("-3000.txt"), "the context has all artifacts");
}
