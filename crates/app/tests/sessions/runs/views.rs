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

/// What a reader sees that inotify wakes, until the run is done.
fn seen_by_a_reader() -> Vec<serde_json::Value> {
    let scene = scene();
    scene.workflow_of(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    scene.plan(&["review * gate-failure 1"]);
    let (view, mut seen) = (scene.view("trial"), Vec::new());
    let directory = view.parent().unwrap();
    fs::create_dir_all(directory).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            testkit::until(directory, "completed review", || {
                let document: serde_json::Value = serde_json::from_slice(&fs::read(&view).ok()?).unwrap();
                let is_done = status(&document, "review") == "COMPLETED"
                    && document["steps"]["review"]["iteration_count"] == 1;
                if seen.last() != Some(&document) {
                    seen.push(document);
                }
                is_done.then_some(())
            });
        });
        assert_eq!(scene.run(&[]).run().code, 0);
        reader.join().unwrap();
    });
    seen
}

/// The format names these snapshots. The engine writes them whatever the pace of the view. A reader that is scheduled late
/// may still miss one, so that several runs may be needed.
#[test]
fn a_reader_that_inotify_wakes_sees_the_start_the_failed_gate_and_the_reset() {
    let both =
        |document: &serde_json::Value| ["code", "review"].map(|step| status(document, step).to_owned());
    let mut missing = vec!["start", "gate", "reset"];
    for _ in 0..10 {
        let seen = seen_by_a_reader();
        missing.retain(|snapshot| {
            !seen.iter().any(|document| {
                let review = &document["steps"]["review"];
                let (error, iteration) = (review["last_error"].as_str(), &review["iteration_count"]);
                match *snapshot {
                    "start" => both(document) == ["PENDING", "PENDING"] && *iteration == 0,
                    "gate" => {
                        both(document) == ["COMPLETED", "COMPLETED"]
                            && error == Some("Gate failure: review saw iteration 1")
                    }
                    _ => both(document) == ["PENDING", "PENDING"] && *iteration == 1,
                }
            })
        });
        if missing.is_empty() {
            return;
        }
    }
    panic!("the reader never saw {missing:?}");
}
