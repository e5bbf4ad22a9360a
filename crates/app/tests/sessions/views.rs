//! Files are views: the store is the truth.

use std::fs;

use insta::assert_snapshot;

use crate::sessions::{scene, status};

#[test]
fn an_edited_view_is_quarantined_and_rewritten() {
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
    ✓ a#1.1 finished [TIME]
    ▸ b#1.1 started
    ✓ b#1.1 finished [TIME]
    ! [E017] another program changed [REPO]/.agents/runs/trial/run_state.json: moved it to [STORE]/quarantine/trial/[HEX]-run_state.json and wrote the view again

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    let kept: Vec<_> = fs::read_dir(scene.store().join("quarantine/trial")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(fs::read_to_string(kept[0].path()).unwrap(), "mine now");
}

#[test]
fn a_view_edited_without_an_engine_is_noticed_by_the_next_one() {
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
    assert!(session.stderr.contains("another program changed"), "{}", session.stderr);
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
}

#[test]
fn a_deleted_view_is_rewritten() {
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

/// An engine can be killed between its last commit and the last view, and a finished run gets no other engine.
#[test]
fn a_refused_resume_rewrites_the_view_of_a_finished_run() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    fs::remove_file(scene.view("trial")).unwrap();
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 3);
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
}
