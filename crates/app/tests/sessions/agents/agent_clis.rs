//! `examples/agents`, run as it stands: its programs are replaced by ones that take the real CLIs' flags.

use std::fs;

use testkit::Scene;

use crate::sessions::{last_error, scene, status};

const CONFIGURATION: &str = include_str!("../../../../../examples/agents/callboard.toml");
const README: &str = include_str!("../../../../../README.md");

/// A repository with the example and the stand-ins for `claude` and `codex`.
fn example(configuration: &str) -> Scene {
    let scene = scene();
    scene.write("callboard.toml", configuration);
    scene.write("workflow.yaml", include_str!("../../../../../examples/agents/workflow.yaml"));
    scene.write("prompts/code.md", include_str!("../../../../../examples/agents/prompts/code.md"));
    scene.write("prompts/review.md", include_str!("../../../../../examples/agents/prompts/review.md"));
    scene.write_program(scene.kit().join("claude"), include_str!("../../agents/claude"));
    scene.write_program(scene.kit().join("codex"), include_str!("../../agents/codex"));
    scene
}

/// Runs the example's workflow with the stand-ins first in PATH.
fn run(scene: &Scene) -> testkit::Session {
    let path = format!("{}:{}", scene.kit().display(), std::env::var("PATH").expect("PATH is set"));
    scene
        .callboard(&["run", "workflow.yaml", "--run-id", "change", "--max-attempts", "1"])
        .env("PATH", path)
        .env("ANTHROPIC_API_KEY", "a")
        .env("OPENAI_API_KEY", "o")
        .env("SECRET", "s")
        .run()
}

fn note(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.home().join(name)).expect("the stand-in wrote it")
}

#[test]
fn claude_code_and_codex_work_with_the_examples_entries() {
    let scene = example(CONFIGURATION);
    let session = run(&scene);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = scene.document("change");
    assert_eq!((status(&document, "code"), status(&document, "review")), ("COMPLETED", "COMPLETED"));
    assert_eq!(document["steps"]["review"]["iteration_count"], 1, "the first review sends the change back");

    assert!(note(&scene, "code.1.prompt").contains("TASK.md"), "the task");
    assert!(note(&scene, "code.1.prompt").contains("## How to report"));
    assert!(note(&scene, "code.2.prompt").contains("the test is missing"), "what the review found");
    assert!(note(&scene, "review.1.prompt").contains("change.txt"), "what the step before made");
    for (step, own, other) in
        [("code", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"), ("review", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")]
    {
        let environment = note(&scene, &format!("{step}.environment"));
        let has = |name: &str| environment.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert!(has(own) && !has(other) && !has("SECRET"), "{environment}");
    }
}

#[test]
fn the_model_of_a_step_reaches_the_cli() {
    let scene = example(CONFIGURATION);
    let workflow = include_str!("../../../../../examples/agents/workflow.yaml");
    scene.write("workflow.yaml", &workflow.replace("    prompt:", "    model: large one\n    prompt:"));
    let session = run(&scene);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(note(&scene, "models").lines().collect::<Vec<_>>(), ["large one"; 4]);
}

#[test]
fn each_flag_that_lets_an_agent_report_is_needed() {
    let parts = [
        ("Bash(callboard report *),", "code"),
        (" --add-dir \"${REPORT_PATH%/*}\"", "review"),
        (" -c allow_login_shell=false", "review"),
    ];
    for (part, step) in parts {
        assert!(CONFIGURATION.contains(part), "{part}");
        let scene = example(&CONFIGURATION.replace(part, ""));
        assert_eq!(run(&scene).code, 1, "without `{part}`");
        let error = last_error(&scene.document("change"), step).to_owned();
        assert!(error.contains("without a report"), "without `{part}`: {error}");
    }
}

/// Returns the first code block of the README in this language.
fn readme(language: &str) -> &'static str {
    let (_, after) = README.split_once(&format!("```{language}\n")).expect("the README has one");
    after.split_once("```").expect("a block ends").0
}

#[test]
fn the_readmes_first_workflow_is_valid_and_can_be_rehearsed() {
    let scene = example("");
    scene.write("wf.yaml", readme("yaml"));
    let checked = scene.callboard(&["check", "wf.yaml"]).run();
    assert_eq!(checked.code, 0, "{}", checked.transcript());
    let rehearsed = scene.callboard(&["run", "wf.yaml", "--rehearse"]).run();
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.transcript());
}

#[test]
fn the_readme_shows_the_examples_entries() {
    let without_comments = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    };
    let shown = readme("toml");
    assert_eq!(without_comments(shown).trim(), without_comments(CONFIGURATION).trim());
}
