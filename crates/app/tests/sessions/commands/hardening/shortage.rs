//! A machine with too few file descriptors.

use testkit::Scene;

use crate::sessions::{scene, status};

const STEPS: usize = 40;

/// Many steps at once.
fn many() -> (Scene, Vec<String>) {
    let scene = scene();
    let steps: Vec<_> = (0..STEPS).map(|number| format!("s{number}")).collect();
    scene.workflow(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    (scene, steps)
}

#[test]
fn too_few_descriptors_end_the_engine_with_an_error_and_cost_no_attempt() {
    let (scene, steps) = many();
    scene.plan(&["* * wait gate"]);
    let mut gate = scene.gate("gate");
    let session = scene.run(&["--jobs", "40"]).in_shell(r#"ulimit -n 40; exec "$@""#).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("error[E016]:"), "{}", session.stderr);
    gate.open();
    let resumed = scene.callboard(&["resume", "--jobs", "2"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let document = scene.document("trial");
    for step in &steps {
        let shown = (status(&document, step), &document["steps"][step]["attempts"]);
        assert_eq!(shown, ("COMPLETED", &1.into()), "{step}");
    }
    scene.expect_no_orphans();
}

#[test]
fn a_low_soft_limit_is_raised_for_the_engine_and_kept_for_agents() {
    let (scene, _) = many();
    scene.plan(&[r#"s0 * do ulimit -Sn >"$kit/soft"; hand_in COMPLETED "did it""#, "* * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&["--jobs", "40"]).in_shell(r#"ulimit -Sn 40; exec "$@""#).start();
    for number in 1..STEPS {
        scene.agent_log().wait_for_start(&format!("s{number}#1.1"));
    }
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.wait_for_text("soft").trim(), "40");
}
