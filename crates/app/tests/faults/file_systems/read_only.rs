//! A store that is read-only, by mount or by file modes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use testkit::{Disk, Isolation, TestEnv, isolated};

use crate::faults::test_env;

/// Expects that inspecting commands work and that all others are refused with the reason.
fn expect_read_only(test_env: &TestEnv, reason: &str) {
    for command in [&["ls"][..], &["show", "trial"], &["log", "trial"], &["log", "trial", "--json"]] {
        let inspected = test_env.callboard(command).run();
        assert_eq!(inspected.code, 0, "{}", inspected.transcript());
        assert!(!inspected.stdout.is_empty(), "{}", inspected.transcript());
    }
    for command in ["resume", "stop", "pause", "retry"] {
        let refused = test_env.callboard(&[command, "trial"]).run();
        assert_eq!(refused.code, 5, "{}", refused.transcript());
        assert!(refused.stderr.contains("cannot be written"), "{}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    let refused = test_env.run_named("second").run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("cannot be written"), "{}", refused.stderr);
}

/// Makes a run that was interrupted in its first step.
fn interrupted_run() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::INT);
    assert_eq!(running.wait().code, 130);
    test_env
}

#[test]
fn embedded_a_store_on_a_read_only_mount_can_be_inspected_only() {
    isolated(Isolation::Mounts, || {
        let test_env = interrupted_run();
        let disk = Disk::bind_mount(test_env.store_dir());
        disk.make_read_only();
        expect_read_only(&test_env, "Read-only file system");
        disk.make_writable();
        test_env.script_agent(&[]);
        assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    });
}

#[test]
fn embedded_a_killed_engines_store_can_be_inspected_on_a_read_only_mount() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        test_env.workflow(&["a", "b: a"]);
        test_env.script_agent(&["a * wait barrier"]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.agent_log().wait_for_start("a#1.1");
        running.kill();
        running.wait();
        assert!(
            fs::metadata(test_env.store_dir().join("callboard.db-wal")).unwrap().len() > 0,
            "the killed engine left a write-ahead log"
        );
        barrier.open();
        let attempt = test_env.attempt_dir("trial", "a", "1.1");
        testkit::wait_until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
        let disk = Disk::bind_mount(test_env.store_dir());
        disk.make_read_only();
        expect_read_only(&test_env, "Read-only file system");
        disk.make_writable();
        assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    });
}

#[test]
fn embedded_a_store_with_read_only_modes_can_be_inspected_only() {
    isolated(Isolation::PlainUser, || {
        let test_env = interrupted_run();
        let set_modes = |directory: u32, file: u32| {
            for entry in fs::read_dir(test_env.store_dir()).unwrap().flatten() {
                let mode = if entry.metadata().unwrap().is_dir() { directory } else { file };
                fs::set_permissions(entry.path(), Permissions::from_mode(mode)).unwrap();
            }
            fs::set_permissions(test_env.store_dir(), Permissions::from_mode(directory)).unwrap();
        };
        set_modes(0o500, 0o400);
        expect_read_only(&test_env, "Permission denied");
        set_modes(0o700, 0o600);
        test_env.script_agent(&[]);
        assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    });
}
