//! `rm`, and runs whose files were deleted.

use std::fs;

use insta::assert_snapshot;

use crate::sessions::test_env;

#[test]
fn a_removed_run_is_gone_with_its_files_and_its_name_is_free() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let refused = test_env.run(&[]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(
        refused.stderr.contains("run `callboard rm trial` to remove it first"),
        "{}",
        refused.transcript()
    );
    assert_eq!(test_env.callboard(&["rm", "tri"]).run().code, 2, "the whole name is needed");
    let removed = test_env.callboard(&["rm", "trial"]).run();
    assert_eq!(removed.code, 0, "{}", removed.transcript());
    assert!(!test_env.view_path("trial").parent().unwrap().exists());
    assert!(!test_env.store_dir().join("attempts/trial").exists());
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 2);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.1"]);
    assert_eq!(test_env.callboard(&["recover", "--dry-run"]).run().code, 0);
}

#[test]
fn a_changed_view_that_is_not_text_is_kept() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::write(test_env.view_path("trial"), b"\xff\xfe").unwrap();
    let removed = test_env.callboard(&["rm", "trial"]).run();
    assert_eq!(removed.code, 0, "{}", removed.transcript());
    assert!(removed.stderr.contains("another program has changed it"), "{}", removed.transcript());
    assert_eq!(fs::read(test_env.view_path("trial")).unwrap(), b"\xff\xfe");
}

#[test]
fn a_view_that_cannot_be_read_is_kept_with_the_reason() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::remove_file(test_env.view_path("trial")).unwrap();
    fs::create_dir(test_env.view_path("trial")).unwrap();
    let removed = test_env.callboard(&["rm", "trial"]).run();
    assert_eq!(removed.code, 0, "{}", removed.transcript());
    assert!(removed.stderr.contains("run_state.json`: cannot read it: "), "{}", removed.transcript());
    assert!(test_env.view_path("trial").is_dir());
}

#[test]
fn a_live_or_waiting_run_is_not_removed_until_it_is_stopped() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let refused = test_env.callboard(&["rm", "trial"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("already has an engine"), "{}", refused.transcript());
    running.kill();
    running.wait();
    assert_snapshot!(test_env.callboard(&["rm", "trial"]).run().transcript(), @"
    $ callboard rm trial
    error: cannot remove run `trial`
      caused by: its attempts may be alive: `a#1.1`

    hint: run `callboard stop trial` first
    [exit 3]
    ");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(test_env.callboard(&["rm", "trial"]).run().code, 0);

    test_env.write("ask.yaml", "name: ask\nsteps: [{id: approve, agent: person}]");
    let ask = test_env.callboard(&["run", "ask.yaml", "--run-id", "ask", "--exit-when-waiting"]).run();
    assert_eq!(ask.code, 4, "{}", ask.transcript());
    assert_snapshot!(test_env.callboard(&["rm", "ask"]).run().transcript(), @"
    $ callboard rm ask
    error: cannot remove run `ask`
      caused by: it waits for a person

    hint: run `callboard inbox` to see for what
    hint: run `callboard stop ask` first
    [exit 3]
    ");
    test_env.expect_no_orphans();
}

#[test]
fn deleting_the_directory_of_a_run_deletes_its_view_and_ls_says_so() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::remove_dir_all(test_env.view_path("trial").parent().unwrap()).unwrap();
    let listed = test_env.callboard(&["ls"]).run();
    assert!(listed.stdout.contains("trial  succeeded"), "{}", listed.transcript());
    assert_snapshot!(listed.stderr.replace(test_env.repo().to_str().unwrap(), "[REPO]"), @"note: the files of run `trial` in `[REPO]/.agents/runs/trial` are gone, the run is not: `callboard show trial` shows it, `callboard rm trial` removes it");
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json()[0]["files_deleted"], true);
    assert_eq!(test_env.run(&[]).run().code, 3, "the id is still in use");
    assert_eq!(test_env.callboard(&["rm", "trial"]).run().code, 0);
    assert_eq!(test_env.run(&[]).run().code, 0);
}
