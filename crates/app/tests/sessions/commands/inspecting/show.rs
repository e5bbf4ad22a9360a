//! `show`: what a run does, what it waits for, and what went wrong.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::sessions::test_env;

#[test]
fn a_run_shows_what_each_step_does_or_waits_for_and_the_last_error() {
    let test_env = test_env();
    test_env.workflow(&["bad", "long", "other", "last: long other"]);
    test_env.script_agent(&["bad 1 exit 3", "long * wait barrier", "other * wait barrier"]);
    let _never_opened = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "1"]).env("CALLBOARD_BACKOFF", "5m").start();
    test_env.agent_log().wait_for_start("long#1.1");
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  running  0/4 steps  revision 3
    engine [PID] on [HOST] for [TIME]
      backing off (PENDING) bad    for another [TIME], until [WHEN]
      running               long   for [TIME]
      queued (PENDING)      other  waits for a slot (--jobs) for [TIME]
      pending               last   waits for long, other
    last error: bad#1.1, [TIME] ago: Agent process exited with code 3 without a report: bad gives up
      [STORE]/attempts/trial/bad/1.1/stderr.log
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!(shown["engine"]["pid"], running.pid());
    let step_status = |step: &str| shown["steps"][step]["status"].as_str().unwrap().to_owned();
    assert_eq!(
        ["bad", "long", "other", "last"].map(step_status),
        ["backing_off", "running", "waiting_for_slot", "waiting_for_steps"]
    );
    assert_eq!(shown["steps"]["last"]["steps"], json!(["long", "other"]));
    assert_eq!(shown["last_error"]["attempt"], "bad#1.1");
    assert_eq!(
        shown["last_error"]["log"],
        test_env.attempt_dir("trial", "bad", "1.1").join("stderr.log").to_str().unwrap()
    );
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  stopped  0/4 steps  revision 5
    stopped [TIME] ago by engine [PID] on [HOST]; run `callboard resume trial` to continue it
      queued (PENDING) bad    held for [TIME]
      queued (PENDING) long   held for [TIME]  Agent process was stopped
      queued (PENDING) other  held for [TIME]
      pending          last   waits for long, other
    last error: bad#1.1, [TIME] ago: Agent process exited with code 3 without a report: bad gives up
      [STORE]/attempts/trial/bad/1.1/stderr.log
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
}

#[test]
fn a_run_without_an_engine_shows_how_to_resume_it() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "1"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  interrupted  0/3 steps  revision 2
    no engine: run `callboard resume trial` to continue it
      running          a  for [TIME]
      queued (PENDING) b  waits for an engine for [TIME]
      pending          c  waits for a
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    barrier.open();
    let dir = test_env.attempt_dir("trial", "a", "1.1");
    testkit::wait_until(&dir, "exit.json", || dir.join("exit.json").exists().then_some(()));
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!(shown["engine"], json!({ "status": "missing" }));
    assert_eq!(shown["steps"]["a"]["status"], "ended", "the agent has ended and no engine has recorded it");
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // There was no running agent to adopt.
    assert!(resumed.stderr.contains("a#1.1 was in progress: continuing"), "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("adopted"), "{}", resumed.stderr);
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!((&shown["engine"], &shown["steps"]), (&json!({ "status": "not_needed" }), &json!({})));
}

#[test]
fn a_paused_run_shows_who_paused_it_when_and_why() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial", "--reason", "lunch"]).run().code, 0);
    barrier.open();
    running.wait_for_stderr("a#1.1 finished");
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  paused  1/2 steps  revision 4
    paused [TIME] ago by tester on [HOST]: lunch; run `callboard resume trial` to continue it
    engine [PID] on [HOST] for [TIME]
      succeeded (COMPLETED) a  [TIME]
      queued (PENDING)      b  held for [TIME]
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!(
        (&shown["stopped_by"]["by"]["name"], &shown["stopped_by"]["reason"]),
        (&json!("tester"), &json!("lunch"))
    );
    assert_eq!(shown["steps"]["b"]["status"], "waiting_for_resume");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 0);
    let shown = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!(shown["stopped_by"], Value::Null);
}

#[test]
fn a_gate_shows_its_used_iterations() {
    let test_env = test_env();
    test_env.workflow_yaml(&["id: code", "id: review, needs: [code], loop_back_to: code"]);
    test_env.script_agent(&["review * gate-failure 9"]);
    assert_eq!(test_env.run(&["--max-iterations", "3"]).run().code, 1);
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  failed  1/2 steps  revision 12
    run `callboard retry trial --from code` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
      succeeded (COMPLETED) code    [TIME]
      failed                review  [TIME]
    last error: review#3.1, [TIME] ago: Gate failure: review saw iteration 3 (iteration 3, the last)
      [STORE]/attempts/trial/review/3.1/stdout.log
    gate review: 3 of 3 iterations used, loops back to code
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    let gates =
        |at: &str| test_env.callboard(&["show", "trial", "--at", at, "--json"]).run().json()["gates"].clone();
    let used = |at: &str| gates(at)[0]["used"].as_u64().unwrap();
    assert_eq!(gates("1"), json!([{ "step": "review", "used": 0, "limit": 3, "back_to": "code" }]));
    let newest = test_env.journal("trial").len();
    let over_time: Vec<_> = (1..=newest).map(|at| used(&at.to_string())).collect();
    assert!(over_time.is_sorted() && over_time.ends_with(&[3]), "{over_time:?}");
}

#[test]
fn every_revision_can_be_shown_as_it_was() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b 1 exit 3"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    for entry in test_env.journal("trial") {
        let revision = entry["revision"].to_string();
        let shown = test_env.callboard(&["show", "trial", "--at", &revision, "--json"]).run().json();
        assert_eq!((&shown["revision"], &shown["newest"]), (&entry["revision"], &json!(6)));
        assert_eq!(shown["at"], entry["entry"]["at"], "the present is the entry's time");
        assert_eq!(shown["document"]["updated_at"], entry["entry"]["at"]);
    }
    assert_snapshot!(test_env.callboard(&["show", "trial", "--at", "4"]).run().transcript(), @"
    $ callboard show trial --at 4
    trial trial  running  1/2 steps  revision 4 of 6  [WHEN]
    engine [PID] on [HOST]
      succeeded (COMPLETED) a  [TIME]
      backing off (PENDING) b  for another [TIME], until [WHEN]
    last error: b#1.1, [TIME] ago: Agent process exited with code 3 without a report: b gives up
      [STORE]/attempts/trial/b/1.1/stderr.log
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    let newest = test_env.callboard(&["show", "trial", "--at", "6", "--json"]).run().json();
    let now = test_env.callboard(&["show", "trial", "--json"]).run().json();
    assert_eq!((&newest["document"], &newest["status"]), (&now["document"], &now["status"]));
}

#[test]
fn an_unknown_revision_is_an_error_with_the_valid_range() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["show", "trial", "--at", "0"]).run().transcript(), @"
    $ callboard show trial --at 0
    error: run `trial` has no revision 0: it has 1 to 3

    hint: run `callboard log trial` to list its revisions
    [exit 2]
    ");
    for command in
        [["show", "trial", "--at", "4"], ["diff", "trial", "1", "4"], ["log", "trial", "--since", "4"]]
    {
        let refused = test_env.callboard(&command).run();
        assert_eq!(refused.code, 2, "{}", refused.transcript());
        assert!(refused.stderr.contains("no revision 4: it has 1 to 3"), "{}", refused.stderr);
    }
    for command in [["show", "ghost"], ["log", "ghost"], ["watch", "ghost"]] {
        assert_eq!(test_env.callboard(&command).run().code, 2);
    }
}

#[test]
fn the_last_error_is_shown_without_the_directory_of_its_attempt() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * exit 3"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    std::fs::remove_dir_all(test_env.store_dir().join("attempts")).unwrap();
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  failed  0/1 steps  revision 5
    run `callboard retry trial` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
      failed a  attempt 2  [TIME]
    last error: a#1.2, [TIME] ago: Agent process exited with code 3 without a report: a gives up
      its directory is gone
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
}

#[test]
fn a_suspended_engine_is_shown_with_how_to_continue_it() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["show", "trial", "--json"]).run().json()["engine"]["suspended"], false);
    running.signal(rustix::process::Signal::STOP);
    testkit::wait_until_suspended(running.pid());
    let shown = test_env.callboard(&["show", "trial"]).run();
    let hint = format!("suspended: run `kill -CONT {}` to continue it", running.pid());
    assert!(shown.stdout.contains(&hint), "{}", shown.stdout);
    running.signal(rustix::process::Signal::CONT);
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn an_agent_that_is_gone_is_not_shown_as_running() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    let step_status =
        || test_env.callboard(&["show", "trial", "--json"]).run().json()["steps"]["a"]["status"].clone();
    assert_eq!(step_status(), "running");
    let claim = std::fs::read_to_string(test_env.attempt_dir("trial", "a", "1.1").join("claim")).unwrap();
    let claim: Value = serde_json::from_str(&claim).unwrap();
    let shim = testkit::ProcessHandle::of(i32::try_from(claim["pid"].as_i64().unwrap()).unwrap()).unwrap();
    shim.kill();
    shim.wait();
    assert_eq!(step_status(), "ended");
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
}

#[test]
fn a_skipped_step_shows_who_skipped_it_and_an_old_error_shows_that_the_step_succeeded_since() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["a 1 exit 3", "b * wait barrier"]);
    let _never_opened = test_env.barrier("barrier");
    let running = test_env.run(&[]).env("CALLBOARD_BACKOFF", "1ms").env("USER", "ada").start();
    test_env.agent_log().wait_for_start("b#1.1");
    let skip = ["skip", "trial", "c", "--reason", "written by hand"];
    assert_eq!(test_env.callboard(&skip).env("USER", "ada").run().code, 0);
    assert_eq!(test_env.callboard(&["stop", "trial"]).env("USER", "ada").run().code, 0);
    assert_eq!(running.wait().code, 130);
    assert_snapshot!(test_env.callboard(&["show", "trial"]).run().transcript(), @"
    $ callboard show trial
    trial trial  stopped  2/3 steps  revision 8
    stopped [TIME] ago by ada on [HOST]; run `callboard resume trial` to continue it
      succeeded (COMPLETED) a  attempt 2  [TIME]
      queued (PENDING)      b  held for [TIME]  Agent process was stopped
      skipped               c  by ada: written by hand
    last error: a#1.1, [TIME] ago (a succeeded since): Agent process exited with code 3 without a report: a gives up
      [STORE]/attempts/trial/a/1.1/stderr.log
    [REPO]/.agents/runs/trial/run_state.json
    [exit 0]
    ");
    let retried = test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(retried.code, 3);
    assert!(retried.stderr.contains("`callboard resume trial` to continue"), "{}", retried.stderr);
}
