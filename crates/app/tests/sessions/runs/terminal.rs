//! What a user at a terminal sees and types. Tests named `needs_script_…` use the program `script` to get a terminal.

use std::fs;

use crate::sessions::{status, test_env};

#[test]
fn needs_script_a_running_step_has_a_line_with_its_last_output() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let run = test_env.run(&[]).on_terminal();
    let running = run.start();
    running.wait_for_stdout("a at work");
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.stdout);
    assert!(session.stdout.contains("\u{1b}["), "the progress display is drawn: {:?}", session.stdout);
    assert!(session.stdout.contains("1 of 1 steps done"), "{:?}", session.stdout);
}

#[test]
fn needs_script_ctrl_c_on_the_keyboard_reaches_the_engine_and_not_the_agents() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let run = test_env.run(&[]).on_terminal();
    let mut running = run.start();
    running.wait_for_stdout("a at work");
    running.press("\u{3}");
    let session = running.wait();
    assert_eq!(session.code, 130, "{:?}", session.stdout);
    assert!(
        !session.stdout.contains("^C"),
        "an echoed ^C moves the cursor, which the display does not know: {:?}",
        session.stdout
    );
    assert_eq!(status(&test_env.document("trial"), "a"), "PENDING");
    let exit = fs::read_to_string(test_env.attempt_dir("trial", "a", "1.1").join("exit.json")).unwrap();
    let exit: serde_json::Value = serde_json::from_str(&exit).unwrap();
    // SIGTERM (15) is from the engine. The key itself would have sent SIGINT (2).
    assert_eq!(exit["status"]["signalled"]["signal"], 15, "{exit}");
    test_env.expect_no_orphans();
}

#[test]
fn needs_script_a_report_cannot_send_escape_sequences_to_the_terminal() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let agent = test_env.write_program(
        "agent.sh",
        r#"#!/bin/sh
cat >"$REPORT_PATH" <<END
{"schema":"run_report@v0","run_id":"$RUN_ID","step_id":"$STEP_ID","agent":"$AGENT_ID","status":"FAILED",
"started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:00:00Z","artifacts":["x\u001b]0;title\u0007"],
"metrics":{"\u001b]0;title\u0007":1},"logs":["first\u001b]0;title\u0007\u001b[2J\u202e"]}
END
"#,
    );
    let agent = agent.to_str().unwrap();
    let run = ["run", "wf.yaml", "--run-id", "trial", "--max-attempts", "1", "--wrapper", agent];
    let inspecting: [&[&str]; 7] = [
        &["show", "trial"],
        &["log", "trial"],
        &["log", "trial", "--full"],
        &["watch", "trial"],
        &["diff", "trial", "1", "3"],
        &["prompt", "trial", "a"],
        &["graph", "trial"],
    ];
    for arguments in std::iter::once(run.as_slice()).chain(inspecting) {
        let call = test_env.callboard(arguments).on_terminal();
        let shown = call.run();
        for sequence in ["\u{1b}]", "\u{7}", "\u{1b}[2J", "\u{202e}"] {
            assert!(!shown.stdout.contains(sequence), "{arguments:?} {sequence:?}: {:?}", shown.stdout);
        }
    }
}
