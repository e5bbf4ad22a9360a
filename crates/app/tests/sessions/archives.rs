//! `export` and `import`: a run as one file, and nothing taken that is not what it says.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use insta::assert_snapshot;
use testkit::Scene;

use crate::{scene, status};

fn succeeded() -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    scene
}

fn exported(scene: &Scene, name: &str) -> PathBuf {
    let file = scene.kit().join(name);
    let session = scene.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    file
}

#[test]
fn a_succeeded_run_is_readable_where_it_was_imported() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    assert!(fs::read(&file).unwrap() == fs::read(exported(&there, "again.tar")).unwrap(), "the bytes differ");

    let here = scene();
    let file = file.to_str().unwrap();
    let session = here.callboard(&["import", file]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains("run status: succeeded"), "{}", session.stderr);
    let checked = here.callboard(&["recover", "--dry-run", "--json"]).run().json();
    assert_eq!(checked["views"], serde_json::json!([]), "import has written them");
    assert_eq!(status(&here.document("trial"), "b"), "COMPLETED");
    assert_eq!(here.document("trial")["repo_dir"], here.repo().to_str().unwrap());
    let log = here.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("imported from an archive written on"), "{}", log.stdout);
    assert_eq!(
        fs::read(here.attempt("trial", "a", "1.1").join("prompt.md")).unwrap(),
        fs::read(there.attempt("trial", "a", "1.1").join("prompt.md")).unwrap()
    );
    assert!(!here.attempt("trial", "a", "1.1").join("launch.json").exists(), "it may hold secrets");

    let twice = here.callboard(&["import", file]).run();
    assert_eq!(twice.code, 3, "{}", twice.transcript());
    assert!(twice.stderr.contains("--as NAME"), "{}", twice.stderr);
    let renamed = here.callboard(&["import", file, "--as", "other"]).run();
    assert_eq!(renamed.code, 0, "{}", renamed.transcript());
    let checked = here.callboard(&["recover"]).run();
    assert!(checked.stdout.contains("is sound"), "{}", checked.transcript());
    assert_eq!(here.document("other")["run_id"], "other");
}

#[test]
fn an_open_attempt_counts_as_interrupted_where_it_was_imported() {
    let there = scene();
    there.workflow(&["a", "b: a"]);
    there.plan(&["b * hang"]);
    let running = there.run(&[]).start();
    there.ledger().wait_for_begin("b#1.1");
    running.kill();
    running.wait();
    let file = exported(&there, "trial.tar");
    let here = scene();
    let session = here.callboard(&["import", file.to_str().unwrap(), "--json"]).run();
    assert_eq!(session.json()["interrupted"], serde_json::json!(["b#1.1"]), "{}", session.transcript());
    let resumed = here.played(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // What it did there is not done again, and what was open there was neither adopted nor ended.
    assert_eq!(here.ledger().begun(), ["b#1.2"]);
    assert_eq!(there.callboard(&["stop", "trial"]).run().code, 0);
    there.expect_no_orphans();
    here.expect_no_orphans();
}

/// Waits until so many processes stand in the queue for the ticket. The kernel's list of locks has no bell.
pub(crate) fn wait_for_queue(scene: &Scene, length: usize) {
    let inode = format!(":{} ", fs::metadata(scene.store().join("ticket")).unwrap().ino());
    let deadline = Instant::now() + testkit::DEADLINE;
    let queued = |line: &&str| line.contains("->") && line.contains(&inode);
    while fs::read_to_string("/proc/locks").unwrap().lines().filter(queued).count() < length {
        assert!(Instant::now() < deadline, "nobody queues for the ticket");
        std::thread::yield_now();
    }
}

#[test]
fn of_two_imports_at_once_the_one_that_is_refused_takes_nothing_away_from_the_other() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    let import = ["import", file.to_str().unwrap()];
    let here = scene();
    assert_eq!(here.callboard(&["import", file.to_str().unwrap(), "--as", "first"]).run().code, 0);
    // On NATS nobody queues: there they meet in the journal.
    let writer_lock = (!testkit::on_nats()).then(|| {
        let writer_lock = fs::File::options().write(true).open(here.store().join("ticket")).unwrap();
        writer_lock.lock().unwrap();
        writer_lock
    });
    let both = [here.callboard(&import).start(), here.callboard(&import).start()];
    if let Some(writer_lock) = writer_lock {
        wait_for_queue(&here, 2);
        drop(writer_lock);
    }
    let both = both.map(|one| one.wait());
    let mut codes = both.each_ref().map(|session| session.code);
    codes.sort();
    assert_eq!(codes, [0, 3], "{}\n{}", both[0].transcript(), both[1].transcript());
    assert!(here.attempt("trial", "a", "1.1").join("prompt.md").exists(), "its papers are gone");
    assert!(here.callboard(&["recover"]).run().stdout.contains("is sound"));
}

#[test]
fn an_import_that_was_killed_half_way_does_not_stand_in_the_way_of_the_next() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    let here = scene();
    let import = |name| here.callboard(&["import", file.to_str().unwrap(), "--as", name]).run();
    assert_eq!(import("first").code, 0);
    // As if it had been killed after the papers were in their place, before the commit.
    let left = here.store().join("attempts/second/a/1.1");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("prompt.md"), "of the killed one").unwrap();
    fs::write(here.store().join("attempts/second/.importing"), "").unwrap();
    let again = import("second");
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert_ne!(fs::read_to_string(left.join("prompt.md")).unwrap(), "of the killed one");
    assert!(!here.store().join("attempts/second/.importing").exists());

    // What nobody knows the origin of is left alone, and is not called a run.
    let strange = here.store().join("attempts/third/a/1.1");
    fs::create_dir_all(&strange).unwrap();
    let refused = import("third");
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("the store knows no such run"), "{}", refused.stderr);
    assert!(strange.exists());
}

/// Imports changed bytes, and expects that nothing of them is taken.
#[track_caller]
fn refused(bytes: &[u8]) -> String {
    let here = scene();
    let file = here.kit().join("bad.tar");
    fs::write(&file, bytes).unwrap();
    let session = here.callboard(&["import", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert_eq!(here.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    let left: Vec<_> = fs::read_dir(here.store().join("attempts")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!Path::new(&here.kit()).join("evil").exists());
    session.stderr
}

fn changed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    let mut hits = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|window| window == from.as_bytes()) {
        at += found;
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        hits += 1;
    }
    assert!(hits > 0, "`{from}` is not in it");
    bytes
}

#[test]
fn an_archive_that_is_not_what_it_says_is_refused_whole() {
    let there = succeeded();
    let good = fs::read(exported(&there, "trial.tar")).unwrap();
    assert!(refused(&good[..good.len() / 2]).contains("caused by"));
    assert!(refused(b"not an archive").contains("not an archive of a run"));
    assert!(refused(&changed(&good, "Do what the step says.", "Do what the devil says")).contains("content"));
    assert!(
        refused(&changed(&good, "\"callboard_archive\": 1", "\"callboard_archive\": 9")).contains("format 9")
    );
    // A path that leads out, in the manifest and in the tar's own headers.
    let out = refused(&changed(&good, "attempts/a/1.1/prompt.md", "attempts/../../../../evi"));
    assert!(out.contains("is no file that an attempt leaves"), "{out}");
    let kind = refused(&changed(&good, "\"protocol\": \"steps\"", "\"protocol\": \"chess\""));
    assert!(kind.contains("`chess` run"), "{kind}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let scene = succeeded();
    exported(&scene, "trial.tar");
    let file = scene.kit().join("trial.tar");
    let session = scene.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard export trial -o [KIT]/trial.tar
    error: cannot write `[KIT]/trial.tar`
      caused by: File exists (os error 17)

    hint: choose another name with `-o`, or move it aside
    [exit 2]
    ");
    let piped =
        scene.callboard(&["export", "trial", "--no-logs", "-o", "-"]).in_shell("\"$@\" | tar -t").run();
    assert!(piped.stdout.starts_with("manifest.json\ndefinition.json\njournal.jsonl\n"), "{}", piped.stdout);
    assert!(!piped.stdout.contains(".log"), "{}", piped.stdout);
}
