//! `export` and `import`: a run as one file; an archive that was changed is refused whole.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use insta::assert_snapshot;
use testkit::TestEnv;

use crate::sessions::{status, test_env};

/// Returns a test environment whose run `trial` succeeded.
fn env_with_succeeded_run() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    test_env
}

/// Exports the run `trial` to a file in the directory that agents and tests share.
fn export_trial(test_env: &TestEnv, name: &str) -> PathBuf {
    let file = test_env.agent_dir().join(name);
    let session = test_env.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    file
}

#[test]
fn a_succeeded_run_is_readable_where_it_was_imported() {
    let source = env_with_succeeded_run();
    let file = export_trial(&source, "trial.tar");
    assert!(
        fs::read(&file).unwrap() == fs::read(export_trial(&source, "again.tar")).unwrap(),
        "the bytes differ"
    );

    let target = test_env();
    let file = file.to_str().unwrap();
    let session = target.callboard(&["import", file]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains("run status: succeeded"), "{}", session.stderr);
    let recovered = target.callboard(&["recover", "--dry-run", "--json"]).run().json();
    assert_eq!(recovered["views"], serde_json::json!([]), "import has written them");
    assert_eq!(status(&target.document("trial"), "b"), "COMPLETED");
    assert_eq!(target.document("trial")["repo_dir"], target.repo().to_str().unwrap());
    let log = target.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("imported from an archive written on"), "{}", log.stdout);
    assert_eq!(
        fs::read(target.attempt_dir("trial", "a", "1.1").join("prompt.md")).unwrap(),
        fs::read(source.attempt_dir("trial", "a", "1.1").join("prompt.md")).unwrap()
    );
    assert!(!target.attempt_dir("trial", "a", "1.1").join("launch.json").exists(), "it may hold secrets");

    let second_import = target.callboard(&["import", file]).run();
    assert_eq!(second_import.code, 3, "{}", second_import.transcript());
    assert!(second_import.stderr.contains("--as NAME"), "{}", second_import.stderr);
    let import_renamed = target.callboard(&["import", file, "--as", "other"]).run();
    assert_eq!(import_renamed.code, 0, "{}", import_renamed.transcript());
    let recovered = target.callboard(&["recover"]).run();
    assert!(recovered.stdout.contains("is intact"), "{}", recovered.transcript());
    assert_eq!(target.document("other")["run_id"], "other");
}

#[test]
fn an_unfinished_attempt_is_interrupted_by_import() {
    let source = test_env();
    source.workflow(&["a", "b: a"]);
    source.script_agent(&["b * hang"]);
    let running = source.run(&[]).start();
    source.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    let file = export_trial(&source, "trial.tar");
    let target = test_env();
    let session = target.callboard(&["import", file.to_str().unwrap(), "--json"]).run();
    assert_eq!(session.json()["interrupted"], serde_json::json!(["b#1.1"]), "{}", session.transcript());
    let resumed = target.with_agent(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    // Finished work is not repeated, and the attempt on the other machine was neither adopted nor ended.
    assert_eq!(target.agent_log().started(), ["b#1.2"]);
    assert_eq!(source.callboard(&["stop", "trial"]).run().code, 0);
    source.expect_no_orphans();
    target.expect_no_orphans();
}

/// Waits until this many processes queue for the writer lock.
pub(crate) fn wait_for_writer_lock_queue(test_env: &TestEnv, length: usize) {
    wait_for_lock_queue(&test_env.store_dir().join("writer.lock"), length);
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
    let source = env_with_succeeded_run();
    let file = export_trial(&source, "trial.tar");
    let import = ["import", file.to_str().unwrap()];
    let target = test_env();
    assert_eq!(target.callboard(&["import", file.to_str().unwrap(), "--as", "first"]).run().code, 0);
    // On NATS there is no queue: the imports race in the journal.
    let writer_lock = (!testkit::on_nats()).then(|| {
        let writer_lock =
            fs::File::options().write(true).open(target.store_dir().join("writer.lock")).unwrap();
        writer_lock.lock().unwrap();
        writer_lock
    });
    let imports = [target.callboard(&import).start(), target.callboard(&import).start()];
    if let Some(writer_lock) = writer_lock {
        wait_for_writer_lock_queue(&target, 2);
        drop(writer_lock);
    }
    let sessions = imports.map(|running| running.wait());
    let mut codes = sessions.each_ref().map(|session| session.code);
    codes.sort();
    assert_eq!(codes, [0, 3], "{}\n{}", sessions[0].transcript(), sessions[1].transcript());
    assert!(
        target.attempt_dir("trial", "a", "1.1").join("prompt.md").exists(),
        "the files of its attempt are gone"
    );
    assert!(target.callboard(&["recover"]).run().stdout.contains("is intact"));
}

#[test]
fn an_import_that_was_killed_does_not_block_the_next() {
    let source = env_with_succeeded_run();
    let file = export_trial(&source, "trial.tar");
    let target = test_env();
    let import = |name| target.callboard(&["import", file.to_str().unwrap(), "--as", name]).run();
    assert_eq!(import("first").code, 0);
    // As if an import had been killed after the files were moved into place, before the commit.
    let leftover = target.store_dir().join("attempts/second/a/1.1");
    fs::create_dir_all(&leftover).unwrap();
    fs::write(leftover.join("prompt.md"), "of the killed one").unwrap();
    fs::write(target.store_dir().join("attempts/second/.importing"), "").unwrap();
    let again = import("second");
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert_ne!(fs::read_to_string(leftover.join("prompt.md")).unwrap(), "of the killed one");
    assert!(!target.store_dir().join("attempts/second/.importing").exists());

    // Files of unknown origin are left alone and not listed as a run.
    let unknown_origin = target.store_dir().join("attempts/third/a/1.1");
    fs::create_dir_all(&unknown_origin).unwrap();
    let refused = import("third");
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    assert!(refused.stderr.contains("the store has no such run"), "{}", refused.stderr);
    assert!(unknown_origin.exists());
}

/// Imports an invalid archive, checks that nothing of it was stored, and returns stderr.
#[track_caller]
fn expect_import_refused(bytes: &[u8]) -> String {
    let target = test_env();
    let file = target.agent_dir().join("bad.tar");
    fs::write(&file, bytes).unwrap();
    let session = target.callboard(&["import", file.to_str().unwrap()]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert_eq!(target.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    let leftovers: Vec<_> = fs::read_dir(target.store_dir().join("attempts")).unwrap().collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    assert!(!Path::new(&target.agent_dir()).join("evil").exists());
    session.stderr
}

/// Replaces every occurrence of `from` by `to`, which has the same length.
fn replace_all(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut offset = 0;
    let mut replaced = 0;
    while let Some(found) = bytes[offset..].windows(from.len()).position(|window| window == from.as_bytes()) {
        offset += found;
        bytes[offset..offset + to.len()].copy_from_slice(to.as_bytes());
        replaced += 1;
    }
    assert!(replaced > 0, "`{from}` is not in it");
    bytes
}

#[test]
fn a_truncated_or_changed_archive_is_refused_whole() {
    let source = env_with_succeeded_run();
    let archive = fs::read(export_trial(&source, "trial.tar")).unwrap();
    assert!(expect_import_refused(&archive[..archive.len() / 2]).contains("caused by"));
    assert!(expect_import_refused(b"not an archive").contains("not an archive of a run"));
    assert!(
        expect_import_refused(&replace_all(&archive, "Do what the step says.", "Do what the devil says"))
            .contains("content")
    );
    assert!(
        expect_import_refused(&replace_all(&archive, "\"callboard_archive\": 1", "\"callboard_archive\": 9"))
            .contains("format 9")
    );
    // A path that leaves the archive, in the manifest and in the tar headers.
    let stderr =
        expect_import_refused(&replace_all(&archive, "attempts/a/1.1/prompt.md", "attempts/../../../../evi"));
    assert!(stderr.contains("in it is not a file of an attempt"), "{stderr}");
    // The pattern includes the next field, `host`, so that it matches only the manifest: the input files of attempts
    // have `protocol`, too, but in front of another field.
    let [from, to] = ["steps", "chess"].map(|name| format!("\"protocol\": \"{name}\",\n  \"host\""));
    let stderr = expect_import_refused(&replace_all(&archive, &from, &to));
    assert!(stderr.contains("`chess` run"), "{stderr}");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let test_env = env_with_succeeded_run();
    export_trial(&test_env, "trial.tar");
    let file = test_env.agent_dir().join("trial.tar");
    let session = test_env.callboard(&["export", "trial", "-o", file.to_str().unwrap()]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard export trial -o [SHARED]/trial.tar
    error: cannot write `[SHARED]/trial.tar`
      caused by: File exists (os error 17)

    hint: choose another name with `-o`, or move the existing file
    [exit 2]
    ");
    let piped =
        test_env.callboard(&["export", "trial", "--no-logs", "-o", "-"]).in_shell("\"$@\" | tar -t").run();
    assert!(piped.stdout.starts_with("manifest.json\ndefinition.json\njournal.jsonl\n"), "{}", piped.stdout);
    assert!(!piped.stdout.contains(".log"), "{}", piped.stdout);
}
