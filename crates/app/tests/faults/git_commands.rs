//! Git commands that users type in a working tree while a run is active.

use testkit::TestEnv;

use crate::faults::{status, test_env};

/// Runs `command` while the second step of a run is running, and expects that the run succeeds with all its views.
fn run_continues_after(command: impl FnOnce(&TestEnv)) {
    let test_env = test_env();
    test_env.git(&["branch", "other"]);
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    command(&test_env);
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    // The engine prints `!` before what needs attention, such as a view that someone edited.
    assert!(!session.stderr.contains('!'), "no view was edited: {}", session.stderr);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"]);
    let document = test_env.document("trial");
    assert_eq!(["a", "b", "c"].map(|step| status(&document, step)), ["COMPLETED"; 3]);
    for step in ["a", "b", "c"] {
        let report = test_env.view_path("trial").with_file_name(format!("reports/trial__{step}.json"));
        assert!(report.exists(), "{} is written again", report.display());
    }
    assert!(!test_env.journal("trial").is_empty(), "the store was not touched");
    test_env.expect_no_orphans();
}

#[test]
fn git_clean_removes_the_views_and_not_the_run() {
    run_continues_after(|test_env| {
        test_env.git(&["clean", "-fdx"]);
        assert!(
            !test_env.view_path("trial").exists() && !test_env.repo().join("wf.yaml").exists(),
            "the views and the untracked workflow file are gone"
        );
    });
}

/// With `-f` twice, git also removes untracked directories that are repositories themselves.
#[test]
fn a_forced_git_clean_does_not_remove_the_run() {
    run_continues_after(|test_env| {
        test_env.git(&["clean", "-ffdx"]);
    });
}

#[test]
fn git_stash_removes_the_workflow_file_and_not_the_run() {
    run_continues_after(|test_env| {
        test_env.git(&["stash", "--include-untracked"]);
        assert!(!test_env.repo().join("wf.yaml").exists());
    });
}

#[test]
fn another_branch_is_checked_out_under_a_run() {
    run_continues_after(|test_env| {
        test_env.git(&["checkout", "--quiet", "other"]);
    });
}

#[test]
fn all_views_are_removed_under_a_run() {
    // Moved in one step: the engine may be writing there.
    run_continues_after(|test_env| {
        std::fs::rename(test_env.repo().join(".agents"), test_env.agent_dir().join("removed")).unwrap();
    });
}
