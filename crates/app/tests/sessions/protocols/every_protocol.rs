//! Every command takes runs of every protocol: cycles of `peer` and workflows in one store.

use std::fs;

use insta::assert_snapshot;
use protocol::peer::{Continued, Definition, Mode, Peer};
use protocol::protocol_kind;
use runner::{Clock, RunSpec};
use serde_json::{Value, json};
use testkit::{Callboard, TestEnv, harness};

use crate::sessions::test_env;

pub(crate) const CYCLE: &str = "peer:spec:feature-name:cycle:1";
pub(crate) const RUN: &str = "peer.spec.feature-name.cycle.1";

/// Reports the fields in the file of its phase in `OUTPUTS`. Fails if there is none.
const AGENT: &str = r#"#!/bin/sh
fields=$(cat "$OUTPUTS/$STEP_ID") || exit 1
printf '{"schema":"run_report@v0","run_id":"%s","step_id":"%s","agent":"%s","status":"COMPLETED","started_at":"x","ended_at":"y",%s}' \
    "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$fields" > "$REPORT_PATH"
"#;

/// Opens the cycle `CYCLE`, and writes the outputs of its phases.
pub(crate) fn open(test_env: &TestEnv) {
    open_cycle(test_env, CYCLE, None);
}

fn open_cycle(test_env: &TestEnv, cycle: &str, continues: Option<Continued>) {
    write_output(
        test_env,
        "plan",
        &json!({"phases": [{"phase": "preparation"}], "success_criteria": "it works"}),
    );
    write_output(test_env, "execute", &json!({"progress": "done"}));
    write_output(test_env, "express", &json!({"summary": "it is there"}));
    write_output(test_env, "review", &json!({"quality_score": 85}));
    test_env.write_program(test_env.agent_dir().join("peer.sh"), AGENT);
    let mode = if continues.is_some() { Mode::Continue } else { Mode::New };
    let definition = Definition { mode, continues, ..harness::new_peer_cycle(cycle) };
    let run = harness::run_of(&definition);
    let spec = RunSpec {
        title: "create-spec feature-name".to_owned(),
        ..harness::run_spec(&definition, &run, test_env.repo(), None)
    };
    let store = test_env.open_store();
    harness::block_on(runner::open(
        &store,
        &Clock::system(),
        protocol_kind::<Peer>(),
        harness::test_author(),
        spec,
    ))
    .unwrap();
}

/// Writes the output that the agent reports for a phase.
fn write_output(test_env: &TestEnv, phase: &str, output: &Value) {
    let outputs = test_env.agent_dir().join("outputs");
    fs::create_dir_all(&outputs).unwrap();
    fs::write(outputs.join(phase), format!("\"output\":{output}")).unwrap();
}

/// Prepares a command with the agent that reports the outputs.
fn with_cycle_agent<'s>(test_env: &'s TestEnv, arguments: &[&str]) -> Callboard<'s> {
    let (agent, outputs) = (test_env.agent_dir().join("peer.sh"), test_env.agent_dir().join("outputs"));
    let outputs = format!("OUTPUTS={}", outputs.display());
    test_env.callboard(&[arguments, &["--wrapper", agent.to_str().unwrap(), "--env", &outputs]].concat())
}

#[test]
fn the_commands_for_every_run_drive_and_show_a_cycle() {
    let test_env = test_env();
    open(&test_env);
    assert_snapshot!(with_cycle_agent(&test_env, &["resume", CYCLE]).run().transcript(), @"
    $ callboard resume peer:spec:feature-name:cycle:1 --wrapper [SHARED]/peer.sh --env OUTPUTS=[SHARED]/outputs
    run peer.spec.feature-name.cycle.1 in [REPO]
    ▸ plan#1.1 started
    ✓ plan#1.1 finished [TIME]
    ▸ execute#1.1 started
    ✓ execute#1.1 finished [TIME]
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✓ the review is successful
    the cycle is completed

    run `peer.spec.feature-name.cycle.1` succeeded: 4 of 4 phases done, [TIME]
    review: successful, score 85, medium
    [exit 0]
    ");
    assert_snapshot!(test_env.callboard(&["show", CYCLE]).run().transcript(), @"
    $ callboard show peer:spec:feature-name:cycle:1
    peer.spec.feature-name.cycle.1 create-spec feature-name  succeeded  4/4 phases  revision 15
      create-spec peer:spec:feature-name:cycle:1, completed, sequence 10
      succeeded (completed) plan     [TIME]  output 66 bytes
      succeeded (completed) execute  [TIME]  output 19 bytes
      succeeded (completed) express  [TIME]  output 25 bytes
      succeeded (completed) review   [TIME]  output 20 bytes
    review: successful, score 85, medium
    [exit 0]
    ");
    assert_snapshot!(test_env.callboard(&["log", CYCLE, "--step", "review"]).run().transcript(), @"
    $ callboard log peer:spec:feature-name:cycle:1 --step review
      12 [WHEN]  deferred transition  engine [PID] on [HOST]
      13 [WHEN]  deferred transition  engine [PID] on [HOST]
           ▸ review#1.1 started
           [STORE]/attempts/peer.spec.feature-name.cycle.1/review/1.1
      14 [WHEN]  review#1.1 ended  engine [PID] on [HOST]
           reported a successful review
           ✓ review#1.1 finished [TIME]
           ✓ the review is successful
    [exit 0]
    ");
    // `updated_at` has whole seconds, so it may or may not differ: the line is removed.
    let updated_at_line = "~ metadata.updated_at: \"[WHEN]\" → \"[WHEN]\"\n";
    let changed =
        test_env.callboard(&["diff", CYCLE, "3", "4"]).run().transcript().replace(updated_at_line, "");
    assert_snapshot!(changed, @r#"
    $ callboard diff peer:spec:feature-name:cycle:1 3 4
    peer.spec.feature-name.cycle.1  revision 3 → 4
       3 [WHEN]  deferred transition  engine [PID] on [HOST]
       4 [WHEN]  deferred transition  engine [PID] on [HOST]
    ~ sequence: 1 → 2
    ~ metadata.status: "initialized" → "in_progress"
    plan
      ~ status: "pending" → "in_progress"
      + started_at: "[WHEN]"
      + sequence_at_start: 2
      + output: {}
      + errors: []

    + history[1]: {"timestamp":"[WHEN]","phase":"plan","event":"started","sequence":2}
    [exit 0]
    "#);
    assert_snapshot!(test_env.callboard(&["ls"]).run().transcript(), @"
    $ callboard ls
    peer.spec.feature-name.cycle.1  succeeded      4/4    create-spec feature-name  [TIME] ago
    [exit 0]
    ");
    let graph = test_env.callboard(&["graph", CYCLE, "--json"]).run().json();
    let steps = graph["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps
        .map(|step| json!([step["id"], step["agent"], step["needs"], step["document_status"]]))
        .collect();
    assert_eq!(
        json!(steps),
        json!([
            ["plan", "planner", [], "completed"],
            ["execute", "executor", ["plan"], "completed"],
            ["express", "expresser", ["execute"], "completed"],
            ["review", "reviewer", ["express"], "completed"],
        ])
    );
    assert_snapshot!(test_env.callboard(&["prompt", CYCLE, "exicute"]).run().transcript(), @"
    $ callboard prompt peer:spec:feature-name:cycle:1 exicute
    error: run `peer.spec.feature-name.cycle.1` has no phase `exicute`

    hint: did you mean `execute`?
    [exit 2]
    ");
}

#[test]
fn a_failed_cycle_stays_failed_and_the_command_for_the_next_one_is_named() {
    let test_env = test_env();
    open(&test_env);
    fs::remove_file(test_env.agent_dir().join("outputs/execute")).unwrap();
    let session = with_cycle_agent(&test_env, &["resume", RUN]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    assert_snapshot!(with_cycle_agent(&test_env, &["resume", RUN]).run().transcript(), @"
    $ callboard resume peer.spec.feature-name.cycle.1 --wrapper [SHARED]/peer.sh --env OUTPUTS=[SHARED]/outputs
    error[E013]: cannot continue run `peer.spec.feature-name.cycle.1`
      caused by: it has failed

    hint: run `callboard peer --continue --spec feature-name` to start a new cycle with the completed phases of this one
    [exit 3]
    ");
    assert_snapshot!(with_cycle_agent(&test_env, &["retry", RUN, "execute"]).run().transcript(), @"
    $ callboard retry peer.spec.feature-name.cycle.1 execute --wrapper [SHARED]/peer.sh --env OUTPUTS=[SHARED]/outputs
    error[E013]: cannot retry run `peer.spec.feature-name.cycle.1`
      caused by: a failed phase of a `peer` run cannot be retried

    hint: run `callboard peer --continue --spec feature-name` to start a new cycle with the completed phases of this one
    [exit 3]
    ");
    assert_snapshot!(test_env.callboard(&["skip", RUN, "execute", "--reason", "by hand"]).run().transcript(), @"
    $ callboard skip peer.spec.feature-name.cycle.1 execute --reason 'by hand'
    error[E013]: cannot skip a phase of run `peer.spec.feature-name.cycle.1`
      caused by: `execute` cannot be skipped: in a `peer` run every step builds on the one before
    [exit 3]
    ");
}

#[test]
fn reused_phases_are_shown() {
    let test_env = test_env();
    let plan = json!({"phases": [{"phase": "preparation"}], "success_criteria": "it works"});
    let continued = Continued { cycle: CYCLE.parse().unwrap(), outputs: vec![plan] };
    open_cycle(&test_env, "peer:spec:feature-name:cycle:2", Some(continued));
    let session = with_cycle_agent(&test_env, &["resume", "peer:spec:feature-name:cycle:2"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard resume peer:spec:feature-name:cycle:2 --wrapper [SHARED]/peer.sh --env OUTPUTS=[SHARED]/outputs
    run peer.spec.feature-name.cycle.2 in [REPO]
    » plan reused from the previous cycle
    ▸ execute#1.1 started
    ✓ execute#1.1 finished [TIME]
    ▸ express#1.1 started
    ✓ express#1.1 finished [TIME]
    ▸ review#1.1 started
    ✓ review#1.1 finished [TIME]
    ✓ the review is successful
    the cycle is completed

    run `peer.spec.feature-name.cycle.2` succeeded: 4 of 4 phases done, [TIME]
    review: successful, score 85, medium
    [exit 0]
    ");
    let shown = test_env.callboard(&["show", "peer:spec:feature-name:cycle:2", "--at", "12"]).run();
    assert_snapshot!(shown.transcript(), @"
    $ callboard show peer:spec:feature-name:cycle:2 --at 12
    peer.spec.feature-name.cycle.2 create-spec feature-name  running  3/4 phases  revision 12 of 14  [WHEN]
      create-spec peer:spec:feature-name:cycle:2, in_progress, sequence 8
      continues peer:spec:feature-name:cycle:1
    engine [PID] on [HOST]
      succeeded (completed) plan     [TIME]  reused from peer:spec:feature-name:cycle:1, output 66 bytes
      succeeded (completed) execute  [TIME]  output 19 bytes
      succeeded (completed) express  [TIME]  output 25 bytes
      running (in_progress) review   for [TIME]
    [exit 0]
    ");
}

#[test]
fn cycle_1_is_not_a_prefix_of_cycle_10() {
    let test_env = test_env();
    open_cycle(&test_env, &format!("{CYCLE}0"), None);
    let session = test_env.callboard(&["show", &format!("{CYCLE}1")]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    let session = test_env.callboard(&["show", CYCLE]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
}

#[test]
fn a_cycle_is_exported_and_imported_under_its_own_name() {
    let (source, target) = (test_env(), test_env());
    open(&source);
    assert_eq!(with_cycle_agent(&source, &["resume", RUN]).run().code, 0);
    let archive = source.agent_dir().join("cycle.tar");
    let archive = archive.to_str().unwrap();
    assert_eq!(source.callboard(&["export", CYCLE, "-o", archive]).run().code, 0);
    let renamed = target.callboard(&["import", archive, "--as", "mine"]).run();
    assert!(renamed.stderr.contains("cannot rename the run to `mine`"), "{}", renamed.transcript());
    let session = target.callboard(&["import", archive]).run();
    assert_eq!(
        (session.code, session.stdout.as_str()),
        (0, format!("{RUN}\n").as_str()),
        "{}",
        session.stderr
    );
    let shown =
        |test_env: &TestEnv| test_env.callboard(&["show", CYCLE, "--json"]).run().json()["document"].clone();
    assert_eq!(shown(&target), shown(&source));
    assert_eq!(target.callboard(&["recover"]).run().code, 0);
}

#[test]
fn embedded_a_run_of_an_unknown_protocol_does_not_block_others() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    database.execute("UPDATE runs SET protocol = 'opera'", []).unwrap();
    open(&test_env);
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    error[E006]: cannot read run `trial`: this version of callboard has no protocol `opera`

    hint: use the newer version that started the run; this one has `steps`, `peer`, `issue`, `cycle`, `team`
    [exit 5]
    ");
    assert!(test_env.journal("trial").len() > 2, "its journal can be read all the same");
    let doctor = test_env.callboard(&["doctor", "--json"]).run().json();
    let findings = doctor.to_string();
    assert!(
        findings.contains("cannot read run `trial`: this version of callboard has no protocol `opera`")
            && findings.contains(&format!("run `{RUN}` is unfinished")),
        "{findings}"
    );
    let session = with_cycle_agent(&test_env, &["resume", "--all"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard resume --all --wrapper [SHARED]/peer.sh --env OUTPUTS=[SHARED]/outputs
    error[E006]: cannot read run `trial`: this version of callboard has no protocol `opera`

    hint: use the newer version that started the run; this one has `steps`, `peer`, `issue`, `cycle`, `team`
    note: run `callboard watch peer.spec.feature-name.cycle.1` to follow it, `callboard stop peer.spec.feature-name.cycle.1` to stop it
    peer.spec.feature-name.cycle.1
    [exit 5]
    ");
    assert_eq!(test_env.callboard(&["watch", RUN]).run().code, 0);
    let recovered = test_env.callboard(&["recover"]).run();
    assert!(
        recovered.stdout.contains("this version of callboard has no protocol `opera`"),
        "{}",
        recovered.transcript()
    );
}

#[test]
fn embedded_recover_returns_runs_of_every_protocol() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    open(&test_env);
    assert_eq!(with_cycle_agent(&test_env, &["resume", RUN]).run().code, 0);
    let listed = |protocol: &str| test_env.callboard(&["ls", "--protocol", protocol]).run().stdout;
    assert!(listed("steps").starts_with("trial  "), "{}", listed("steps"));
    assert!(listed("peer").starts_with(RUN), "{}", listed("peer"));
    let database = test_env.store_dir().join("callboard.db");
    let shown = || test_env.callboard(&["show", CYCLE, "--json"]).run().json()["document"].clone();
    let before = shown();
    let mut bytes = fs::read(&database).unwrap();
    bytes[..4096].fill(0x5A);
    fs::write(&database, bytes).unwrap();
    let recovered = test_env.callboard(&["recover", "--json"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    let recovery = recovered.json();
    let runs = recovery["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| json!([run["run"], run["outcome"], run["status"]]));
    assert_eq!(
        runs.collect::<Value>(),
        json!([["trial", "whole", "succeeded"], [RUN, "whole", "succeeded"]])
    );
    assert_eq!(shown(), before);
}

#[test]
fn embedded_agents_of_an_unreadable_run_are_not_orphans() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    let set_protocol = |protocol: &str| {
        let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
        database.execute("UPDATE runs SET protocol = ?1", [protocol]).unwrap();
    };
    set_protocol("opera");
    let doctor = test_env.callboard(&["doctor", "--json"]).run().json();
    let orphans = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "orphans");
    assert_eq!(orphans.unwrap()["level"], "ok", "{doctor:#}");
    set_protocol("steps");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    test_env.expect_no_orphans();
}
