//! Git commands that users type in a working tree while a run is active.

use testkit::Scene;

use crate::faults::{scene, status};

/// Does `what` while a run's first step is running, then lets the run continue.
fn run_continues_after(what: impl FnOnce(&Scene)) {
    let scene = scene();
    scene.git(&["branch", "other"]);
    scene.workflow(&["a", "b: a", "c: b"]);
    scene.plan(&["b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    what(&scene);
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!session.stderr.contains('!'), "no view was edited: {}", session.stderr);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"]);
    let document = scene.document("trial");
    assert_eq!(["a", "b", "c"].map(|step| status(&document, step)), ["COMPLETED"; 3]);
    for step in ["a", "b", "c"] {
        let report = scene.view("trial").with_file_name(format!("reports/trial__{step}.json"));
        assert!(report.exists(), "{} is written anew", report.display());
    }
    assert!(!scene.journal("trial").is_empty(), "the store was not touched");
    scene.expect_no_orphans();
}

#[test]
fn git_clean_removes_the_views_and_not_the_run() {
    run_continues_after(|scene| {
        scene.git(&["clean", "-fdx"]);
        assert!(!scene.view("trial").exists() && !scene.repo().join("wf.yaml").exists(), "it was thorough");
    });
}

#[test]
fn a_forced_git_clean_does_not_remove_the_run() {
    run_continues_after(|scene| {
        scene.git(&["clean", "-ffdx"]);
    });
}

#[test]
fn git_stash_removes_the_workflow_file_and_not_the_run() {
    run_continues_after(|scene| {
        scene.git(&["stash", "--include-untracked"]);
        assert!(!scene.repo().join("wf.yaml").exists());
    });
}

#[test]
fn another_branch_is_checked_out_under_a_run() {
    run_continues_after(|scene| {
        scene.git(&["checkout", "--quiet", "other"]);
    });
}

#[test]
fn all_views_are_removed_under_a_run() {
    // Moved in one step: the engine may be writing there.
    run_continues_after(|scene| {
        std::fs::rename(scene.repo().join(".agents"), scene.kit().join("removed")).unwrap();
    });
}
