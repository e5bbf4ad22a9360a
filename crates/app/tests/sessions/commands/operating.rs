//! The commands of `docs/operating.md` about stuck workflows and torn files, and those of the format's manual, as written.

use std::fs;

use testkit::{Scene, Session};

use crate::sessions::{scene, status};

const MANUAL: &str = include_str!("../../../../../docs/operating.md");

const WORKFLOW: &str = "\
name: trial
steps:
  - {id: planning, agent: coder, prompt: task.md}
  - {id: coding, agent: coder, prompt: task.md, needs: [planning]}
  - {id: code_review, agent: coder, prompt: task.md, needs: [coding], loop_back_to: coding}
  - {id: approval, agent: coder, prompt: task.md, needs: [code_review], human_in_the_loop: true}
  - {id: ship, agent: coder, prompt: task.md, needs: [approval]}
";

/// A run that looped back once and waits for a person.
fn waiting() -> Scene {
    let scene = scene();
    scene.write("wf.yaml", WORKFLOW);
    scene.write_program("agent.sh", &format!("#!/bin/sh\nexec {} \"$@\"\n", scene.agent().display()));
    scene.plan(&["code_review * gate-failure 1"]);
    let session = scene.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    scene
}

/// Runs a line as the user types it.
fn typed(scene: &Scene, line: &str) -> Session {
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", scene.kit().display());
    scene.callboard(&[]).in_shell(line).env("PATH", path).run()
}

/// Returns the commands of a section, in their order.
fn commands(section: &str) -> Vec<String> {
    let (_, text) = MANUAL.split_once(&format!("\n## {section}\n")).expect("the manual has it");
    let text = text.split_once("\n## ").map_or(text, |(text, _)| text);
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let filled = lines.map(|line| {
        line.replace("RUN/STEP", "trial/approval").replace("RUN", "trial").replace("STEP", "coding")
    });
    filled.collect()
}

#[test]
fn each_question_about_a_stuck_workflow_has_a_command() {
    let scene = waiting();
    let commands = commands("A stuck workflow, question by question");
    let mut shown = String::new();
    for line in &commands {
        let session = typed(&scene, line);
        let expected = if line.contains("--exit-when-waiting") { 4 } else { 0 };
        // The answer completes the step, so `resume` has nothing to wait for.
        let expected = if line.contains("resume") { 0 } else { expected };
        assert_eq!(session.code, expected, "{line}: {}", session.transcript());
        shown.push_str(&session.stdout);
    }
    assert_eq!(commands.len(), 14, "{commands:#?}");
    assert!(shown.contains("\"approval\": \"WAITING_ON_HUMAN\""), "{shown}");
    assert!(shown.contains("\"iterations\": 1"), "{shown}");
    assert!(shown.contains("gate code_review failed"), "{shown}");
}

#[test]
fn a_torn_view_is_kept_checked_and_written_again_and_the_run_can_be_removed() {
    let scene = waiting();
    let whole = scene.document("trial");
    let torn = fs::read_to_string(scene.view("trial")).unwrap();
    fs::write(scene.view("trial"), &torn[..torn.len() / 2]).unwrap();
    for line in commands("A torn or edited run_state.json") {
        let session = typed(&scene, &line.replace("NEW", "second"));
        let expected = match line.split(' ').nth(1).unwrap() {
            "check" => 2,
            "resume" | "run" => 4,
            _ => 0,
        };
        assert_eq!(session.code, expected, "{line}: {}", session.transcript());
        if line.contains("resume") {
            assert_eq!(scene.document("trial")["steps"], whole["steps"], "the view is whole again");
            assert!(session.stderr.contains("quarantine"), "{}", session.transcript());
        }
    }
    assert!(scene.repo().join("fresh/.agents/runs/trial/run_state.json").exists());
    assert!(!scene.view("trial").exists(), "the run was removed");
    assert_eq!(status(&scene.document("second"), "approval"), "WAITING_ON_HUMAN");
}

/// The commands of the format's own manual, with `callboard` in place of its program.
#[test]
fn the_commands_of_the_format_work_as_written() {
    let scene = waiting();
    let repo = scene.repo().display();
    let resume =
        format!("callboard run --repo {repo} --workflow wf.yaml --wrapper agent.sh --start-at-step coding");
    let session = typed(&scene, &format!("{resume} --pause-for-human-input --exit-when-waiting"));
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert_eq!(scene.document("trial")["steps"]["planning"]["attempts"], 1, "completed upstream steps stay");
    assert!(scene.attempt("trial", "coding", "3.1").exists(), "{}", session.transcript());
    let view = "cat .agents/runs/trial/run_state.json | jq";
    for (filter, expected) in [
        (".", "\"workflow_name\": \"trial\""),
        ("'.steps.coding'", "\"status\": \"COMPLETED\""),
        ("'.steps | to_entries | map(select(.value.status == \"FAILED\"))'", "[]"),
        ("'.steps | to_entries | map({key: .key, iterations: .value.iteration_count})'", "\"iterations\": 0"),
    ] {
        let session = typed(&scene, &format!("{view} {filter}"));
        assert_eq!(session.code, 0, "{filter}: {}", session.transcript());
        assert!(session.stdout.contains(expected), "{filter}: {}", session.stdout);
    }
    let fresh = format!(
        "callboard run --repo {repo} --workflow wf.yaml --wrapper agent.sh --run-id clean --exit-when-waiting"
    );
    assert_eq!(typed(&scene, &fresh).code, 4);
    assert_eq!(typed(&scene, "cd .agents/runs/clean && cp run_state.json run_state.json.bak").code, 0);
}
