//! Runs the commands of `docs/operating.md` about stuck workflows and torn files as they are written there, and the commands of
//! the manual of the original of `steps`.

use std::fs;

use testkit::{CallOutput, TestEnv};

use crate::sessions::{status, test_env};

const OPERATING_PAGE: &str = include_str!("../../../../../docs/operating.md");

const WORKFLOW: &str = "\
name: trial
steps:
  - {id: planning, agent: coder, prompt: task.md}
  - {id: coding, agent: coder, prompt: task.md, needs: [planning]}
  - {id: code_review, agent: coder, prompt: task.md, needs: [coding], loop_back_to: coding}
  - {id: approval, agent: coder, prompt: task.md, needs: [code_review], human_in_the_loop: true}
  - {id: ship, agent: coder, prompt: task.md, needs: [approval]}
";

/// Returns a test environment whose run `trial` looped back once and waits for a person.
fn env_with_waiting_run() -> TestEnv {
    let test_env = test_env();
    test_env.write("wf.yaml", WORKFLOW);
    test_env
        .write_program("agent.sh", &format!("#!/bin/sh\nexec {} \"$@\"\n", test_env.agent_path().display()));
    test_env.script_agent(&["code_review * gate-failure 1"]);
    let session = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    test_env
}

/// Runs a shell line with `callboard` on PATH.
fn run_in_shell(test_env: &TestEnv, line: &str) -> CallOutput {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", test_env.agent_dir().display());
    test_env.callboard(&[]).in_shell(line).env("PATH", path).run()
}

/// Returns the commands of a section of the page, in their order, with RUN and STEP filled in.
fn commands(section: &str) -> Vec<String> {
    let (_, text) =
        OPERATING_PAGE.split_once(&format!("\n## {section}\n")).expect("the page has this section");
    let text = text.split_once("\n## ").map_or(text, |(text, _)| text);
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let filled = lines.map(|line| {
        line.replace("RUN/STEP", "trial/approval").replace("RUN", "trial").replace("STEP", "coding")
    });
    filled.collect()
}

#[test]
fn each_question_about_a_stuck_workflow_has_a_command() {
    let test_env = env_with_waiting_run();
    let commands = commands("A stuck workflow, question by question");
    let mut output = String::new();
    for line in &commands {
        let session = run_in_shell(&test_env, line);
        // An engine exits with 4 if only a person can move the run. The engine of `resume` does not wait, because the command
        // `answer` before it has completed the step that asks.
        let waits = line.contains("--exit-when-waiting") && !line.contains("resume");
        let expected = if waits { 4 } else { 0 };
        assert_eq!(session.code, expected, "{line}: {}", session.transcript());
        output.push_str(&session.stdout);
    }
    assert_eq!(commands.len(), 14, "{commands:#?}");
    assert!(output.contains("\"approval\": \"WAITING_ON_HUMAN\""), "{output}");
    assert!(output.contains("\"iterations\": 1"), "{output}");
    assert!(output.contains("gate code_review failed"), "{output}");
}

#[test]
fn a_torn_view_is_kept_checked_and_written_again_and_the_run_can_be_removed() {
    let test_env = env_with_waiting_run();
    let before = test_env.document("trial");
    let text = fs::read_to_string(test_env.view_path("trial")).unwrap();
    fs::write(test_env.view_path("trial"), &text[..text.len() / 2]).unwrap();
    for line in commands("A torn or edited run_state.json") {
        let session = run_in_shell(&test_env, &line.replace("NEW", "second"));
        let expected = match line.split(' ').nth(1).unwrap() {
            "check" => 2,
            "resume" | "run" => 4,
            _ => 0,
        };
        assert_eq!(session.code, expected, "{line}: {}", session.transcript());
        if line.contains("resume") {
            assert_eq!(test_env.document("trial")["steps"], before["steps"], "the view is whole again");
            assert!(session.stderr.contains("quarantine"), "{}", session.transcript());
        }
    }
    // The page's `export` writes to `fresh`.
    assert!(test_env.repo().join("fresh/.agents/runs/trial/run_state.json").exists());
    assert!(!test_env.view_path("trial").exists(), "the run was removed");
    assert_eq!(status(&test_env.document("second"), "approval"), "WAITING_ON_HUMAN");
}

/// `callboard` takes the place of the original's program.
#[test]
fn the_commands_of_the_original_manual_work_as_written() {
    let test_env = env_with_waiting_run();
    let repo = test_env.repo().display();
    let start_at_step =
        format!("callboard run --repo {repo} --workflow wf.yaml --wrapper agent.sh --start-at-step coding");
    let session =
        run_in_shell(&test_env, &format!("{start_at_step} --pause-for-human-input --exit-when-waiting"));
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert_eq!(
        test_env.document("trial")["steps"]["planning"]["attempts"],
        1,
        "completed upstream steps stay"
    );
    // Turn 2 was after the loop-back.
    assert!(test_env.attempt_dir("trial", "coding", "3.1").exists(), "{}", session.transcript());
    let read_view = "cat .agents/runs/trial/run_state.json | jq";
    for (filter, expected) in [
        (".", "\"workflow_name\": \"trial\""),
        ("'.steps.coding'", "\"status\": \"COMPLETED\""),
        ("'.steps | to_entries | map(select(.value.status == \"FAILED\"))'", "[]"),
        ("'.steps | to_entries | map({key: .key, iterations: .value.iteration_count})'", "\"iterations\": 0"),
    ] {
        let session = run_in_shell(&test_env, &format!("{read_view} {filter}"));
        assert_eq!(session.code, 0, "{filter}: {}", session.transcript());
        assert!(session.stdout.contains(expected), "{filter}: {}", session.stdout);
    }
    let new_run = format!(
        "callboard run --repo {repo} --workflow wf.yaml --wrapper agent.sh --run-id clean --exit-when-waiting"
    );
    assert_eq!(run_in_shell(&test_env, &new_run).code, 4);
    assert_eq!(
        run_in_shell(&test_env, "cd .agents/runs/clean && cp run_state.json run_state.json.bak").code,
        0
    );
}
