//! `when`: a step runs only if something is so.

use serde_json::json;
use testkit::Scene;

use crate::sessions::{scene, status};

/// `fix` runs if the metric `lines` of `test`, which is 3, compares like this, `notes` if there is a changelog, and `tell` if
/// `fix` was left out.
fn with(comparison: &str) -> Scene {
    let scene = scene();
    scene.workflow_of(&[
        "id: test",
        &format!("id: fix, needs: [test], when: {{step: test, metric: lines, {comparison}}}"),
        "id: notes, needs: [test], when: [{step: test, status: COMPLETED}, {artifact: CHANGES.md}]",
        "id: tell, needs: [fix, notes], when: {step: fix, status: SKIPPED}",
    ]);
    scene
}

#[test]
fn a_step_whose_condition_does_not_hold_is_skipped_with_the_reason() {
    let scene = with("above: 3");
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(scene.agent_log().started(), ["test#1.1", "tell#2.1"]);
    let view = scene.document("trial");
    assert_eq!(status(&view, "fix"), "SKIPPED");
    assert_eq!(view["steps"]["fix"]["logs"], json!(["Skipped because `lines` of `test` is 3, not above 3"]));
    assert_eq!(view["steps"]["notes"]["logs"], json!(["Skipped because `CHANGES.md` does not exist"]));
    assert_eq!((view["steps"]["fix"]["attempts"].clone(), status(&view, "tell")), (json!(0), "COMPLETED"));
    let show = scene.callboard(&["show", "trial"]).run();
    assert!(show.stdout.contains("`lines` of `test` is 3, not above 3"), "{}", show.transcript());
}

#[test]
fn a_step_whose_condition_holds_runs() {
    let scene = with("is: 3");
    scene.write("CHANGES.md", "");
    let session = scene.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let view = scene.document("trial");
    let statuses = ["fix", "notes", "tell"].map(|step| status(&view, step));
    assert_eq!(statuses, ["COMPLETED", "COMPLETED", "SKIPPED"], "{view:#}");
    assert_eq!(view["steps"]["tell"]["logs"], json!(["Skipped because `fix` was not skipped"]));
}
