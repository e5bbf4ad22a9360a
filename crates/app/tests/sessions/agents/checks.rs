//! `[checks]`: run by `callboard checks`, and by the engine on merged trees.

use insta::assert_snapshot;
use serde_json::json;
use testkit::TestEnv;

use crate::sessions::test_env;

fn with_checks(text: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("callboard.toml", text);
    test_env
}

#[test]
fn the_checks_of_a_project_are_run_and_a_red_one_is_shown_with_its_output() {
    let test_env = with_checks(
        "[checks]\ntest = ['sh', '-c', 'echo 1 test failed; exit 101']\nlint = { command = ['true'], timeout = '5m' }\n",
    );
    let session = test_env.callboard(&["checks"]).run();
    let logs = session.stdout.lines().find_map(|line| line.trim().strip_prefix("whole output: ")).unwrap();
    assert_eq!(std::fs::read_to_string(logs).unwrap(), "1 test failed\n");
    let directory = std::path::Path::new(logs).parent().unwrap();
    let shown = session.transcript().replace(directory.to_str().unwrap(), "[LOGS]");
    std::fs::remove_dir_all(directory).unwrap();
    assert_snapshot!(shown, @"
    $ callboard checks
    ✗ test failed: exit code 101  sh -c 'echo 1 test failed; exit 101' ([TIME])
        1 test failed
        whole output: [LOGS]/check-1-test.log
    ✓ lint passed  true ([TIME])
    [exit 1]
    ");
    let passed = test_env.callboard(&["checks", "lint", "--json"]).run();
    assert_eq!(passed.code, 0, "{}", passed.transcript());
    let result = &passed.json()["checks"][0];
    assert_eq!((&result["name"], &result["exit_code"]), (&json!("lint"), &json!(0)), "{result:#}");
    assert!(result["tree"].as_str().is_some_and(|tree| tree.len() == 40), "{result:#}");
    let unknown = test_env.callboard(&["checks", "types"]).run();
    assert_snapshot!(unknown.transcript(), @"
    $ callboard checks types
    error: there is no check `types`

    hint: the checks are test, lint
    [exit 2]
    ");
}

#[test]
fn checks_are_detected_and_config_shows_where() {
    let test_env = test_env();
    let none = test_env.callboard(&["checks"]).run();
    assert_eq!(none.code, 2, "{}", none.transcript());
    test_env.write("Makefile", "test:\n\t@echo made\n");
    let rows = test_env.callboard(&["config", "--json"]).run().json();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "checks.test.command").unwrap();
    assert_eq!(row["value"], json!(["make", "test"]));
    let origin = format!("detected in {}", test_env.repo().join("Makefile").display());
    assert_eq!(row["origin"], origin);
}

#[test]
fn an_interrupt_ends_the_check_that_is_running() {
    let test_env = test_env();
    let shared = test_env.agent_dir().display().to_string();
    test_env.write(
        "callboard.toml",
        &format!("[checks]\nslow = ['sh', '-c', 'touch {shared}/started; exec sleep 600']\nnext = ['touch', '{shared}/next']\n"),
    );
    let running = test_env.callboard(&["checks"]).start();
    test_env.wait_for_file("started");
    running.interrupt();
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{}", ended.transcript());
    assert!(!test_env.agent_dir().join("next").exists());
}

/// Makes a workflow of one step in a worktree; its first turn fails the check `test`, which runs `shell_before` first.
fn with_failing_first_turn(shell_before: &str) -> TestEnv {
    let test_env = test_env();
    let line = format!("{shell_before} if grep -q red page.txt; then echo the page is red; exit 7; fi");
    test_env.write("callboard.toml", &format!("[checks]\ntest = ['sh', '-c', '''{line}''']\n"));
    test_env.workflow_yaml(&["id: a, worktree: true"]);
    test_env.script_agent(&[
        "a * do case $STEP_ITERATION in 1) echo red ;; *) echo green ;; esac >page.txt; write_report COMPLETED wrote",
    ]);
    test_env
}

#[test]
fn a_red_check_of_the_merged_tree_sends_the_step_back_with_the_evidence() {
    let test_env = with_failing_first_turn("");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "green\n");
    let prompt =
        std::fs::read_to_string(test_env.attempt_dir("trial", "a", "2.1").join("prompt.md")).unwrap();
    let evidence =
        ["test failed: exit code 7", "if grep -q red page.txt", "the page is red", "the tree fails `test`"];
    for text in evidence {
        assert!(prompt.contains(text), "{text}: {prompt}");
    }
    let log = test_env.attempt_dir("trial", "a.merge", "1.1").join("check-1-test.log");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "the page is red\n");
}

#[test]
fn a_rehearsal_does_not_run_the_checks_of_the_merged_tree() {
    let test_env = with_failing_first_turn("exit 1;");
    let session = test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_merge_whose_engine_was_killed_during_its_checks_is_made_once() {
    let shared = "$CALLBOARD_TEST_SHARED";
    let test_env = with_failing_first_turn(&format!(
        "echo $$ >>{shared}/checks; touch {shared}/started; read go <{shared}/barrier;"
    ));
    let mut barrier = test_env.barrier("barrier");
    let shared = test_env.agent_dir();
    let start =
        |arguments: &[&str]| test_env.callboard(arguments).env("CALLBOARD_TEST_SHARED", &shared).start();
    let agent = test_env.agent_path();
    let engine = start(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", agent.to_str().unwrap()]);
    test_env.wait_for_file("started");
    engine.kill();
    engine.wait();
    std::fs::remove_file(shared.join("started")).unwrap();
    let engine = start(&["resume", "trial"]);
    test_env.wait_for_file("started");
    let pids = std::fs::read_to_string(shared.join("checks")).unwrap();
    let first = pids.lines().next().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the check of the killed engine is alive: {stat}");
    barrier.open();
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let merges = test_env.git(&["log", "--format=%(trailers:key=Callboard-Effect,valueonly)", "main"]);
    let merges: Vec<_> = merges.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(merges, ["trial/a.merge#2"]);
    test_env.expect_no_orphans();
}

#[test]
fn an_interrupt_ends_the_checks_of_a_merge_and_costs_no_attempt() {
    let test_env = with_failing_first_turn(
        "touch \"$CALLBOARD_TEST_SHARED/started\"; read go <\"$CALLBOARD_TEST_SHARED/barrier\";",
    );
    let mut barrier = test_env.barrier("barrier");
    let shared = test_env.agent_dir();
    let agent = test_env.agent_path();
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--wrapper", agent.to_str().unwrap()];
    let engine = test_env.callboard(&arguments).env("CALLBOARD_TEST_SHARED", &shared).start();
    test_env.wait_for_file("started");
    engine.interrupt();
    let ended = engine.wait();
    assert_eq!(ended.code, 130, "{}", ended.transcript());
    barrier.open();
    let ended = test_env.callboard(&["resume", "trial"]).env("CALLBOARD_TEST_SHARED", &shared).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(test_env.git(&["show", "main:page.txt"]), "green\n");
    test_env.expect_no_orphans();
}
