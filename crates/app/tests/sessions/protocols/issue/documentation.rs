//! Runs the documented examples of `issue`: the rehearsal script, and the GitHub workflow of `docs/github-actions.md`.

use std::fs;

use protocol::located::{Node, Problems};
use serde_json::Value;

use super::IssueEnv;

const EXAMPLE_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/issue-rehearsal.yaml");
const PAGE: &str = include_str!("../../../../../../docs/github-actions.md");

#[test]
fn the_example_script_asks_a_question_is_sent_back_twice_and_succeeds() {
    let issue = IssueEnv::new();
    let file = issue.shared_path("tracker/issue.json").display().to_string();
    let script = format!("--rehearse={EXAMPLE_SCRIPT}");
    let session = issue.test_env.callboard(&["issue", &file, "--tracker", "files", &script]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = issue.document();
    assert_eq!(document["pipeline"]["attempt"], 3);
    assert_eq!(document["communication"]["questions"][0]["answer"], "The file `light`.");
    let feedback = |index: usize| document["attempts"][index]["review"]["feedback_for_writer"].clone();
    assert_eq!(feedback(0), "the required test `light.test` is not part of the change");
    assert_eq!(feedback(1), "Say in the test what it is about.");
}

/// Returns the GitHub workflow of the page.
fn workflow() -> Value {
    let (_, after) = PAGE.split_once("```yaml\n").unwrap();
    let (text, _) = after.split_once("```").unwrap();
    let mut problems = Problems::default();
    let node = Node::from_yaml(text, &mut problems).unwrap();
    assert!(problems.into_sorted().is_empty(), "the workflow is no YAML");
    node.to_json()
}

#[test]
fn the_workflow_for_github_actions_runs_with_gh() {
    let workflow = workflow();
    let job = &workflow["jobs"]["issue"];
    assert!(job["if"].as_str().unwrap().contains("author_association"), "trusted authors only: {job}");
    let steps = job["steps"].as_array().unwrap();
    let script_of_step =
        |name: &str| steps.iter().find(|step| step["name"] == name).unwrap()["run"].as_str().unwrap();
    let package = script_of_step("Install")
        .split_whitespace()
        .find_map(|word| word.strip_prefix("callboard-source/"))
        .unwrap();
    assert!(
        env!("CARGO_MANIFEST_DIR").ends_with(package),
        "the program is in another folder than `{package}`"
    );
    let source = steps.iter().find(|step| step["with"]["path"] == "callboard-source").unwrap();
    assert_eq!(source["with"]["repository"], "${{ vars.CALLBOARD_REPOSITORY }}");
    let script = script_of_step("Run");
    assert!(!script.contains("${{"), "nothing of the event is pasted into the script: {script}");
    let issue = IssueEnv::new();
    issue.install_gh();
    let agent = issue.shared_path("issue-agent.sh").display().to_string();
    let adapters = ["triage", "analyst", "writer", "reviewer"]
        .map(|name| format!("[adapters.{name}]\nwrapper = '{agent}'\n"))
        .concat();
    issue
        .test_env
        .write("callboard.toml", &format!("[checks]\ntest = ['cmp', 'light', 'light.test']\n{adapters}"));
    std::os::unix::fs::symlink(issue.test_env.program(), issue.shared_path("bin/callboard")).unwrap();
    // GitHub's runner, too, writes the script to a file and executes it with a shell that stops at the first error.
    let file = issue.shared_path("run.sh");
    fs::write(&file, script).unwrap();
    let callboard = issue.test_env.callboard(&[]).in_shell(&format!("exec sh -e {}", file.display()));
    let callboard = callboard.env("ISSUE", "42").env("GITHUB_WORKSPACE", issue.test_env.repo());
    let session = issue.in_gh_environment(callboard).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(issue.document()["commit"]["pr_url"], "https://github.com/o/r/pull/7");
    let config = fs::read_to_string(issue.test_env.home().join(".gitconfig")).unwrap();
    assert!(config.contains(issue.test_env.repo().to_str().unwrap()), "safe.directory: {config}");
}
