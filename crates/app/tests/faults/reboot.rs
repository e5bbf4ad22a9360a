//! The machine rebooted: another boot id on disk, torn files, no process alive.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{ProcessHandle, TestEnv, UnrelatedProcess};

use crate::faults::{killed_run, test_env};

/// Makes a run whose engine was killed. Its first agent exited after that, without a report.
fn agent_exited_without_engine() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * wait-and-fail barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.kill();
    running.wait();
    barrier.open();
    let attempt = test_env.attempt_dir("trial", "a", "1.1");
    testkit::wait_until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
    test_env.script_agent(&[]);
    test_env
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

const ANOTHER_BOOT: &str = "00000000-1111-2222-3333-444444444444";

/// Replaces the boot id in a file by another one, as after a reboot.
fn replace_boot_id(file: &Path) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(&boot_id()), "{text}");
    fs::write(file, text.replace(&boot_id(), ANOTHER_BOOT)).unwrap();
}

/// Replaces the boot id in all entries of the journal.
fn replace_boot_id_in_journal(test_env: &TestEnv) {
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    let update = "UPDATE entries SET body = replace(body, ?1, ?2) WHERE instr(body, ?1) > 0";
    assert!(database.execute(update, [boot_id().as_str(), ANOTHER_BOOT]).unwrap() > 0);
}

#[track_caller]
fn expect_repeated_and_not_counted(test_env: &TestEnv) {
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("a#1.1 was interrupted"), "{}", resumed.stderr);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
    test_env.expect_no_orphans();
}

#[test]
fn embedded_an_attempt_of_another_boot_is_repeated_and_its_reused_pid_left_alone() {
    let test_env = killed_run();
    let unrelated = UnrelatedProcess::start();
    // The unrelated process has the pid and even the start time of the shim, but in another boot.
    let claim = test_env.attempt_dir("trial", "a", "1.1").join("claim");
    let mut identity: Value = serde_json::from_slice(&fs::read(&claim).unwrap()).unwrap();
    identity["pid"] = unrelated.pid().into();
    identity["start_time"] = unrelated.start_time().into();
    fs::write(&claim, identity.to_string()).unwrap();
    replace_boot_id(&claim);
    replace_boot_id_in_journal(&test_env);
    expect_repeated_and_not_counted(&test_env);
    unrelated.expect_alive();
}

#[test]
fn embedded_an_exit_without_a_report_before_a_reboot_costs_no_attempt() {
    let test_env = agent_exited_without_engine();
    for file in ["claim", "exit.json"] {
        replace_boot_id(&test_env.attempt_dir("trial", "a", "1.1").join(file));
    }
    replace_boot_id_in_journal(&test_env);
    expect_repeated_and_not_counted(&test_env);
}

#[test]
fn an_exit_without_a_report_during_this_boot_costs_an_attempt() {
    let test_env = agent_exited_without_engine();
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 2);
}

/// Truncates a file to `halves` halves of its length, 0 or 1, as a power cut does with bytes that were never synced.
fn truncate(file: &Path, halves: u64) {
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_len(file.metadata().unwrap().len() * halves / 2).unwrap();
}

#[test]
fn a_torn_claim_has_no_owner() {
    for halves in [0, 1] {
        let test_env = killed_run();
        truncate(&test_env.attempt_dir("trial", "a", "1.1").join("claim"), halves);
        expect_repeated_and_not_counted(&test_env);
    }
}

#[test]
fn a_torn_exit_record_is_ignored() {
    for halves in [0, 1] {
        let test_env = agent_exited_without_engine();
        truncate(&test_env.attempt_dir("trial", "a", "1.1").join("exit.json"), halves);
        expect_repeated_and_not_counted(&test_env);
    }
}

#[test]
fn a_torn_report_costs_no_attempt() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&[r#"a * do write_report COMPLETED "did a"; : >"$shared/reported"; hang"#]);
    let running = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("a#1.1")).expect("at work");
    test_env.wait_for_file("reported");
    running.kill();
    ProcessHandle::shim(&test_env.attempt_dir("trial", "a", "1.1")).expect("its shim lives").kill();
    running.wait();
    agent.wait();
    truncate(&test_env.attempt_dir("trial", "a", "1.1").join("report.json"), 1);
    test_env.script_agent(&[]);
    expect_repeated_and_not_counted(&test_env);
}
