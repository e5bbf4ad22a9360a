//! The machine rebooted: another boot id on disk, torn files, no process alive.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{ProcessHandle, Scene, UnrelatedProcess};

use crate::faults::{killed_run, scene};

/// Makes a run whose first agent exited without a report before its engine was killed.
fn down_after_an_agents_exit() -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * wait-and-fail gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    gate.open();
    let attempt = scene.attempt("trial", "a", "1.1");
    testkit::until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
    scene.plan(&[]);
    scene
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

const ANOTHER_BOOT: &str = "00000000-1111-2222-3333-444444444444";

/// Gives a file another boot id.
fn age(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(&boot_id()), "{text}");
    fs::write(file, text.replace(&boot_id(), ANOTHER_BOOT)).unwrap();
}

/// Gives the whole journal another boot id.
fn age_journal(scene: &Scene) {
    let database = rusqlite::Connection::open(scene.store().join("callboard.db")).unwrap();
    let change = "UPDATE entries SET body = replace(body, ?1, ?2) WHERE instr(body, ?1) > 0";
    assert!(database.execute(change, [boot_id().as_str(), ANOTHER_BOOT]).unwrap() > 0);
}

#[track_caller]
fn expect_repeated_and_not_counted(scene: &Scene) {
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("a#1.1 was interrupted"), "{}", resumed.stderr);
    assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
    scene.expect_no_orphans();
}

#[test]
fn embedded_an_attempt_of_another_boot_is_repeated_and_its_reused_pid_left_alone() {
    let scene = killed_run();
    let innocent = UnrelatedProcess::start();
    // It has the pid and even the start time of the shim, counted from another boot.
    let claim = scene.attempt("trial", "a", "1.1").join("claim");
    let mut identity: Value = serde_json::from_slice(&fs::read(&claim).unwrap()).unwrap();
    identity["pid"] = innocent.pid().into();
    identity["start_time"] = innocent.start_time().into();
    fs::write(&claim, identity.to_string()).unwrap();
    age(&claim);
    age_journal(&scene);
    expect_repeated_and_not_counted(&scene);
    innocent.expect_alive();
}

#[test]
fn embedded_an_exit_without_a_report_before_a_reboot_costs_no_attempt() {
    let scene = down_after_an_agents_exit();
    for file in ["claim", "exit.json"] {
        age(&scene.attempt("trial", "a", "1.1").join(file));
    }
    age_journal(&scene);
    expect_repeated_and_not_counted(&scene);
}

#[test]
fn the_same_exit_of_this_boot_costs_an_attempt() {
    let scene = down_after_an_agents_exit();
    let resumed = scene.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 2);
}

/// Cuts a file to a part of its length, as a power cut does with what was never synced.
fn tear(file: &Path, part: u64) {
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_len(file.metadata().unwrap().len() * part / 2).unwrap();
}

#[test]
fn a_torn_claim_has_no_owner() {
    for part in [0, 1] {
        let scene = killed_run();
        tear(&scene.attempt("trial", "a", "1.1").join("claim"), part);
        expect_repeated_and_not_counted(&scene);
    }
}

#[test]
fn a_torn_exit_record_is_ignored() {
    for part in [0, 1] {
        let scene = down_after_an_agents_exit();
        tear(&scene.attempt("trial", "a", "1.1").join("exit.json"), part);
        expect_repeated_and_not_counted(&scene);
    }
}

#[test]
fn a_torn_report_costs_no_attempt() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&[r#"a * do hand_in COMPLETED "did a"; : >"$kit/reported"; hang"#]);
    let running = scene.run(&[]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("a#1.1")).expect("at work");
    scene.wait_for_note("reported");
    running.kill();
    ProcessHandle::shim(&scene.attempt("trial", "a", "1.1")).expect("its shim lives").kill();
    running.wait();
    agent.wait();
    tear(&scene.attempt("trial", "a", "1.1").join("report.json"), 1);
    scene.plan(&[]);
    expect_repeated_and_not_counted(&scene);
}
