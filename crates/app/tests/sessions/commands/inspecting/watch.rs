//! `watch`: a run from another terminal.

use insta::assert_snapshot;

use crate::sessions::test_env;

#[test]
fn a_run_can_be_watched_from_another_terminal() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier", "b 1 exit 3"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let watching = test_env.callboard(&["watch"]).start();
    let events = test_env.callboard(&["watch", "tri", "--json"]).start();
    watching.wait_for_stderr("a#1.1 running");
    events.wait_for_stdout("running");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_snapshot!(watching.wait().transcript(), @"
    $ callboard watch
    run trial in [REPO]: running, 0 of 2 steps done
    its engine is process [PID]
    ▸ a#1.1 running for [TIME]
    ✓ a#1.1 finished [TIME]
    ▸ b#1.1 started
    ✗ b#1.1 failed, retrying in [TIME]: Agent process exited with code 3 without a report: b gives up
    ▸ b#1.2 started
    ✓ b#1.2 finished [TIME]

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    let events = events.wait();
    assert_eq!(events.code, 0);
    let lines = events.json_lines().into_iter().map(|event| {
        let words = ["event", "status", "attempt", "result", "outcome"]
            .map(|name| event[name].as_str().unwrap_or(""));
        words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    snapshot running
    engine running
    running a#1.1
    ended a#1.1 reported
    started b#1.1
    ended b#1.1 failed
    started b#1.2
    ended b#1.2 reported
    status stopping
    status succeeded
    result succeeded
    ");
}

#[test]
fn a_watcher_sees_engines_come_and_go() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let first = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let watching = test_env.callboard(&["watch", "trial"]).start();
    watching.wait_for_stderr(&format!("its engine is process {}", first.pid()));
    first.kill();
    first.wait();
    watching.wait_for_stderr("has exited; run `callboard resume trial` to continue");
    // A later watcher sees it as well.
    let late = test_env.callboard(&["watch", "trial"]).start();
    late.wait_for_stderr("it has no engine; run `callboard resume trial` to continue");
    let second = test_env.callboard(&["resume", "trial"]).start();
    watching.wait_for_stderr(&format!("its engine is process {}", second.pid()));
    late.wait_for_stderr(&format!("its engine is process {}", second.pid()));
    barrier.open();
    assert_eq!(second.wait().code, 0);
    let watched = watching.wait();
    assert_eq!(watched.code, 0);
    assert!(watched.stdout.contains("run `trial` succeeded: 2 of 2 steps done"), "{}", watched.stdout);
    assert_eq!(late.wait().code, 0);
}

#[test]
fn watch_exits_with_the_runs_exit_code() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 wait-and-fail barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--max-attempts", "1"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let watching = test_env.callboard(&["watch"]).start();
    watching.wait_for_stderr("a#1.1 running");
    barrier.open();
    assert_eq!(running.wait().code, 1);
    assert_eq!(watching.wait().code, 1);
    // The run has ended: `watch trial` returns at once, and `watch` finds no unfinished run.
    assert_snapshot!(test_env.callboard(&["watch", "trial"]).run().transcript(), @"
    $ callboard watch trial
    run trial in [REPO]: failed, 0 of 1 steps done

    note: run `callboard retry trial` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
    run `trial` failed: 0 of 1 steps done, [TIME]
      FAILED    a  Agent process exited with code 1 without a report: a gives up
    [exit 1]
    ");
    assert_snapshot!(test_env.callboard(&["watch"]).run().transcript(), @"
    $ callboard watch
    error: there is no unfinished run

    hint: run `callboard run WORKFLOW` to start one, or `callboard ls` to list all runs
    [exit 2]
    ");
    test_env.script_agent(&["a * hang"]);
    let again = test_env.callboard(&["retry", "trial"]).start();
    test_env.agent_log().wait_for_start("a#2.1");
    let watching = test_env.callboard(&["watch"]).start();
    watching.wait_for_stderr("a#2.1 running");
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert_eq!(again.wait().code, 130);
    let watched = watching.wait();
    assert_eq!(watched.code, 130, "{}", watched.transcript());
    assert!(watched.stderr.contains("`callboard resume trial` to continue"), "{}", watched.stderr);
}

#[test]
fn ctrl_c_leaves_the_watch_and_not_the_run() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let watching = test_env.callboard(&["watch"]).start();
    watching.wait_for_stderr("a#1.1 running");
    watching.interrupt();
    assert_eq!(watching.wait().code, 130);
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(test_env.journal("trial").len(), 3, "the journal knows nothing of it");
}

#[test]
fn embedded_a_watcher_whose_store_is_removed_ends_with_5() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = testkit::ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1"));
    running.kill();
    running.wait();
    let watching = test_env.callboard(&["watch"]).start();
    watching.wait_for_stderr("a#1.1 running");
    std::fs::remove_dir_all(test_env.store_dir()).unwrap();
    let watched = watching.wait();
    assert_eq!(watched.code, 5, "{}", watched.transcript());
    assert!(watched.stderr.contains("was removed or replaced while it was in use"), "{}", watched.stderr);
    barrier.open();
    agent.unwrap().wait();
}

#[test]
fn needs_script_on_a_terminal_a_watched_step_has_a_line_with_its_last_output() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let watch = test_env.callboard(&["watch"]).on_terminal();
    let watching = watch.start();
    watching.wait_for_stdout("a at work");
    barrier.open();
    assert_eq!(running.wait().code, 0);
    let watched = watching.wait();
    assert_eq!(watched.code, 0, "{}", watched.stdout);
    assert!(watched.stdout.contains("1 of 1 steps done"), "{:?}", watched.stdout);
}
