//! `kill -9` at known moments. `torture.rs` does it at random ones.

use insta::assert_snapshot;
use testkit::{ProcessHandle, ViewReader};

use crate::sessions::{last_error, scene, status};

#[test]
fn agents_outlive_the_engine_and_are_adopted() {
    let scene = scene();
    scene.workflow(&["a", "b", "c: a b"]);
    scene.plan(&["a * wait gate", "b * wait gate"]);
    let mut gate = scene.gate("gate");
    let reader = ViewReader::start(&scene.view("trial"));
    let running = scene.run(&["--jobs", "2"]).start();
    let agents = ["a#1.1", "b#1.1"]
        .map(|attempt| ProcessHandle::of(scene.agent_log().wait_for_start(attempt)).expect("at work"));
    running.kill();
    assert_eq!(running.wait().code, -1);
    assert!(agents.iter().all(|agent| !agent.has_ended()), "they work on");
    let resumed = scene.callboard(&["resume", "--jobs", "2"]).start();
    resumed.wait_until_it_says("b#1.1 is still running: adopted");
    gate.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let mut started = scene.agent_log().started();
    started.sort();
    assert_eq!(started, ["a#1.1", "b#1.1", "c#1.1"], "each ran once");
    reader.expect_whole_views();
    scene.expect_no_orphans();
}

#[test]
fn an_attempt_that_ended_without_an_engine_keeps_its_result() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    gate.open();
    let exit = scene.attempt("trial", "a", "1.1");
    testkit::until(&exit, "the exit record", || exit.join("exit.json").exists().then_some(()));
    assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
}

#[test]
fn an_attempt_whose_shim_is_killed_is_repeated_and_not_counted() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives").kill();
    agent.wait();
    scene.agent_log().wait_for_start("a#1.2");
    gate.open();
    assert_snapshot!(running.wait().transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [KIT]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ↻ a#1.1 was interrupted: Agent process was interrupted: its shim was killed
    ▸ a#1.2 started
    ✓ a#1.2 finished [TIME]

    run `trial` succeeded: 1 of 1 steps done, [TIME]
    [exit 0]
    ");
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
    scene.expect_no_orphans();
}

#[test]
fn a_killed_shims_processes_are_killed_before_the_next_attempt() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * grandchild gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    let left = scene.agent_log().wait_for_grandchild("a#1.1");
    let left = ProcessHandle::of(left).expect("it lives in a session of its own");
    ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives").kill();
    scene.agent_log().wait_for_start("a#1.2");
    assert!(left.has_ended());
    gate.open();
    assert_eq!(running.wait().code, 0);
    scene.expect_no_orphans();
}

#[test]
fn a_process_that_keeps_calling_exec_is_found() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * restless gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    let mut left = Vec::new();
    for number in 1..=5 {
        let pid = scene.agent_log().wait_for_grandchild(&format!("a#1.{number}"));
        left.extend(ProcessHandle::of(pid));
        ProcessHandle::shim(&scene.attempt("trial", "a", &format!("1.{number}")))
            .expect("its shim lives")
            .kill();
    }
    gate.open();
    assert_eq!(running.wait().code, 0);
    let alive: Vec<_> = left.iter().filter(|left| !left.has_ended()).collect();
    alive.iter().for_each(|left| left.kill());
    assert_eq!((left.len(), alive.len()), (5, 0), "left behind: {alive:?}");
}

#[test]
fn a_turn_that_is_interrupted_too_often_fails() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).start();
    // The first attempt and five repeats.
    for number in 1..=6 {
        scene.agent_log().wait_for_start(&format!("a#1.{number}"));
        ProcessHandle::shim(&scene.attempt("trial", "a", &format!("1.{number}")))
            .expect("its shim lives")
            .kill();
    }
    let session = running.wait();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let document = scene.document("trial");
    assert_eq!(status(&document, "a"), "FAILED");
    assert!(last_error(&document, "a").contains("interrupted"), "{}", last_error(&document, "a"));
    scene.expect_no_orphans();
}

#[test]
fn engine_and_shim_may_die_together() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    running.kill();
    ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives").kill();
    running.wait();
    agent.wait();
    gate.open();
    assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2"]);
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
}

#[test]
fn a_detached_run_continues_in_the_background() {
    let scene = scene();
    scene.workflow(&["a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let session = scene.run(&["--detach"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [KIT]/agent.sh --detach
    note: run `callboard watch trial` to follow it, `callboard stop trial` to stop it
    trial
    [exit 0]
    ");
    scene.agent_log().wait_for_start("a#1.1");
    let refused = scene.callboard(&["resume"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    gate.open();
    scene.wait_for_engine("trial");
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
    scene.expect_no_orphans();
}

#[test]
fn a_detached_run_prints_its_pid_as_json() {
    let scene = scene();
    scene.workflow(&["a"]);
    let session = scene.run(&["--detach", "--json"]).run();
    let event = session.json();
    assert_eq!((&event["event"], &event["run"]), (&"detached".into(), &"trial".into()));
    assert!(event["pid"].as_u64().is_some());
    scene.wait_for_engine("trial");
    assert_eq!(status(&scene.document("trial"), "a"), "COMPLETED");
}

#[test]
fn embedded_a_store_removed_under_an_engine_ends_it_with_an_error() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    std::fs::rename(scene.store(), scene.home().join("gone")).unwrap();
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("error[E002]:"), "{}", session.stderr);
    assert_eq!(scene.agent_log().started(), ["a#1.1"], "nothing is begun without a store");
}
