//! What a person at a terminal sees and types.

use crate::{scene, status};

#[test]
fn a_running_step_has_a_line_with_its_last_output() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let Some(run) = scene.run(&[]).on_terminal() else {
        eprintln!("SKIPPED: there is no `script` here");
        return;
    };
    let running = run.start();
    running.wait_until_it_shows("a at work");
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.stdout);
    assert!(session.stdout.contains("\u{1b}["), "it is drawn: {:?}", session.stdout);
    assert!(session.stdout.contains("1 of 1 steps done"), "{:?}", session.stdout);
}

#[test]
fn ctrl_c_on_the_keyboard_reaches_the_engine_and_not_the_agents() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * hang"]);
    let Some(run) = scene.run(&[]).on_terminal() else {
        eprintln!("SKIPPED: there is no `script` here");
        return;
    };
    let mut running = run.start();
    running.wait_until_it_shows("a at work");
    running.press("\u{3}");
    let session = running.wait();
    assert_eq!(session.code, 130, "{:?}", session.stdout);
    assert_eq!(status(&scene.document("trial"), "a"), "PENDING");
    let exit = std::fs::read_to_string(scene.attempt("trial", "a", "1.1").join("exit.json")).unwrap();
    let exit: serde_json::Value = serde_json::from_str(&exit).unwrap();
    // The engine has asked it to end; the key itself would have been signal 2.
    assert_eq!(exit["how"]["signalled"]["signal"], 15, "{exit}");
    scene.expect_no_orphans();
}
