//! A database that is missing, for a while or for good.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use testkit::TestEnv;

use super::{entries, env_with_four_runs, recover_from_view};

/// Puts the store into the state of a recovery that was killed: the database is in a backup, which the file `unfinished` marks.
/// Returns the backup.
fn interrupt_recovery(test_env: &TestEnv) -> PathBuf {
    let backup = test_env.store_dir().join("saved/20260101T000000Z");
    fs::create_dir_all(&backup).unwrap();
    fs::rename(test_env.store_dir().join("callboard.db"), backup.join("callboard.db")).unwrap();
    fs::write(backup.join("unfinished"), "").unwrap();
    backup
}

#[test]
fn embedded_an_interrupted_recovery_continues_from_its_backup() {
    let test_env = env_with_four_runs();
    let backup = interrupt_recovery(&test_env);
    let recovered = test_env.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert_eq!(entries(&test_env.store_dir(), "one").len(), 5);
    assert!(!backup.join("unfinished").exists() && backup.join("callboard.db").exists());

    // A leftover file `unfinished` does not replace a store that was used since by its backup.
    fs::write(backup.join("unfinished"), "").unwrap();
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    let revision = entries(&test_env.store_dir(), "trial").len();
    assert!(test_env.callboard(&["recover"]).run().stdout.contains("is intact"));
    assert_eq!(entries(&test_env.store_dir(), "trial").len(), revision);
}

#[test]
fn embedded_recover_from_view_does_not_overwrite_an_interrupted_recovery() {
    let test_env = env_with_four_runs();
    interrupt_recovery(&test_env);
    let refused = recover_from_view(&test_env, &test_env.view_path("one")).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("`callboard recover` first"), "{}", refused.stderr);
    assert!(!test_env.store_dir().join("callboard.db").exists(), "an empty store was begun");
    assert_eq!(test_env.callboard(&["recover"]).run().code, 0);
    assert_eq!(entries(&test_env.store_dir(), "one").len(), 5);
}

#[test]
fn embedded_a_database_that_is_being_replaced_is_waited_for() {
    let test_env = env_with_four_runs();
    let (database, moved_database) =
        (test_env.store_dir().join("callboard.db"), test_env.store_dir().join("aside"));
    let writer_lock = fs::File::options().write(true).open(test_env.store_dir().join("writer.lock")).unwrap();
    writer_lock.lock().unwrap();
    fs::rename(&database, &moved_database).unwrap();
    let running = test_env.callboard(&["ls"]).start();
    crate::sessions::commands::archives::wait_for_writer_lock_queue(&test_env, 1);
    fs::rename(&moved_database, &database).unwrap();
    drop(writer_lock);
    let listed = running.wait();
    assert_eq!(listed.code, 0, "{}", listed.transcript());
}

#[test]
fn embedded_a_deleted_database_is_reported_with_a_hint() {
    let test_env = env_with_four_runs();
    fs::remove_file(test_env.store_dir().join("callboard.db")).unwrap();
    let refused = test_env.callboard(&["ls"]).run();
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("callboard recover"), "{}", refused.stderr);
    assert_snapshot!(test_env.callboard(&["recover"]).run().transcript(), @"
    $ callboard recover
    error: cannot recover the store `[STORE]`: no run can be read
      caused by: the database is missing, but other files of its store are there

    hint: run `callboard recover --from FILE` to restore a copy
    hint: move `[STORE]` aside to start with an empty store
    hint: run `callboard recover --from-view [REPO]/.agents/runs/RUN/run_state.json --workflow WORKFLOW` in an empty store to rebuild a run from its files
    [exit 5]
    ");
    test_env.write("bad.db", "no database");
    assert_snapshot!(test_env.callboard(&["recover", "--from", "bad.db"]).run().transcript(), @"
    $ callboard recover --from bad.db
    error: cannot restore `bad.db`: no run in it can be read

    hint: run `callboard recover --from FILE` with another copy
    hint: move `[STORE]` aside to start with an empty store
    hint: run `callboard recover --from-view [REPO]/.agents/runs/RUN/run_state.json --workflow WORKFLOW` in an empty store to rebuild a run from its files
    [exit 5]
    ");
    assert!(!test_env.store_dir().join("callboard.db").exists(), "an empty store was begun in silence");
}
