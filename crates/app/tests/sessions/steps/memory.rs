//! `--memory`: memory updates of reports go to `AGENTS.md`.

use std::fs;

use testkit::TestEnv;

use crate::sessions::test_env;

/// Makes a workflow whose agents report one valid and one invalid memory update.
fn with_updates() -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: docs, needs: [code]"]);
    let updates = r#"[{"scope": ".", "section": "Build", "entry": "Run `just test` before each commit"}, {"entry": "short"}]"#;
    test_env.script_agent(&[&format!(
        "* * do extra_fields=', \"memory_updates\": {updates}'; write_report COMPLETED did"
    )]);
    test_env
}

#[test]
fn memory_updates_are_added_once_and_worthless_ones_refused() {
    let test_env = with_updates();
    let session = test_env.run(&["--memory"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let file = fs::read_to_string(test_env.repo().join("AGENTS.md")).unwrap();
    assert_eq!(file, "## Build\n\n- Run `just test` before each commit\n");
    assert!(
        session.stderr.contains("memory update `short`: it has 5 characters, not 15 to 150"),
        "{}",
        session.transcript()
    );
}

#[test]
fn without_the_flag_a_note_says_that_memory_updates_were_not_applied() {
    let test_env = with_updates();
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!test_env.repo().join("AGENTS.md").exists());
    assert!(
        session.stderr.contains("2 memory updates were not applied: `--memory` was not given"),
        "{}",
        session.transcript()
    );
}

#[test]
fn in_a_worktree_memory_updates_are_committed() {
    let test_env = with_updates();
    // One step only: a later step would commit a file that the engine left uncommitted.
    test_env.workflow_yaml(&["id: code"]);
    let session = test_env.run(&["--memory", "--git-worktree"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let file = test_env.git(&["show", "agents/run-trial:AGENTS.md"]);
    assert!(file.contains("- Run `just test` before each commit"), "{file}");
}
