//! The files are views: whatever happens to them, the store knows better.

use std::fs;

use insta::assert_snapshot;

use crate::{scene, status};

#[test]
fn a_view_edited_by_hand_is_set_aside_and_written_anew() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    fs::write(scene.view("trial"), "mine now").unwrap();
    gate.open();
    let session = running.wait();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [KIT]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ✓ a#1.1 done [TIME]
    ▸ b#1.1 started
    ✓ b#1.1 done [TIME]
    ! [E017] [REPO]/.agents/runs/trial/run_state.json was changed by somebody else; it is kept as [STORE]/quarantine/trial/[HEX]-run_state.json and written anew

    succeeded run `trial`: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    let kept: Vec<_> = fs::read_dir(scene.store().join("quarantine/trial")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read_to_string(kept[0].path()).unwrap(), "mine now");
}

#[test]
fn a_view_edited_while_nobody_runs_is_noticed_by_the_next_engine() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    fs::write(scene.view("trial"), "{}").unwrap();
    scene.plan(&[]);
    let session = scene.callboard(&["resume"]).run();
    assert_eq!(session.code, 0);
    assert!(session.stderr.contains("was changed by somebody else"), "{}", session.stderr);
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
}

#[test]
fn a_view_that_was_deleted_comes_back() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("b#1.1");
    fs::remove_dir_all(scene.repo().join(".agents")).unwrap();
    gate.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
}

/// An engine can be killed between its last commit and the last view. Nobody else will ever be engine of that run.
#[test]
fn a_finished_runs_view_is_made_good_by_a_resume_that_is_refused() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    fs::remove_file(scene.view("trial")).unwrap();
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 3);
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
}
