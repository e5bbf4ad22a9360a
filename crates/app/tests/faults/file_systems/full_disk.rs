//! A full disk, everywhere Callboard writes.

use std::fs;

use testkit::{Disk, Isolation, TestEnv, isolated};

use crate::faults::{status, test_env};

/// An agent that reports, creates the file `reported`, and exits when the pipe `barrier` is opened.
const REPORTS_AND_WAITS: &str =
    r#"a * do write_report COMPLETED "did a"; : >"$shared/reported"; read -r _ <"$shared/barrier""#;

/// Makes a repository whose store has a small disk of its own.
fn with_small_store() -> (TestEnv, Disk) {
    let test_env = test_env();
    let disk = Disk::mount(test_env.store_dir(), "size=16m");
    test_env.workflow(&["a", "b: a"]);
    (test_env, disk)
}

#[test]
fn embedded_a_full_store_ends_the_engine_with_an_error_and_loses_nothing() {
    isolated(Isolation::Mounts, || {
        let (test_env, disk) = with_small_store();
        test_env.script_agent(&[REPORTS_AND_WAITS]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.wait_for_file("reported");
        disk.fill();
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let database = test_env.store_dir().join("callboard.db");
        let full = format!("error[E015]: the disk that holds `{}` is full", database.display());
        assert!(session.stderr.contains(&full), "{}", session.stderr);
        assert!(session.stderr.contains("free space on that disk"), "{}", session.stderr);
        assert!(test_env.attempt_dir("trial", "a", "1.1").join("exit.json").exists(), "space was reserved");
        // Closing the store freed a little space, so the disk is filled again. Then every command fails the same way.
        disk.fill();
        for command in ["pause", "stop", "resume", "show"] {
            let refused = test_env.callboard(&[command, "trial"]).run();
            assert_eq!(refused.code, 5, "{}", refused.transcript());
            assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        }
        disk.free();
        let resumed = test_env.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"], "what was finished is not repeated");
        assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
        test_env.expect_no_orphans();
    });
}

#[test]
fn a_report_that_does_not_fit_on_the_disk_costs_an_attempt() {
    isolated(Isolation::Mounts, || {
        let (test_env, disk) = with_small_store();
        test_env.script_agent(&["a 1 wait barrier"]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.agent_log().wait_for_start("a#1.1");
        disk.fill();
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        disk.free();
        let resumed = test_env.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "a#1.2", "b#1.1"]);
        assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 2);
        // On NATS the commit needs no local space, so the first engine reports the failure.
        let reporting = if testkit::on_nats() { &session } else { &resumed };
        assert!(reporting.stderr.contains("✗ a#1.1 failed, retrying in"), "{}", reporting.stderr);
        test_env.expect_no_orphans();
    });
}

#[test]
fn an_agent_whose_log_does_not_fit_continues_and_its_report_counts() {
    /// An agent whose output does not fit: it creates the file `enospc`, and reports when the pipe `again` is opened.
    const WRITES_OUTPUT: &str = r#"a * do read -r _ <"$shared/barrier"; head -c 100000 /dev/zero 2>/dev/null || : >"$shared/enospc"
read -r _ <"$shared/again"; write_report COMPLETED "did a""#;
    isolated(Isolation::Mounts, || {
        let (test_env, disk) = with_small_store();
        test_env.script_agent(&[&WRITES_OUTPUT.replace('\n', "; ")]);
        let (mut barrier, mut again) = (test_env.barrier("barrier"), test_env.barrier("again"));
        let running = test_env.run(&[]).start();
        test_env.agent_log().wait_for_start("a#1.1");
        disk.fill();
        barrier.open();
        test_env.wait_for_file("enospc");
        disk.free();
        again.open();
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
        test_env.expect_no_orphans();
    });
}

#[test]
fn an_attempt_that_cannot_start_for_lack_of_space_costs_no_attempt() {
    isolated(Isolation::Mounts, || {
        let (test_env, disk) = with_small_store();
        // There is space for the commit that starts `b`, not for its prompt.
        test_env.write("task.md", &"Do what the step says. ".repeat(40_000));
        test_env.script_agent(&[REPORTS_AND_WAITS]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.wait_for_file("reported");
        disk.fill_but(400 * 1024);
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("cannot attach to `b#1.1`"), "{}", session.stderr);
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert!(session.stderr.contains("free space on that disk"), "{}", session.stderr);
        disk.free();
        let resumed = test_env.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
        assert_eq!(test_env.document("trial")["steps"]["b"]["attempts"], 1);
    });
}

#[test]
fn embedded_a_run_without_space_is_not_created() {
    isolated(Isolation::Mounts, || {
        let (test_env, disk) = with_small_store();
        disk.fill();
        let refused = test_env.run(&[]).run();
        assert_eq!(refused.code, 5, "no store yet: {}", refused.transcript());
        assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        assert!(refused.stderr.contains(test_env.store_dir().to_str().unwrap()), "{}", refused.stderr);
        assert!(!refused.stderr.contains("move it aside"), "{}", refused.stderr);
        disk.free();
        assert_eq!(test_env.callboard(&["ls"]).run().stdout, "");
        assert_eq!(test_env.run(&[]).run().code, 0);
        disk.fill();
        let second = || test_env.run_named("second");
        let refused = second().run();
        assert_eq!(refused.code, 5, "with a store: {}", refused.transcript());
        assert!(refused.stderr.contains("is full"), "{}", refused.stderr);
        disk.free();
        let runs = test_env.callboard(&["ls", "--json"]).run().json();
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
        assert_eq!(second().run().code, 0);
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "a#1.1", "b#1.1"]);
    });
}

#[test]
fn a_disk_without_inodes_is_full_too() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        let disk = Disk::mount(test_env.store_dir(), "size=4m,nr_inodes=200");
        test_env.workflow(&["a", "b: a"]);
        test_env.script_agent(&[REPORTS_AND_WAITS]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.wait_for_file("reported");
        disk.use_all_inodes();
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        disk.free();
        let resumed = test_env.callboard(&["resume"]).run();
        assert_eq!(resumed.code, 0, "{}", resumed.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"], "what was finished is not repeated");
        assert_eq!(test_env.document("trial")["steps"]["a"]["attempts"], 1);
    });
}

#[test]
fn views_on_a_full_disk_stay_whole_and_are_updated_when_there_is_space() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        let disk = Disk::mount(test_env.repo().join(".agents"), "size=1m");
        test_env.workflow(&["a", "b: a", "c: b"]);
        test_env.script_agent(&["a * wait barrier", "c * wait barrier"]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        disk.fill();
        let before = fs::read(test_env.view_path("trial")).unwrap();
        let view = test_env.view_path("trial");
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"], "the run goes on");
        // A report's view is written at once. The document's view is written at intervals, perhaps only at the end.
        let report = view.with_file_name("reports").join("trial__a.json");
        let expected = format!("! cannot write {}: No space left on device", report.display());
        assert!(session.stderr.contains(&expected), "{}", session.stderr);
        let expected = format!("error[E015]: cannot write `{}/", view.with_file_name("reports").display());
        assert!(session.stderr.contains(&expected), "{}", session.stderr);
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert_eq!(fs::read(&view).unwrap(), before, "the old view stays whole");
        assert!(test_env.callboard(&["ls"]).run().stdout.contains("succeeded"), "the store knows better");
        disk.free();
        let again = test_env.callboard(&["resume", "trial"]).run();
        assert_eq!(again.code, 3, "{}", again.transcript());
        assert_eq!(status(&test_env.document("trial"), "c"), "COMPLETED", "the view is current again");
    });
}

#[test]
fn a_run_whose_views_had_no_space_for_a_while_succeeds_with_all_of_them() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        let disk = Disk::mount(test_env.repo().join(".agents"), "size=1m");
        test_env.workflow(&["a", "b: a"]);
        test_env.script_agent(&["a * wait barrier", "b * wait second"]);
        let (mut barrier, mut second) = (test_env.barrier("barrier"), test_env.barrier("second"));
        let running = test_env.run(&[]).start();
        test_env.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        disk.fill();
        barrier.open();
        running.wait_for_stderr("! cannot write");
        test_env.agent_log().wait_for_start("b#1.1");
        disk.free();
        second.open();
        let session = running.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
        for step in ["a", "b"] {
            let report = test_env.view_path("trial").with_file_name(format!("reports/trial__{step}.json"));
            assert!(report.exists(), "{} is written at last", report.display());
        }
    });
}

#[test]
fn a_run_is_not_created_if_the_exclude_file_cannot_be_written() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        test_env.workflow(&["a"]);
        let disk = Disk::mount(test_env.repo().join(".git/info"), "size=64k");
        disk.fill();
        let refused = test_env.run(&[]).run();
        assert_eq!(refused.code, 5, "{}", refused.transcript());
        assert!(refused.stderr.contains("No space left on device"), "{}", refused.stderr);
        assert!(refused.stderr.contains("free space on that disk"), "{}", refused.stderr);
        assert_eq!(test_env.callboard(&["ls"]).run().stdout, "", "nothing was opened");
        disk.free();
        assert_eq!(test_env.run(&[]).run().code, 0);
    });
}

#[test]
fn an_edited_view_is_not_discarded_if_the_quarantine_is_full() {
    isolated(Isolation::Mounts, || {
        let test_env = test_env();
        let views = Disk::mount(test_env.repo().join(".agents"), "size=1m");
        let quarantine = Disk::mount(test_env.store_dir().join("quarantine"), "size=64k");
        test_env.workflow(&["a", "b: a"]);
        test_env.script_agent(&["a * wait barrier"]);
        let mut barrier = test_env.barrier("barrier");
        let running = test_env.run(&[]).start();
        test_env.wait_for_view("trial", "the first step", |document| status(document, "a") == "RUNNING");
        quarantine.fill();
        let mine = "mine now\n".repeat(1000);
        fs::write(test_env.view_path("trial"), &mine).unwrap();
        barrier.open();
        let session = running.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("No space left on device"), "{}", session.stderr);
        assert_eq!(
            fs::read_to_string(test_env.view_path("trial")).unwrap(),
            mine,
            "the edited view stays where it is"
        );
        let quarantined = || -> Vec<_> {
            let files = fs::read_dir(test_env.store_dir().join("quarantine/trial")).unwrap();
            files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
        };
        assert_eq!(quarantined(), [""; 0], "the quarantine has no incomplete file");
        quarantine.free();
        assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 3);
        assert_eq!(quarantined(), [mine]);
        assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
        drop(views);
    });
}
