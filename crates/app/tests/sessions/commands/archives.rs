//! `export` and `import`: a run as one file; an archive that was changed is refused whole.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::{status, test_env};

fn succeeded() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    test_env
}

fn exported(test_env: &TestEnv, name: &str) -> PathBuf {
    let file = test_env.shared_dir().join(name);
    let session = test_env.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    file
}

#[test]
fn a_succeeded_run_is_readable_where_it_was_imported() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    assert!(fs::read(&file).unwrap() == fs::read(exported(&there, "again.tar")).unwrap(), "the bytes differ");

    let here = test_env();
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
    assert!(checked.stdout.contains("is intact"), "{}", checked.transcript());
    assert_eq!(here.document("other")["run_id"], "other");
}

#[test]
fn an_unfinished_attempt_is_interrupted_by_import() {
    let there = test_env();
    there.workflow(&["a", "b: a"]);
    there.plan(&["b * hang"]);
    let running = there.run(&[]).start();
    there.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    let file = exported(&there, "trial.tar");
    let here = test_env();
    let session = here.callboard(&["import", file.to_str().unwrap(), "--json"]).run();
    assert_eq!(session.json()["interrupted"], serde_json::json!(["b#1.1"]), "{}", session.transcript());
    let resumed = here.with_agent(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // Finished work is not repeated, and the attempt on the other machine was neither adopted nor ended.
    assert_eq!(here.agent_log().started(), ["b#1.2"]);
    assert_eq!(there.callboard(&["stop", "trial"]).run().code, 0);
    there.expect_no_orphans();
    here.expect_no_orphans();
}

/// Waits until this many processes queue for the writer lock.
pub(crate) fn wait_for_queue(test_env: &TestEnv, length: usize) {
    wait_for_lock_queue(&test_env.store().join("writer.lock"), length);
}

/// Waits until this many processes queue for a lock. The kernel's lock list sends no event.
pub(crate) fn wait_for_lock_queue(lock: &Path, length: usize) {
    let inode = format!(":{} ", fs::metadata(lock).unwrap().ino());
    let deadline = Instant::now() + testkit::DEADLINE;
    let queued = |line: &&str| line.contains("->") && line.contains(&inode);
    while fs::read_to_string("/proc/locks").unwrap().lines().filter(queued).count() < length {
        assert!(Instant::now() < deadline, "no process queues for `{}`", lock.display());
        std::thread::yield_now();
    }
}

#[test]
fn of_two_imports_at_once_the_refused_one_removes_nothing_of_the_other() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    let import = ["import", file.to_str().unwrap()];
    let here = test_env();
    assert_eq!(here.callboard(&["import", file.to_str().unwrap(), "--as", "first"]).run().code, 0);
    // On NATS there is no queue: the imports race in the journal.
    let writer_lock = (!testkit::on_nats()).then(|| {
        let writer_lock = fs::File::options().write(true).open(here.store().join("writer.lock")).unwrap();
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
    assert!(here.callboard(&["recover"]).run().stdout.contains("is intact"));
}

#[test]
fn an_import_that_was_killed_does_not_block_the_next() {
    let there = succeeded();
    let file = exported(&there, "trial.tar");
    let here = test_env();
    let import = |name| here.callboard(&["import", file.to_str().unwrap(), "--as", name]).run();
    assert_eq!(import("first").code, 0);
    // As if it had been killed after the files were moved into place, before the commit.
    let left = here.store().join("attempts/second/a/1.1");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("prompt.md"), "of the killed one").unwrap();
    fs::write(here.store().join("attempts/second/.importing"), "").unwrap();
    let again = import("second");
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert_ne!(fs::read_to_string(left.join("prompt.md")).unwrap(), "of the killed one");
    assert!(!here.store().join("attempts/second/.importing").exists());

    // Files of unknown origin are left alone and not listed as a run.
    let strange = here.store().join("attempts/third/a/1.1");
    fs::create_dir_all(&strange).unwrap();
    let refused = import("third");
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("the store has no such run"), "{}", refused.stderr);
    assert!(strange.exists());
}

/// Imports changed bytes, and expects that nothing of them is taken.
#[track_caller]
fn refused(bytes: &[u8]) -> String {
    let here = test_env();
    let file = here.shared_dir().join("bad.tar");
    fs::write(&file, bytes).unwrap();
    let session = here.callboard(&["import", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert_eq!(here.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    let left: Vec<_> = fs::read_dir(here.store().join("attempts")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!Path::new(&here.shared_dir()).join("evil").exists());
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
    // A path that leaves the archive, in the manifest and in the tar headers.
    let out = refused(&changed(&good, "attempts/a/1.1/prompt.md", "attempts/../../../../evi"));
    assert!(out.contains("in it is not a file of an attempt"), "{out}");
    // Only in the manifest: the input files of attempts name the protocol before the run.
    let [from, to] = ["steps", "chess"].map(|name| format!("\"protocol\": \"{name}\",\n  \"host\""));
    let kind = refused(&changed(&good, &from, &to));
    assert!(kind.contains("`chess` run"), "{kind}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let test_env = succeeded();
    exported(&test_env, "trial.tar");
    let file = test_env.shared_dir().join("trial.tar");
    let session = test_env.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard export trial -o [KIT]/trial.tar
    error: cannot write `[KIT]/trial.tar`
      caused by: File exists (os error 17)

    hint: choose another name with `-o`, or move the existing file
    [exit 2]
    ");
    let piped =
        test_env.callboard(&["export", "trial", "--no-logs", "-o", "-"]).in_shell("\"$@\" | tar -t").run();
    assert!(piped.stdout.starts_with("manifest.json\ndefinition.json\njournal.jsonl\n"), "{}", piped.stdout);
    assert!(!piped.stdout.contains(".log"), "{}", piped.stdout);
}
