//! `kill -9` of engines, shims and agents at chosen moments. `torture.rs` does it at random ones.

use insta::assert_snapshot;
use testkit::{ProcessHandle, ViewReader};

use crate::sessions::{last_error, status, test_env};

#[test]
fn agents_outlive_the_engine_and_are_adopted() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a b"]);
    test_env.script_agent(&["a * wait barrier", "b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let reader = ViewReader::start(&test_env.view_path("trial"));
    let running = test_env.run(&["--jobs", "2"]).start();
    let agents = ["a#1.1", "b#1.1"]
        .map(|attempt| ProcessHandle::of(test_env.agent_log().wait_for_start(attempt)).expect("at work"));
    running.kill();
    assert_eq!(running.wait().code, -1);
    assert!(agents.iter().all(|agent| !agent.has_ended()), "they work on");
    let resumed = test_env.callboard(&["resume", "--jobs", "2"]).start();
    resumed.wait_for_stderr("b#1.1 is still running: adopted");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let mut started = test_env.agent_log().started();
    started.sort();
    assert_eq!(started, ["a#1.1", "b#1.1", "c#1.1"], "each ran once");
    reader.expect_whole_views();
    test_env.expect_no_orphans();
}

#[test]
fn an_attempt_that_ended_without_an_engine_keeps_its_result() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    barrier.open();
    let attempt_dir = test_env.attempt_dir("trial", "a", "1.1");
    testkit::wait_until(&attempt_dir, "the exit record", || {
        attempt_dir.join("exit.json").exists().then_some(())
    });
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn an_attempt_whose_shim_is_killed_is_repeated_and_not_counted() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives").kill();
    agent.wait();
    test_env.agent_log().wait_for_start("a#1.2");
    barrier.open();
    assert_snapshot!(running.wait().transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ↻ a#1.1 was interrupted: Agent process was interrupted: its shim was killed
    ▸ a#1.2 started
    ✓ a#1.2 finished [TIME]

    run `trial` succeeded: 1 of 1 steps done, [TIME]
    [exit 0]
    ");
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
    test_env.expect_no_orphans();
}

#[test]
fn a_killed_shims_processes_are_killed_before_the_next_attempt() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * grandchild barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let grandchild = test_env.agent_log().wait_for_grandchild("a#1.1");
    let grandchild = ProcessHandle::of(grandchild).expect("it lives in a session of its own");
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives").kill();
    test_env.agent_log().wait_for_start("a#1.2");
    assert!(grandchild.has_ended());
    barrier.open();
    assert_eq!(running.wait().code, 0);
    test_env.expect_no_orphans();
}

#[test]
fn a_process_that_keeps_calling_exec_is_found() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * restless barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let mut grandchildren = Vec::new();
    for number in 1..=5 {
        let pid = test_env.agent_log().wait_for_grandchild(&format!("a#1.{number}"));
        grandchildren.extend(ProcessHandle::of(pid));
        ProcessHandle::shim(&test_env.attempt_dir("trial", "a", &format!("1.{number}")))
            .expect("its shim lives")
            .kill();
    }
    barrier.open();
    assert_eq!(running.wait().code, 0);
    let alive: Vec<_> = grandchildren.iter().filter(|grandchild| !grandchild.has_ended()).collect();
    alive.iter().for_each(|grandchild| grandchild.kill());
    assert_eq!((grandchildren.len(), alive.len()), (5, 0), "left behind: {alive:?}");
}

#[test]
fn a_turn_that_is_interrupted_too_often_fails() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    // The first attempt and five repeats.
    for number in 1..=6 {
        test_env.agent_log().wait_for_start(&format!("a#1.{number}"));
        ProcessHandle::shim(&test_env.attempt_dir("trial", "a", &format!("1.{number}")))
            .expect("its shim lives")
            .kill();
    }
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = test_env.document("trial");
    assert_eq!(status(&document, "a"), "FAILED");
    assert!(last_error(&document, "a").contains("interrupted"), "{}", last_error(&document, "a"));
    test_env.expect_no_orphans();
}

#[test]
fn engine_and_shim_may_die_together() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    running.kill();
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives").kill();
    running.wait();
    agent.wait();
    barrier.open();
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2"]);
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
}

#[test]
fn a_detached_run_continues_in_the_background() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let session = test_env.run(&["--detach"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh --detach
    note: run `callboard watch trial` to follow it, `callboard stop trial` to stop it
    trial
    [exit 0]
    ");
    test_env.agent_log().wait_for_start("a#1.1");
    let refused = test_env.callboard(&["resume"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    barrier.open();
    test_env.wait_for_engine_exit("trial");
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
    test_env.expect_no_orphans();
}

#[test]
fn a_detached_run_prints_its_pid_as_json() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let session = test_env.run(&["--detach", "--json"]).run();
    let event = session.json();
    assert_eq!((&event["event"], &event["run"]), (&"detached".into(), &"trial".into()));
    assert!(event["pid"].as_u64().is_some());
    test_env.wait_for_engine_exit("trial");
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
}

#[test]
fn embedded_a_store_removed_under_an_engine_ends_it_with_an_error() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    std::fs::rename(test_env.store_dir(), test_env.home().join("gone")).unwrap();
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("error[E002]:"), "{}", session.stderr);
    assert_eq!(test_env.agent_log().started(), ["a#1.1"], "nothing is begun without a store");
}
