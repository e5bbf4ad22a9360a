//! Cycles from their start to their end.

use insta::assert_snapshot;
use protocol::peer::{Event, PeerCycleStatus, Phase};
use serde_json::json;

use super::{SUCCESS_TRANSITIONS, document, peer, rehearsed, transitions};
use crate::sessions::test_env;

#[test]
fn the_rehearsal_among_the_examples_shows_a_whole_cycle() {
    let test_env = test_env();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/peer-rehearsal.yaml");
    let requirements = "users can reset a forgotten password by mail";
    std::fs::copy(example, test_env.agent_dir().join("example.yaml")).unwrap();
    let rehearse = format!("--rehearse={}", test_env.agent_dir().join("example.yaml").display());
    let session = test_env.callboard(&["peer", "create-spec", requirements, &rehearse]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard peer create-spec 'users can reset a forgotten password by mail' --rehearse=[SHARED]/example.yaml
    cycle peer:spec:reset-forgotten-password-mail:cycle:1 is run peer.spec.reset-forgotten-password-mail.cycle.1: create-spec
    run peer.spec.reset-forgotten-password-mail.cycle.1 in [REPO]
    ▸ plan#1.1 started
    ✗ plan#1.1 failed, retrying in [TIME]: Agent reported completion with an error in the output of `plan`: `success_criteria` is missing (add it)
    ▸ plan#1.2 started
    ✓ plan#1.2 finished [TIME]
    ▸ execute#1.1 started
    ✓ execute#1.1 finished [TIME]
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✓ the review is successful
    the cycle is completed

    run `peer.spec.reset-forgotten-password-mail.cycle.1` succeeded: 4 of 4 phases done, [TIME]
    review: successful, score 84, medium
      There is a spec for resetting passwords by mail.
    questions for you:
      ? Should a token also end when the user logs in?
    [exit 0]
    ");
    let document = document(&test_env, "peer:spec:reset-forgotten-password-mail:cycle:1");
    assert_eq!(transitions(&document), SUCCESS_TRANSITIONS);
    let shown = test_env.callboard(&["state", "get", &document.cycle_id.to_string()]).run();
    assert_eq!(shown.json(), json!(document));
    let plan = &document.phases.plan;
    assert_eq!(plan.errors().iter().map(|error| error.kind.as_str()).collect::<Vec<_>>(), ["invalid_report"]);
    let progress = |phase| {
        let entries = document.history.iter().filter(|entry| entry.event == Event::Progress);
        entries.filter(|entry| entry.phase == Some(phase)).count()
    };
    assert_eq!(progress(Phase::Plan), 1, "the failed attempt");
    assert!((1..=2).contains(&progress(Phase::Execute)), "the newest at most once per second");
    assert_eq!(document.phases.review.output.as_ref().unwrap()["quality_score"], 84);
    assert_eq!(document.insights.as_ref().unwrap()["questions_for_user"].as_array().unwrap().len(), 1);
    assert_eq!(test_env.git(&["status", "--porcelain"]), "", "a rehearsal changes nothing");
}

#[test]
fn an_unsuccessful_review_ends_the_cycle_as_incomplete() {
    let test_env = test_env();
    let script = "phases: {review: [ok: {score: 40, insights: {questions_for_user: [Which mail server?]}}]}";
    let session = rehearsed(&test_env, script, &["create-spec", "--spec", "mail"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard peer create-spec --spec mail --rehearse=[SHARED]/script.yaml
    cycle peer:spec:mail:cycle:1 is run peer.spec.mail.cycle.1: create-spec
    run peer.spec.mail.cycle.1 in [REPO]
    ▸ plan#1.1 started
    ✓ plan#1.1 finished [TIME]
    ▸ execute#1.1 started
    ✓ execute#1.1 finished [TIME]
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✗ the review is unsuccessful
    the cycle is completed

    note: run `callboard peer refine-spec --spec mail` to start a new cycle with the recommendations of the review
    run `peer.spec.mail.cycle.1` incomplete: 4 of 4 phases done, [TIME]
    review: unsuccessful, score 40, requires_attention
      The cycle was rehearsed by the built-in scripted agent.
      next: Run it with real agents
    questions for you:
      ? Which mail server?
    [exit 1]
    ");
    let expected_review = json!({
        "success": false, "score": 40.0, "band": "requires_attention", "questions_for_user": ["Which mail server?"],
    });
    let shown = test_env.callboard(&["show", "peer:spec:mail:cycle:1", "--json"]).run().json();
    assert_eq!(shown["review"], expected_review);
    let document = document(&test_env, "peer:spec:mail:cycle:1");
    assert_eq!(document.metadata.status, PeerCycleStatus::Completed);
    let again = test_env.callboard(&["peer", "--continue"]).run();
    assert_eq!(again.code, 2, "a completed cycle is not continued: {}", again.transcript());
}

#[test]
fn json_names_the_cycle_and_its_result() {
    let test_env = test_env();
    let script = "phases: {review: [ok: {score: low, insights: {questions_for_user: [Why?]}}]}";
    let session = rehearsed(&test_env, script, &["plan-product", "--json"]).run();
    assert_eq!(session.code, 1);
    let events = session.json_lines();
    assert_eq!(
        events[0],
        json!({
            "event": "cycle", "run": "peer.global.cycle.1", "is": "opened", "cycle_id": "peer:global:cycle:1",
            "instruction": "plan-product", "continues": null,
        })
    );
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["review"]["band"]), (&json!("result"), &json!("low")));
    assert_eq!(last["review"]["questions_for_user"], json!(["Why?"]));
    assert_eq!(last["cycle_summary"]["success"], json!(false));
}

#[test]
fn every_failed_attempt_is_kept_and_the_last_one_fails_the_cycle() {
    let test_env = test_env();
    let script = "
phases:
  plan: [crash, {ok: {output: ~}}, rubbish, exit: 3, ok]
  execute: [fail: no disk]
";
    let session = rehearsed(&test_env, script, &["create-spec", "--spec", "x", "--max-attempts", "5"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = document(&test_env, "peer:spec:x:cycle:1");
    let kinds = |phase: Phase| {
        let errors = document.phases[phase].errors();
        errors.iter().map(|error| error.kind.clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Phase::Plan), ["no_report", "invalid_report", "invalid_report", "no_report"]);
    assert_eq!(kinds(Phase::Execute), ["reported_failure"; 5]);
    assert_eq!(document.metadata.status, PeerCycleStatus::Failed);
    assert_eq!(transitions(&document).last().unwrap(), "execute failed");
}

#[test]
fn a_phase_that_exceeds_its_timeout_is_ended() {
    let test_env = test_env();
    let script = "phases: {plan: [hang, ok]}";
    let session = rehearsed(&test_env, script, &["create-spec", "--spec", "x", "--timeout", "300ms"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(document(&test_env, "peer:spec:x:cycle:1").phases.plan.errors()[0].kind, "timeout");
    test_env.expect_no_orphans();
}

#[test]
fn each_phase_receives_the_key_of_the_document() {
    let test_env = test_env();
    test_env.script_agent(&["execute * save-input"]);
    assert_eq!(peer(&test_env, &["create-spec", "--spec", "a b", "dark mode"]).run().code, 0);
    let environment = test_env.wait_for_lines("environment");
    for line in [
        "CALLBOARD_STATE_KEY=peer.spec.a=20b.cycle.1".to_owned(),
        "CALLBOARD_STATE_ID=peer:spec:a b:cycle:1".to_owned(),
        "CALLBOARD_STATE_BUCKET=agent-os-peer-state".to_owned(),
        format!("CALLBOARD_STORE={}", test_env.store_dir().display()),
        "STEP_ID=execute".to_owned(),
        "AGENT_ID=executor".to_owned(),
    ] {
        assert!(environment.lines().any(|variable| variable == line), "{line} is not in\n{environment}");
    }
    let prompt = test_env.wait_for_lines("prompt");
    for text in [
        "`peer.spec.a=20b.cycle.1`",
        "`peer:spec:a b:cycle:1`",
        "`agent-os-peer-state`",
        test_env.store_dir().to_str().unwrap(),
        "dark mode",
        "Output of `plan`",
    ] {
        assert!(prompt.contains(text), "{text} is not in\n{prompt}");
    }
}

#[test]
fn a_detached_cycle_continues_in_the_background() {
    let test_env = test_env();
    let session = peer(&test_env, &["create-spec", "--spec", "x", "--detach"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(session.stdout, "peer.spec.x.cycle.1\n");
    test_env.wait_for_engine_exit("peer.spec.x.cycle.1");
    assert_eq!(transitions(&document(&test_env, "peer:spec:x:cycle:1")), SUCCESS_TRANSITIONS);
}

#[test]
fn a_printed_script_can_be_run() {
    let test_env = test_env();
    let printed = test_env.callboard(&["rehearse-script", "--peer", "--output", "cycle.yaml"]).run();
    assert_eq!(printed.code, 0, "{}", printed.transcript());
    assert!(printed.stderr.contains("`callboard peer INSTRUCTION --rehearse=cycle.yaml`"), "{printed:?}");
    assert_eq!(test_env.callboard(&["peer", "plan-product", "--rehearse=cycle.yaml"]).run().code, 0);
    for invalid_arguments in [&["rehearse-script"][..], &["rehearse-script", "wf.yaml", "--peer"]] {
        assert_eq!(test_env.callboard(invalid_arguments).run().code, 2);
    }
    test_env.write("steps.yaml", "steps: {plan: [ok]}\n");
    let refused = test_env.callboard(&["peer", "plan-product", "--rehearse=steps.yaml"]).run();
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("`steps` is not a key of a script"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("run `callboard rehearse-script --peer` to print a script"),
        "{}",
        refused.stderr
    );
}

#[test]
fn every_scripted_behaviour_that_succeeds_reports_an_output() {
    let test_env = test_env();
    let script = "
phases:
  plan: [flood: 1MB]
  execute: [leave_child]
  express: [{partial: {summary: half}, exit: 3}, {delay: 10ms, ok: {write: {out.txt: done}}}]
";
    let session = rehearsed(&test_env, script, &["create-spec", "--spec", "x"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let document = document(&test_env, "peer:spec:x:cycle:1");
    assert_eq!(transitions(&document), SUCCESS_TRANSITIONS);
    assert_eq!(document.phases.express.errors()[0].kind, "no_report");
    let progress = document.history.iter().filter(|entry| entry.phase == Some(Phase::Express));
    let events: Vec<_> = progress.map(|entry| entry.event.as_str()).collect();
    assert_eq!(
        events,
        ["started", "progress", "progress", "completed"],
        "what was handed in, and that the attempt failed"
    );
    assert_eq!(test_env.git(&["status", "--porcelain"]), "?? out.txt\n");
    test_env.expect_no_orphans();
}

#[test]
fn of_many_partial_reports_only_the_newest_per_second_is_recorded() {
    let test_env = test_env();
    test_env.script_agent(&[
        r#"plan * do for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo "{\"n\": $i}" | "$shared/callboard" report --partial; done; write_report COMPLETED x"#,
    ]);
    let session = peer(&test_env, &["create-spec", "--spec", "x"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let history = test_env.callboard(&["state", "history", "peer:spec:x:cycle:1", "--json"]).run();
    let writes = history.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let times: Vec<jiff::Timestamp> = writes
        .filter(|write| write["event"] == "progress")
        .map(|write| write["at"].as_str().unwrap().parse().unwrap())
        .collect();
    let [limited_by_rate @ .., _last_before_the_phase_ends] = &times[..] else {
        panic!("no times were recorded")
    };
    for pair in limited_by_rate.windows(2) {
        // 900 ms, not 1 s: the limit and the timestamps come from two clocks.
        assert!(pair[1].duration_since(pair[0]).as_millis() >= 900, "{times:?}");
    }
}
