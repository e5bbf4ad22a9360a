//! `diff`: what changed from one revision to another.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sessions::test_env;

#[test]
fn two_revisions_are_compared_field_by_field() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["diff", "tri", "2", "3"]).run().transcript(), @r#"
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
    assert_snapshot!(test_env.callboard(&["diff", "trial", "3", "3"]).run().transcript(), @"
    $ callboard diff trial 3 3
    note: the revisions do not differ
    trial  revision 3 → 3
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
       3 [WHEN]  a#1.1 ended  engine [PID] on [HOST]
    [exit 0]
    ");
    assert_eq!(test_env.callboard(&["diff", "trial", "3", "3", "--json"]).run().json(), json!([]));
}

/// Returns the part of `show --at REVISION` that `diff` compares.
fn shown_at(test_env: &testkit::TestEnv, revision: &str) -> Value {
    let shown = test_env.callboard(&["show", "trial", "--at", revision, "--json"]).run().json();
    json!({ "status": shown["status"], "document": shown["document"] })
}

#[test]
fn the_patch_leads_from_one_revision_to_the_other() {
    let test_env = test_env();
    test_env.workflow_yaml(&[
        "id: code",
        "id: review, needs: [code], loop_back_to: code",
        "id: docs, needs: [review]",
    ]);
    test_env.script_agent(&["review * gate-failure 1", "docs 1 exit 3"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let newest = test_env.journal("trial").len().to_string();
    for (from, to) in [("1", newest.as_str()), (newest.as_str(), "1"), ("4", "5"), ("3", "7"), ("7", "3")] {
        let patch = test_env.callboard(&["diff", "trial", from, to, "--json"]).run();
        let patch: json_patch::Patch = serde_json::from_value(patch.json()).unwrap();
        let mut document = shown_at(&test_env, from);
        json_patch::patch(&mut document, &patch).unwrap();
        assert_eq!(document, shown_at(&test_env, to), "from {from} to {to}");
    }
    let whole = test_env.callboard(&["diff", "trial", "1", &newest, "--json"]).run();
    let since = test_env.callboard(&["diff", "trial", "1", "--json"]).run();
    assert_eq!(whole.stdout, since.stdout, "the default is not the newest revision");
}

#[test]
fn a_pause_is_a_difference_although_the_document_does_not_change() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    let changed = test_env.callboard(&["diff", "trial", "2", "3"]).run();
    assert!(changed.stdout.contains("~ status: \"running\" → \"paused\""), "{}", changed.stdout);
    running.interrupt();
    assert_eq!(running.wait().code, 130);
}
