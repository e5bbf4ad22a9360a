//! `[checks]`: run by hand, and on merged trees.

use insta::assert_snapshot;
use serde_json::json;
use testkit::Scene;

use crate::sessions::scene;

fn with_checks(text: &str) -> Scene {
    let scene = scene();
    scene.write("callboard.toml", text);
    scene
}

#[test]
fn the_checks_of_a_project_are_run_and_a_red_one_is_shown_with_its_output() {
    let scene = with_checks(
        "[checks]\ntest = ['sh', '-c', 'echo 1 test failed; exit 101']\nlint = { command = ['true'], timeout = '5m' }\n",
    );
    let session = scene.callboard(&["checks"]).run();
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
    let passed = scene.callboard(&["checks", "lint", "--json"]).run();
    assert_eq!(passed.code, 0, "{}", passed.transcript());
    let result = &passed.json()["checks"][0];
    assert_eq!((&result["name"], &result["exit_code"]), (&json!("lint"), &json!(0)), "{result:#}");
    assert!(result["tree"].as_str().is_some_and(|tree| tree.len() == 40), "{result:#}");
    let unknown = scene.callboard(&["checks", "types"]).run();
    assert_snapshot!(unknown.transcript(), @"
    $ callboard checks types
    error: there is no check `types`

    hint: the checks are test, lint
    [exit 2]
    ");
}

#[test]
fn checks_are_detected_and_config_shows_where() {
    let scene = scene();
    let none = scene.callboard(&["checks"]).run();
    assert_eq!(none.code, 2, "{}", none.transcript());
    scene.write("Makefile", "test:\n\t@echo made\n");
    let rows = scene.callboard(&["config", "--json"]).run().json();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "checks.test.command").unwrap();
    assert_eq!(row["value"], json!(["make", "test"]));
    let origin = format!("detected in {}", scene.repo().join("Makefile").display());
    assert_eq!(row["origin"], origin);
}

#[test]
fn an_interrupt_ends_the_check_that_is_running() {
    let scene = scene();
    let kit = scene.kit().display().to_string();
    scene.write(
        "callboard.toml",
        &format!("[checks]\nslow = ['sh', '-c', 'touch {kit}/started; exec sleep 600']\nnext = ['touch', '{kit}/next']\n"),
    );
    let running = scene.callboard(&["checks"]).start();
    scene.wait_for_note("started");
    running.interrupt();
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{}", ended.transcript());
    assert!(!scene.kit().join("next").exists());
}

/// A feature that is red in its first turn. `before` is done by the check first.
fn feature(before: &str) -> Scene {
    let scene = scene();
    let line = format!("{before} if grep -q red page.txt; then echo the page is red; exit 7; fi");
    scene.write("callboard.toml", &format!("[checks]\ntest = ['sh', '-c', '''{line}''']\n"));
    scene.workflow_of(&["id: a, worktree: true"]);
    scene.plan(&[
        "a * do case $STEP_ITERATION in 1) echo red ;; *) echo green ;; esac >page.txt; hand_in COMPLETED wrote",
    ]);
    scene
}

#[test]
fn a_red_check_of_the_merged_tree_goes_back_with_the_evidence() {
    let scene = feature("");
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.git(&["show", "main:page.txt"]), "green\n");
    let prompt = std::fs::read_to_string(scene.attempt("trial", "a", "2.1").join("prompt.md")).unwrap();
    let evidence =
        ["test failed: exit code 7", "if grep -q red page.txt", "the page is red", "the tree fails `test`"];
    for text in evidence {
        assert!(prompt.contains(text), "{text}: {prompt}");
    }
    let log = scene.attempt("trial", "a.merge", "1.1").join("check-1-test.log");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "the page is red\n");
}

#[test]
fn a_rehearsal_does_not_run_the_checks_of_the_merged_tree() {
    let scene = feature("exit 1;");
    let session = scene.callboard(&["run", "wf.yaml", "--run-id", "trial", "--rehearse"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_merge_whose_engine_was_killed_during_its_checks_is_made_once() {
    let kit = "$CALLBOARD_TEST_KIT";
    let scene = feature(&format!("echo $$ >>{kit}/checks; touch {kit}/started; read go <{kit}/gate;"));
    let mut gate = scene.gate("gate");
    let kit = scene.kit();
    let start = |arguments: &[&str]| scene.callboard(arguments).env("CALLBOARD_TEST_KIT", &kit).start();
    let agent = scene.agent();
    let engine = start(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", agent.to_str().unwrap()]);
    scene.wait_for_note("started");
    engine.kill();
    engine.wait();
    std::fs::remove_file(kit.join("started")).unwrap();
    let engine = start(&["resume", "trial"]);
    scene.wait_for_note("started");
    let pids = std::fs::read_to_string(kit.join("checks")).unwrap();
    let first = pids.lines().next().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{first}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the check of the killed engine is alive: {stat}");
    gate.open();
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let merges = scene.git(&["log", "--format=%(trailers:key=Callboard-Effect,valueonly)", "main"]);
    let merges: Vec<_> = merges.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(merges, ["trial/a.merge#2"]);
    scene.expect_no_orphans();
}

#[test]
fn an_interrupt_ends_the_checks_of_a_merge_and_costs_no_attempt() {
    let scene = feature("touch \"$CALLBOARD_TEST_KIT/started\"; read go <\"$CALLBOARD_TEST_KIT/gate\";");
    let mut gate = scene.gate("gate");
    let kit = scene.kit();
    let agent = scene.agent();
    let arguments = ["run", "wf.yaml", "--run-id", "trial", "--wrapper", agent.to_str().unwrap()];
    let engine = scene.callboard(&arguments).env("CALLBOARD_TEST_KIT", &kit).start();
    scene.wait_for_note("started");
    engine.interrupt();
    let ended = engine.wait();
    assert_eq!(ended.code, 130, "{}", ended.transcript());
    gate.open();
    let ended = scene.callboard(&["resume", "trial"]).env("CALLBOARD_TEST_KIT", &kit).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(scene.git(&["show", "main:page.txt"]), "green\n");
    scene.expect_no_orphans();
}
