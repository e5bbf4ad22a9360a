//! `diff`: what changed from one revision to another.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sessions::scene;

#[test]
fn two_revisions_are_compared_field_by_field() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    assert_snapshot!(scene.callboard(&["diff", "tri", "2", "3"]).run().transcript(), @r#"
    $ callboard diff tri 2 3
    trial  revision 2 → 3
       2 [WHEN]  resume  engine [PID] on [HOST]
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
    ~ updated_at: "[WHEN]" → "[WHEN]"
    a
      ~ status: "RUNNING" → "COMPLETED"
      ~ report_path: null → "[REPO]/.agents/runs/trial/reports/trial__a.json"
      ~ ended_at: null → "[WHEN]"
      + artifacts[0]: "made/a.txt"
      + metrics.lines: "3"
      + logs[0]: "did a"
    b
      ~ status: "PENDING" → "RUNNING"
      ~ attempts: 0 → 1
      ~ started_at: null → "[WHEN]"
    [exit 0]
    "#);
    assert_snapshot!(scene.callboard(&["diff", "trial", "3", "3"]).run().transcript(), @"
    $ callboard diff trial 3 3
    note: the revisions do not differ
    trial  revision 3 → 3
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
    [exit 0]
    ");
    assert_eq!(scene.callboard(&["diff", "trial", "3", "3", "--json"]).run().json(), json!([]));
}

/// The part of `show --at` that `diff` compares.
fn at(scene: &testkit::Scene, revision: &str) -> Value {
    let shown = scene.callboard(&["show", "trial", "--at", revision, "--json"]).run().json();
    json!({ "status": shown["status"], "document": shown["document"] })
}

#[test]
fn the_patch_leads_from_one_revision_to_the_other() {
    let scene = scene();
    scene.workflow_of(&[
        "id: code",
        "id: review, needs: [code], loop_back_to: code",
        "id: docs, needs: [review]",
    ]);
    scene.plan(&["review * gate-failure 1", "docs 1 exit 3"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    let newest = scene.journal("trial").len().to_string();
    for (from, to) in [("1", newest.as_str()), (newest.as_str(), "1"), ("4", "5"), ("3", "7"), ("7", "3")] {
        let patch = scene.callboard(&["diff", "trial", from, to, "--json"]).run();
        let patch: json_patch::Patch = serde_json::from_value(patch.json()).unwrap();
        let mut document = at(&scene, from);
        json_patch::patch(&mut document, &patch).unwrap();
        assert_eq!(document, at(&scene, to), "from {from} to {to}");
    }
    let whole = scene.callboard(&["diff", "trial", "1", &newest, "--json"]).run();
    let since = scene.callboard(&["diff", "trial", "1", "--json"]).run();
    assert_eq!(whole.stdout, since.stdout, "the default is not the newest revision");
}

#[test]
fn a_pause_is_a_difference_although_the_document_does_not_change() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    assert_eq!(scene.callboard(&["pause", "trial"]).run().code, 0);
    let changed = scene.callboard(&["diff", "trial", "2", "3"]).run();
    assert!(changed.stdout.contains("~ status: \"running\" → \"paused\""), "{}", changed.stdout);
    running.interrupt();
    assert_eq!(running.wait().code, 130);
}
