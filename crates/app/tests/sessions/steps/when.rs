//! `when`: a step is skipped unless its conditions about other steps and files hold.

use serde_json::json;
use testkit::TestEnv;

use crate::sessions::{status, test_env};

/// Makes a workflow with three conditions: `fix` compares the metric `lines` of `test`, which is 3; `notes` needs the
/// file `CHANGES.md`; `tell` runs if `fix` was skipped.
fn with_comparison(comparison: &str) -> TestEnv {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: test",
        &format!("id: fix, needs: [test], when: {{step: test, metric: lines, {comparison}}}"),
        "id: notes, needs: [test], when: [{step: test, status: COMPLETED}, {artifact: CHANGES.md}]",
        "id: tell, needs: [fix, notes], when: {step: fix, status: SKIPPED}",
    ]);
    test_env
}

#[test]
fn a_step_whose_condition_does_not_hold_is_skipped_with_the_reason() {
    let test_env = with_comparison("above: 3");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    // In turn 1 of `tell`, the engine evaluates its condition.
    assert_eq!(test_env.agent_log().started(), ["test#1.1", "tell#2.1"]);
    let view = test_env.document("trial");
    assert_eq!(status(&view, "fix"), "SKIPPED");
    assert_eq!(view["steps"]["fix"]["logs"], json!(["Skipped because `lines` of `test` is 3, not above 3"]));
    assert_eq!(view["steps"]["notes"]["logs"], json!(["Skipped because `CHANGES.md` does not exist"]));
    assert_eq!((view["steps"]["fix"]["attempts"].clone(), status(&view, "tell")), (json!(0), "COMPLETED"));
    let show = test_env.callboard(&["show", "trial"]).run();
    assert!(show.stdout.contains("`lines` of `test` is 3, not above 3"), "{}", show.transcript());
}

#[test]
fn a_step_whose_condition_holds_runs() {
    let test_env = with_comparison("is: 3");
    test_env.write("CHANGES.md", "");
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let view = test_env.document("trial");
    let statuses = ["fix", "notes", "tell"].map(|step| status(&view, step));
    assert_eq!(statuses, ["COMPLETED", "COMPLETED", "SKIPPED"], "{view:#}");
    assert_eq!(view["steps"]["tell"]["logs"], json!(["Skipped because `fix` was not skipped"]));
}
