//! A store that is read-only, by mount or by file modes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use testkit::{Disk, Isolation, Scene, isolated};

use crate::faults::scene;

/// Inspecting commands work, all others are refused with the reason, and nothing changes.
fn expect_read_only(scene: &Scene, reason: &str) {
    for command in [&["ls"][..], &["show", "trial"], &["log", "trial"], &["log", "trial", "--json"]] {
        let look = scene.callboard(command).run();
        assert_eq!(look.code, 0, "{}", look.transcript());
        assert!(!look.stdout.is_empty(), "{}", look.transcript());
    }
    for command in ["resume", "stop", "pause", "retry"] {
        let refused = scene.callboard(&[command, "trial"]).run();
        assert_eq!(refused.code, 5, "{}", refused.transcript());
        assert!(refused.stderr.contains("cannot be written"), "{}", refused.stderr);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    let refused = scene.run_named("second").run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("cannot be written"), "{}", refused.stderr);
}

/// A run that was interrupted in its first step.
fn interrupted() -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("a#1.1");
    running.signal(Signal::INT);
    assert_eq!(running.wait().code, 130);
    scene
}

#[test]
fn embedded_a_store_on_a_read_only_mount_can_be_inspected_only() {
    isolated(Isolation::Mounts, || {
        let scene = interrupted();
        let disk = Disk::over(scene.store());
        disk.make_read_only();
        expect_read_only(&scene, "Read-only file system");
        disk.make_writable();
        scene.plan(&[]);
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    });
}

#[test]
fn embedded_a_killed_engines_store_can_be_inspected_on_a_read_only_mount() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        scene.workflow(&["a", "b: a"]);
        scene.plan(&["a * wait gate"]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.agent_log().wait_for_start("a#1.1");
        running.kill();
        running.wait();
        assert!(
            fs::metadata(scene.store().join("callboard.db-wal")).unwrap().len() > 0,
            "else it is the easy case"
        );
        gate.open();
        let attempt = scene.attempt("trial", "a", "1.1");
        testkit::until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
        let disk = Disk::over(scene.store());
        disk.make_read_only();
        expect_read_only(&scene, "Read-only file system");
        disk.make_writable();
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    });
}

#[test]
fn embedded_a_store_with_read_only_modes_can_be_inspected_only() {
    isolated(Isolation::PlainUser, || {
        let scene = interrupted();
        let allow = |directory: u32, file: u32| {
            for entry in fs::read_dir(scene.store()).unwrap().flatten() {
                let mode = if entry.metadata().unwrap().is_dir() { directory } else { file };
                fs::set_permissions(entry.path(), Permissions::from_mode(mode)).unwrap();
            }
            fs::set_permissions(scene.store(), Permissions::from_mode(directory)).unwrap();
        };
        allow(0o500, 0o400);
        expect_read_only(&scene, "Permission denied");
        allow(0o700, 0o600);
        scene.plan(&[]);
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    });
}
