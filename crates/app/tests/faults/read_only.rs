//! A store that can be read and not written: mounted so, or by its modes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use testkit::{Disk, Isolation, Scene, embedded_only, isolated};

use crate::scene;

/// Whoever looks sees the run, whoever wants more is refused with the reason; nothing is changed by either.
fn expect_a_look_and_no_more(scene: &Scene, reason: &str) {
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
fn a_store_on_a_read_only_mount_can_be_looked_at_and_nothing_else() {
    embedded_only!("a file that cannot be written");
    isolated(Isolation::Mounts, || {
        let scene = interrupted();
        let disk = Disk::over(scene.store());
        disk.make_read_only();
        expect_a_look_and_no_more(&scene, "Read-only file system");
        disk.make_writable();
        scene.plan(&[]);
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    });
}

#[test]
fn a_store_whose_engine_was_killed_can_be_looked_at_on_a_read_only_mount() {
    embedded_only!("a file that cannot be written");
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
        expect_a_look_and_no_more(&scene, "Read-only file system");
        disk.make_writable();
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
    });
}

#[test]
fn a_store_whose_modes_forbid_writing_can_be_looked_at_and_nothing_else() {
    embedded_only!("a file that cannot be written");
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
        expect_a_look_and_no_more(&scene, "Permission denied");
        allow(0o700, 0o600);
        scene.plan(&[]);
        assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    });
}
