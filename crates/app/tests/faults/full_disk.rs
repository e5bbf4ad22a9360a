//! A full disk, everywhere Callboard writes.

use std::fs;

use testkit::{Disk, Isolation, Scene, isolated};

use crate::faults::{scene, status};

/// An agent that reports, logs a line, and exits when the gate opens.
const REPORTS_AND_WAITS: &str =
    r#"a * do hand_in COMPLETED "did a"; : >"$kit/reported"; read -r _ <"$kit/gate""#;

/// Makes a repository whose store has a small disk of its own.
fn with_small_store() -> (Scene, Disk) {
    let scene = scene();
    let disk = Disk::mount(scene.store(), "size=16m");
    scene.workflow(&["a", "b: a"]);
    (scene, disk)
}

#[test]
fn embedded_a_full_store_ends_the_engine_with_an_error_and_loses_nothing() {
    isolated(Isolation::Mounts, || {
        let (scene, disk) = with_small_store();
        scene.plan(&[REPORTS_AND_WAITS]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.wait_for_note("reported");
        disk.fill();
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let database = scene.store().join("callboard.db");
        let full = format!("error[E015]: the disk that holds `{}` is full", database.display());
        assert!(session.stderr.contains(&full), "{}", session.stderr);
        assert!(session.stderr.contains("free space on that disk"), "{}", session.stderr);
        assert!(scene.attempt("trial", "a", "1.1").join("exit.json").exists(), "room for it was kept");
        // Closing the store freed a little space. Without it, every command fails the same way.
        disk.fill();
        for command in ["pause", "stop", "resume", "show"] {
            let refused = scene.callboard(&[command, "trial"]).run();
            assert_eq!(refused.code, 5, "{}", refused.transcript());
            assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        }
        disk.free();
        let resumed = scene.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"], "what was finished is not repeated");
        assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
        scene.expect_no_orphans();
    });
}

#[test]
fn a_report_that_does_not_fit_on_the_disk_costs_an_attempt() {
    isolated(Isolation::Mounts, || {
        let (scene, disk) = with_small_store();
        scene.plan(&["a 1 wait gate"]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.agent_log().wait_for_start("a#1.1");
        disk.fill();
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        disk.free();
        let resumed = scene.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
        assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 2);
        // On NATS the commit needs no local space.
        let told = if testkit::on_nats() { &session } else { &resumed };
        assert!(told.stderr.contains("✗ a#1.1 failed, retrying in"), "{}", told.stderr);
        scene.expect_no_orphans();
    });
}

#[test]
fn an_agent_whose_log_does_not_fit_continues_and_its_report_counts() {
    const TALKS: &str = r#"a * do read -r _ <"$kit/gate"; head -c 100000 /dev/zero 2>/dev/null || : >"$kit/unheard"
read -r _ <"$kit/again"; hand_in COMPLETED "did a""#;
    isolated(Isolation::Mounts, || {
        let (scene, disk) = with_small_store();
        scene.plan(&[&TALKS.replace('\n', "; ")]);
        let (mut gate, mut again) = (scene.gate("gate"), scene.gate("again"));
        let running = scene.run(&[]).start();
        scene.agent_log().wait_for_start("a#1.1");
        disk.fill();
        gate.open();
        scene.wait_for_note("unheard");
        disk.free();
        again.open();
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
        scene.expect_no_orphans();
    });
}

#[test]
fn an_attempt_that_cannot_start_for_lack_of_space_costs_no_attempt() {
    isolated(Isolation::Mounts, || {
        let (scene, disk) = with_small_store();
        // There is space for the commit that starts `b`, not for its prompt.
        scene.write("task.md", &"Do what the step says. ".repeat(40_000));
        scene.plan(&[REPORTS_AND_WAITS]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.wait_for_note("reported");
        disk.fill_but(400 * 1024);
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("cannot attach to `b#1.1`"), "{}", session.stderr);
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert!(session.stderr.contains("free space on that disk"), "{}", session.stderr);
        disk.free();
        let resumed = scene.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"]);
        assert_eq!(scene.document("trial")["steps"]["b"]["attempts"], 1);
    });
}

#[test]
fn embedded_a_run_without_space_is_not_created() {
    isolated(Isolation::Mounts, || {
        let (scene, disk) = with_small_store();
        disk.fill();
        let refused = scene.run(&[]).run();
        assert_eq!(refused.code, 5, "no store yet: {}", refused.transcript());
        assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        assert!(refused.stderr.contains(scene.store().to_str().unwrap()), "{}", refused.stderr);
        assert!(!refused.stderr.contains("move it aside"), "{}", refused.stderr);
        disk.free();
        assert_eq!(scene.callboard(&["ls"]).run().stdout, "");
        assert_eq!(scene.run(&[]).run().code, 0);
        disk.fill();
        let second = || scene.run_named("second");
        let refused = second().run();
        assert_eq!(refused.code, 5, "with a store: {}", refused.transcript());
        assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        disk.free();
        let runs = scene.callboard(&["ls", "--json"]).run().json();
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
        assert_eq!(second().run().code, 0);
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1", "a#1.1", "b#1.1"]);
    });
}

#[test]
fn a_disk_without_inodes_is_full_too() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        let disk = Disk::mount(scene.store(), "size=4m,nr_inodes=200");
        scene.workflow(&["a", "b: a"]);
        scene.plan(&[REPORTS_AND_WAITS]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.wait_for_note("reported");
        disk.fill_with_names();
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        disk.free();
        let resumed = scene.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1"], "what was finished is not repeated");
        assert_eq!(scene.document("trial")["steps"]["a"]["attempts"], 1);
    });
}

#[test]
fn views_on_a_full_disk_stay_whole_and_are_updated_when_there_is_space() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        let disk = Disk::mount(scene.repo().join(".agents"), "size=1m");
        scene.workflow(&["a", "b: a", "c: b"]);
        scene.plan(&["a * wait gate", "c * wait gate"]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        disk.fill();
        let before = fs::read(scene.view("trial")).unwrap();
        let view = scene.view("trial");
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert_eq!(scene.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"], "the run goes on");
        // A report's view is written at once; the document's view is paced and may be written only at the end.
        let report = view.with_file_name("reports").join("trial__a.json");
        let told = format!("! cannot write {}: No space left on device", report.display());
        assert!(session.stderr.contains(&told), "{}", session.stderr);
        let told = format!("error[E015]: cannot write `{}/", view.with_file_name("reports").display());
        assert!(session.stderr.contains(&told), "{}", session.stderr);
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert_eq!(fs::read(&view).unwrap(), before, "the old view stays whole");
        assert!(scene.callboard(&["ls"]).run().stdout.contains("succeeded"), "the store knows better");
        disk.free();
        let again = scene.callboard(&["resume", "trial"]).run();
        assert_eq!(again.code, 3, "{}", again.transcript());
        assert_eq!(status(&scene.document("trial"), "c"), "COMPLETED", "the view is current again");
    });
}

#[test]
fn a_run_whose_views_had_no_space_for_a_while_succeeds_with_all_of_them() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        let disk = Disk::mount(scene.repo().join(".agents"), "size=1m");
        scene.workflow(&["a", "b: a"]);
        scene.plan(&["a * wait gate", "b * wait second"]);
        let (mut gate, mut second) = (scene.gate("gate"), scene.gate("second"));
        let running = scene.run(&[]).start();
        scene.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        disk.fill();
        gate.open();
        running.wait_until_it_says("! cannot write");
        scene.agent_log().wait_for_start("b#1.1");
        disk.free();
        second.open();
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
        for step in ["a", "b"] {
            let report = scene.view("trial").with_file_name(format!("reports/trial__{step}.json"));
            assert!(report.exists(), "{} is written at last", report.display());
        }
    });
}

#[test]
fn a_run_is_not_created_if_the_exclude_file_cannot_be_written() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        scene.workflow(&["a"]);
        let disk = Disk::mount(scene.repo().join(".git/info"), "size=64k");
        disk.fill();
        let refused = scene.run(&[]).run();
        assert_eq!(refused.code, 5, "{}", refused.transcript());
        assert!(refused.stderr.contains("No space left on device"), "{}", refused.stderr);
        assert!(refused.stderr.contains("free space on that disk"), "{}", refused.stderr);
        assert_eq!(scene.callboard(&["ls"]).run().stdout, "", "nothing was opened");
        disk.free();
        assert_eq!(scene.run(&[]).run().code, 0);
    });
}

#[test]
fn external_bytes_are_not_discarded_for_lack_of_space() {
    isolated(Isolation::Mounts, || {
        let scene = scene();
        let views = Disk::mount(scene.repo().join(".agents"), "size=1m");
        let quarantine = Disk::mount(scene.store().join("quarantine"), "size=64k");
        scene.workflow(&["a", "b: a"]);
        scene.plan(&["a * wait gate"]);
        let mut gate = scene.gate("gate");
        let running = scene.run(&[]).start();
        scene.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        quarantine.fill();
        let mine = "mine now\n".repeat(1000);
        fs::write(scene.view("trial"), &mine).unwrap();
        gate.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert_eq!(fs::read_to_string(scene.view("trial")).unwrap(), mine, "they stay where they are");
        let kept = || -> Vec<_> {
            let kept = fs::read_dir(scene.store().join("quarantine/trial")).unwrap();
            kept.map(|kept| fs::read_to_string(kept.unwrap().path()).unwrap()).collect()
        };
        assert_eq!(kept(), [""; 0], "no half file pretends to be them");
        quarantine.free();
        assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 3);
        assert_eq!(kept(), [mine]);
        assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
        drop(views);
    });
}
