//! `examples/agents` and the README's entries, with stand-ins for `claude` and `codex` that accept only the real CLIs' flags.

use std::fs;

use testkit::TestEnv;

use crate::sessions::{last_error, status, test_env};

const CONFIGURATION: &str = include_str!("../../../../../examples/agents/callboard.toml");
const README: &str = include_str!("../../../../../README.md");

/// Makes a repository with the example and the stand-ins for `claude` and `codex`.
fn example(configuration: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("callboard.toml", configuration);
    test_env.write("workflow.yaml", include_str!("../../../../../examples/agents/workflow.yaml"));
    test_env.write("prompts/code.md", include_str!("../../../../../examples/agents/prompts/code.md"));
    test_env.write("prompts/review.md", include_str!("../../../../../examples/agents/prompts/review.md"));
    test_env.write_program(test_env.agent_dir().join("claude"), include_str!("../../agents/claude"));
    test_env.write_program(test_env.agent_dir().join("codex"), include_str!("../../agents/codex"));
    test_env
}

/// Runs the example's workflow with the stand-ins first in PATH.
fn run(test_env: &TestEnv) -> testkit::CallOutput {
    let path = format!("{}:{}", test_env.agent_dir().display(), std::env::var("PATH").expect("PATH is set"));
    test_env
        .callboard(&["run", "workflow.yaml", "--run-id", "change", "--max-attempts", "1"])
        .env("PATH", path)
        .env("ANTHROPIC_API_KEY", "a")
        .env("OPENAI_API_KEY", "o")
        .env("SECRET", "s")
        .run()
}

/// Reads a file that a stand-in wrote.
fn stand_in_file(test_env: &TestEnv, name: &str) -> String {
    fs::read_to_string(test_env.home().join(name)).expect("the stand-in wrote it")
}

#[test]
fn claude_code_and_codex_work_with_the_examples_entries() {
    let test_env = example(CONFIGURATION);
    let session = run(&test_env);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = test_env.document("change");
    assert_eq!((status(&document, "code"), status(&document, "review")), ("COMPLETED", "COMPLETED"));
    assert_eq!(document["steps"]["review"]["iteration_count"], 1, "the first review sends the change back");

    assert!(stand_in_file(&test_env, "code.1.prompt").contains("TASK.md"), "the task");
    assert!(stand_in_file(&test_env, "code.1.prompt").contains("## How to report"));
    assert!(
        stand_in_file(&test_env, "code.2.prompt").contains("the test is missing"),
        "what the review found"
    );
    assert!(stand_in_file(&test_env, "review.1.prompt").contains("change.txt"), "what the step before made");
    for (step, own, other) in
        [("code", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"), ("review", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")]
    {
        let environment = stand_in_file(&test_env, &format!("{step}.environment"));
        let has = |name: &str| environment.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert!(has(own) && !has(other) && !has("SECRET"), "{environment}");
    }
}

#[test]
fn the_model_of_a_step_reaches_the_cli() {
    let test_env = example(CONFIGURATION);
    let workflow = include_str!("../../../../../examples/agents/workflow.yaml");
    test_env.write("workflow.yaml", &workflow.replace("    prompt:", "    model: large one\n    prompt:"));
    let session = run(&test_env);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(stand_in_file(&test_env, "models").lines().collect::<Vec<_>>(), ["large one"; 4]);
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
        let test_env = example(&CONFIGURATION.replace(part, ""));
        assert_eq!(run(&test_env).code, 1, "without `{part}`");
        let error = last_error(&test_env.document("change"), step).to_owned();
        assert!(error.contains("without a report"), "without `{part}`: {error}");
    }
}

/// Returns the first code block of the README in this language.
fn readme_block(language: &str) -> &'static str {
    let (_, after) = README.split_once(&format!("```{language}\n")).expect("the README has one");
    after.split_once("```").expect("a block ends").0
}

#[test]
fn the_readmes_first_workflow_is_valid_and_can_be_rehearsed() {
    let test_env = example("");
    test_env.write("wf.yaml", readme_block("yaml"));
    let checked = test_env.callboard(&["check", "wf.yaml"]).run();
    assert_eq!(checked.code, 0, "{}", checked.transcript());
    let rehearsed = test_env.callboard(&["run", "wf.yaml", "--rehearse"]).run();
    assert_eq!(rehearsed.code, 0, "{}", rehearsed.transcript());
}

#[test]
fn the_readme_shows_the_examples_entries() {
    let without_comments = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    };
    let shown = readme_block("toml");
    assert_eq!(without_comments(shown).trim(), without_comments(CONFIGURATION).trim());
}
