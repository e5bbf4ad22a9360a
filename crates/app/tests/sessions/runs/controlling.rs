//! Users control a run: pause, resume, retry, skip, failure policies; agents cannot.
//!
//! `workflow(&["b: a"])` makes a step `b` that needs `a`. A line of `script_agent` is a step, the number of its attempt (`*`:
//! each of them), and what the scripted agent does in it.

mod loops;
mod original_failures;

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;
use testkit::{ProcessHandle, TestEnv};

use crate::sessions::{last_error, status, test_env};

/// Returns the status of the run `trial`.
fn run_status(test_env: &TestEnv) -> Value {
    test_env.callboard(&["show", "trial", "--json"]).run().json()["status"].clone()
}

#[test]
fn a_paused_run_lets_agents_finish_and_starts_nothing() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_snapshot!(test_env.callboard(&["pause", "trial", "--reason", "lunch"]).run().transcript(), @"
    $ callboard pause trial --reason lunch
    run `trial` is paused; run `callboard resume trial` to continue it
    [exit 0]
    ");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0, "a second pause changes nothing");
    barrier.open();
    let document =
        test_env.wait_for_view("trial", "the first step", |document| status(document, "a") == "COMPLETED");
    assert_eq!(status(&document, "b"), "PENDING", "the commit that might have started it did not");
    assert!(!running.has_ended(), "a paused engine stays");
    assert_eq!(run_status(&test_env), "paused");
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(
        resumed.stderr.contains(&format!("its engine, process {}, continues", running.pid())),
        "{}",
        resumed.stderr
    );
    assert_eq!(running.wait().code, 0);
    assert_eq!(
        test_env.agent_log().starts_and_ends(),
        ["begin a#1.1", "end a#1.1", "begin b#1.1", "end b#1.1"]
    );
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("pause: lunch  tester on "), "{}", log.stdout);
}

#[test]
fn flags_that_the_engine_of_a_paused_run_cannot_follow_are_refused() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    let flags = ["--jobs", "2", "--abandon-host", "away", "--env", "A=1", "--env", "B=2"];
    let refused = test_env.callboard(&[&["resume", "trial"][..], &flags].concat()).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let pid = running.pid();
    let why = format!(
        "its engine, process {pid}, is alive and continues without `--jobs`, `--abandon-host`, `--env`\n"
    );
    assert!(refused.stderr.contains(&why), "{}", refused.stderr);
    assert_eq!(run_status(&test_env), "paused");
    assert_eq!(test_env.callboard(&["resume", "trial", "--detach"]).run().code, 0, "it is not waited for");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

/// A process that the killed engine was starting may keep its lock, and the lock file still names the engine.
#[test]
fn embedded_a_killed_engine_that_is_still_named_refuses_no_flags() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let _barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    running.kill();
    running.wait();
    let lock = fs::File::open(test_env.store_dir().join("engines/trial.lock")).unwrap();
    lock.lock().unwrap();
    let resumed = test_env.callboard(&["resume", "trial", "--jobs", "2"]).run();
    assert_eq!(resumed.code, 5, "the lock is held, and no engine is alive: {}", resumed.transcript());
    drop(lock);
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
}

#[test]
fn a_back_off_that_is_pending_at_resume_is_waited_for() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 exit 1"]);
    let running = test_env.run(&[]).env("CALLBOARD_BACKOFF", "1h").start();
    running.wait_for_stderr("a#1.1 failed, retrying in");
    running.kill();
    running.wait();
    let resumed = test_env.callboard(&["resume", "trial"]).env("CALLBOARD_BACKOFF", "1h").start();
    resumed.wait_for_stderr("run trial");
    // The engine's loop has run before it takes the request.
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1"]);
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(resumed.wait().code, 130);
}

#[test]
fn a_pause_holds_a_retry_whose_back_off_has_elapsed() {
    let test_env = test_env();
    test_env.workflow(&["a", "other"]);
    test_env.script_agent(&["a 1 wait-and-fail barrier", "other * wait other-barrier"]);
    let (mut barrier, mut other_barrier) = (test_env.barrier("barrier"), test_env.barrier("other-barrier"));
    let running = test_env.run(&["--jobs", "2"]).env("CALLBOARD_BACKOFF", "1ms").start();
    test_env.agent_log().wait_for_start("a#1.1");
    test_env.agent_log().wait_for_start("other#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    barrier.open();
    running.wait_for_stderr("a#1.1 failed, retrying in");
    other_barrier.open();
    // The engine's loop has run once more since the back-off elapsed.
    running.wait_for_stderr("other#1.1 finished");
    assert_eq!(test_env.agent_log().started().len(), 2, "{:?}", test_env.agent_log().started());
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_run_without_an_engine_can_be_paused_and_resumed() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    running.kill();
    running.wait();
    let paused = test_env.callboard(&["pause", "trial"]).run();
    assert_eq!(paused.code, 0, "{}", paused.transcript());
    assert!(!agent.has_ended(), "agents work on");
    assert_eq!(run_status(&test_env), "paused");
    barrier.open();
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn a_succeeded_run_is_neither_paused_nor_skipped_nor_retried() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let commands = [
        &["pause", "trial"][..],
        &["stop", "trial"],
        &["retry", "trial"],
        &["retry", "trial", "a"],
        &["skip", "trial", "a", "--reason", "late"],
        &["resume", "trial"],
    ];
    for command in commands {
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 3, "{}", session.transcript());
    }
    let revisions = test_env.journal("trial").len();
    assert_eq!(test_env.callboard(&["retry", "trial"]).run().code, 3);
    assert_eq!(test_env.journal("trial").len(), revisions, "a refusal to a person leaves no entry");
}

/// Makes a run that ended with two failed steps.
fn run_with_two_failed_steps() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a", "d: b"]);
    test_env.script_agent(&["a * exit 1", "b * exit 1"]);
    let session = test_env.run(&["--max-attempts", "1", "--on-failure", "continue", "--jobs", "1"]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert_eq!((status(&document, "a"), status(&document, "b")), ("FAILED", "FAILED"));
    test_env
}

#[test]
fn one_failed_step_can_be_retried() {
    let test_env = run_with_two_failed_steps();
    test_env.script_agent(&["b * exit 1"]);
    let session = test_env.callboard(&["retry", "trial", "a", "--reason", "fixed", "--jobs", "1"]).run();
    assert_eq!(session.code, 1, "b has still failed: {}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "a#2.1", "c#1.1"]);
    let document = test_env.document("trial");
    assert_eq!((status(&document, "a"), &document["steps"]["a"]["attempts"]), ("COMPLETED", &1.into()));
    assert_eq!(status(&document, "b"), "FAILED");
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("retry a: fixed  tester on "), "{}", log.stdout);
}

#[test]
fn all_failed_steps_can_be_retried() {
    let test_env = run_with_two_failed_steps();
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["retry", "trial", "--jobs", "1"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let started = test_env.agent_log().started();
    assert!(started.contains(&"a#2.1".to_owned()) && started.contains(&"b#2.1".to_owned()), "{started:?}");
}

#[test]
fn a_retry_during_a_run_is_left_to_its_engine() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a b"]);
    test_env.script_agent(&["a * exit 1", "b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1", "--on-failure", "continue", "--jobs", "2"]).start();
    running.wait_for_stderr("a#1.1 failed");
    test_env.agent_log().wait_for_start("b#1.1");
    test_env.script_agent(&[]);
    let retried = test_env.callboard(&["retry", "trial", "a"]).run();
    assert_eq!(retried.code, 0, "{}", retried.transcript());
    assert!(retried.stderr.contains("its engine, process"), "{}", retried.stderr);
    test_env.agent_log().wait_for_end("a#2.1");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn a_retry_where_nothing_failed_is_refused() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_snapshot!(test_env.callboard(&["retry", "trial"]).run().transcript(), @"
    $ callboard retry trial
    error[E013]: cannot retry run `trial`
      caused by: nothing in it has failed
    [exit 3]
    ");
    assert_snapshot!(test_env.callboard(&["retry", "trial", "a"]).run().transcript(), @"
    $ callboard retry trial a
    error[E013]: cannot retry run `trial`
      caused by: `a` has not failed
    [exit 3]
    ");
    assert_snapshot!(test_env.callboard(&["retry", "trial", "aa"]).run().transcript(), @"
    $ callboard retry trial aa
    error: run `trial` has no step `aa`

    hint: run `callboard show trial` to list its steps
    [exit 2]
    ");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    assert_eq!(test_env.callboard(&["retry", "trial"]).run().code, 3, "without an engine, too");
}

#[test]
fn a_skipped_step_counts_as_done_and_shows_who_skipped_it_and_why() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["a * wait barrier", "c * wait c-barrier"]);
    let (mut barrier, mut c_barrier) = (test_env.barrier("barrier"), test_env.barrier("c-barrier"));
    let running = test_env.run(&["--jobs", "3"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let skipped = test_env.callboard(&["skip", "trial", "b", "--reason", "written by hand"]).run();
    assert_eq!(skipped.code, 0, "{}", skipped.transcript());
    assert_eq!(
        test_env.callboard(&["skip", "trial", "b", "--reason", "again"]).run().code,
        0,
        "a second skip changes nothing"
    );
    test_env.agent_log().wait_for_start("c#1.1");
    // The skipped step is not queued when its needs are done.
    barrier.open();
    running.wait_for_stderr("a#1.1 finished");
    c_barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "c#1.1"]);
    let document = test_env.document("trial");
    assert_eq!(status(&document, "b"), "SKIPPED");
    assert_eq!(document["steps"]["b"]["logs"], serde_json::json!(["Skipped by tester: written by hand"]));
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("skip b: written by hand  tester on "), "{}", log.stdout);
    assert!(!log.stdout.contains("skip b: again"), "what is already so needs no entry");
}

#[test]
fn skipping_the_failed_step_lets_an_ended_run_be_resumed() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * exit 1"]);
    assert_eq!(test_env.run(&["--max-attempts", "1"]).run().code, 1);
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 3);
    let skipped = test_env.callboard(&["skip", "trial", "a", "--reason", "hopeless"]).run();
    assert_eq!(skipped.code, 0, "{}", skipped.transcript());
    assert!(skipped.stderr.contains("`callboard resume trial` to continue"), "{}", skipped.stderr);
    assert_eq!(test_env.agent_log().started(), ["a#1.1"], "`skip` starts nothing itself");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn a_running_or_succeeded_step_cannot_be_skipped() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    assert_snapshot!(test_env.callboard(&["skip", "trial", "b", "--reason", "x"]).run().transcript(), @"
    $ callboard skip trial b --reason x
    error[E013]: cannot skip a step of run `trial`
      caused by: `b` is running
    [exit 3]
    ");
    assert_snapshot!(test_env.callboard(&["skip", "trial", "a", "--reason", "x"]).run().transcript(), @"
    $ callboard skip trial a --reason x
    error[E013]: cannot skip a step of run `trial`
      caused by: `a` is done
    [exit 3]
    ");
    assert_eq!(test_env.callboard(&["skip", "trial", "b"]).run().code, 2, "a reason is needed");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

/// An agent that tries each control command twice: with and without the variables that mark it as part of an attempt.
const TRIES_CONTROL_COMMANDS: &str = r#"a * do for word in pause stop retry resume 'skip trial b --reason x'; do set -- $word; [ $# -gt 1 ] || set -- "$1" trial; for hidden in '' "env -i CALLBOARD_STORE=$CALLBOARD_STORE"; do $hidden "$shared/callboard" "$@" 2>>"$shared/said"; echo $? >>"$shared/codes"; done; done; write_report COMPLETED "did a""#;

#[test]
fn agents_cannot_control_their_own_run() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&[TRIES_CONTROL_COMMANDS]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let codes = fs::read_to_string(test_env.agent_dir().join("codes")).unwrap();
    let stderr = fs::read_to_string(test_env.agent_dir().join("said")).unwrap();
    assert_eq!(codes.lines().collect::<Vec<_>>(), ["3"; 10], "{stderr}");
    assert_eq!(stderr.matches("from inside attempt `a#1.1`").count(), 10, "{stderr}");
    let refused: Vec<_> = test_env
        .journal("trial")
        .into_iter()
        .filter_map(|line| line["entry"]["input"].get("refused").cloned())
        .collect();
    assert_eq!(refused.len(), 10, "each is in the journal");
    assert!(refused.iter().all(|refused| refused["attempt"] == "a#1.1"), "{refused:?}");
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("refused skip b: it came from inside a#1.1"), "{}", log.stdout);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED", "and nothing came of it");
}

#[test]
fn a_dead_agents_orphan_cannot_control_the_run() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    // The orphan has no ancestor in the attempt, but its environment still has the variables of the attempt.
    test_env.script_agent(&[r#"a * do setsid sh -c 'read -r _ <"$0/barrier"; "$0/callboard" stop trial; echo $? >"$0/code"' "$shared" </dev/null >/dev/null 2>&1 & log_event grandchild "$CALLBOARD_ATTEMPT" $!; hang"#]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("it hangs");
    test_env.agent_log().wait_for_grandchild("a#1.1");
    // Engine and shim would kill the orphan.
    running.kill();
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives").kill();
    agent.wait();
    barrier.open();
    assert_eq!(test_env.wait_for_lines("code").trim(), "3");
}

#[test]
fn by_default_a_failure_stops_the_siblings() {
    let test_env = test_env();
    test_env.workflow(&["bad", "slow", "other: slow"]);
    test_env.script_agent(&["bad * wait-and-fail barrier", "slow * hang"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1", "--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("slow#1.1");
    barrier.open();
    assert_eq!(running.wait().code, 1);
    let document = test_env.document("trial");
    assert_eq!((status(&document, "slow"), &document["steps"]["slow"]["attempts"]), ("PENDING", &0.into()));
    assert_eq!(last_error(&document, "slow"), "Stopped because `bad` failed");
    test_env.expect_no_orphans();
}

#[test]
fn with_drain_running_steps_finish_and_nothing_more_starts() {
    let test_env = test_env();
    test_env.workflow(&["bad", "slow", "other: slow"]);
    test_env.script_agent(&["bad * exit 1", "slow * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1", "--jobs", "2", "--on-failure", "drain"]).start();
    running.wait_for_stderr("bad#1.1 failed");
    test_env.agent_log().wait_for_start("slow#1.1");
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert_eq!((status(&document, "slow"), status(&document, "other")), ("COMPLETED", "PENDING"));
    assert!(!test_env.agent_log().started().contains(&"other#1.1".to_owned()));
}

#[test]
fn with_continue_all_independent_steps_run() {
    let test_env = test_env();
    test_env.workflow(&["bad", "after: bad", "slow", "other: slow"]);
    test_env.script_agent(&["bad * exit 1", "slow * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1", "--jobs", "2", "--on-failure", "continue"]).start();
    running.wait_for_stderr("bad#1.1 failed");
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert_eq!((status(&document, "slow"), status(&document, "other")), ("COMPLETED", "COMPLETED"));
    assert_eq!((status(&document, "bad"), status(&document, "after")), ("FAILED", "PENDING"));
}

#[test]
fn skipping_all_remaining_steps_of_a_paused_run_succeeds() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    barrier.open();
    running.wait_for_stderr("a#1.1 finished");
    assert_eq!(test_env.callboard(&["skip", "trial", "b", "--reason", "enough"]).run().code, 0);
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "b"), "SKIPPED");
}

#[test]
fn skipping_all_remaining_steps_without_an_engine_succeeds() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * exit 1"]);
    assert_eq!(test_env.run(&["--max-attempts", "1"]).run().code, 1);
    let skipped = test_env.callboard(&["skip", "trial", "b", "--reason", "enough"]).run();
    assert_eq!(skipped.code, 0, "{}", skipped.transcript());
    assert_eq!(status(&test_env.document("trial"), "b"), "SKIPPED");
    assert_eq!(run_status(&test_env), "succeeded");
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 3);
}

#[test]
fn a_paused_run_can_be_stopped_and_a_stopped_one_is_not_paused() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_eq!(test_env.callboard(&["pause", "trial"]).run().code, 0);
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 130);
    test_env.expect_no_orphans();
    let refused = test_env.callboard(&["pause", "trial"]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("it is stopped"), "{}", refused.stderr);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
}

#[test]
fn a_stopped_run_continues_when_its_failed_step_is_retried() {
    let test_env = test_env();
    test_env.workflow(&["a", "b"]);
    test_env.script_agent(&["a * exit 1", "b * hang"]);
    let running = test_env.run(&["--max-attempts", "1", "--on-failure", "continue", "--jobs", "2"]).start();
    running.wait_for_stderr("a#1.1 failed");
    test_env.agent_log().wait_for_start("b#1.1");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(running.wait().code, 130);
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["retry", "trial"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

#[test]
fn a_run_that_is_ending_is_neither_paused_nor_retried() {
    let test_env = test_env();
    test_env.workflow(&["bad", "slow"]);
    test_env.script_agent(&["bad * exit 1", "slow * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1", "--jobs", "2", "--on-failure", "drain"]).start();
    running.wait_for_stderr("bad#1.1 failed");
    test_env.agent_log().wait_for_start("slow#1.1");
    for command in [&["pause", "trial"][..], &["retry", "trial"], &["skip", "trial", "bad", "--reason", "x"]]
    {
        let refused = test_env.callboard(command).run();
        assert_eq!(refused.code, 3, "{}", refused.transcript());
        assert!(refused.stderr.contains("it is ending"), "{}", refused.stderr);
    }
    barrier.open();
    assert_eq!(running.wait().code, 1);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["retry", "trial"]).run().code, 0, "when it has ended it can be");
}
