//! A database that is missing, for a while or for good.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use testkit::Scene;

use super::{entries, played, rebuild};

/// As if a recovery had been killed after it backed up the store and removed the database. Returns the backup.
fn cut_off(scene: &Scene) -> PathBuf {
    let kept = scene.store().join("saved/20260101T000000Z");
    fs::create_dir_all(&kept).unwrap();
    fs::rename(scene.store().join("callboard.db"), kept.join("callboard.db")).unwrap();
    fs::write(kept.join("unfinished"), "").unwrap();
    kept
}

#[test]
fn embedded_an_interrupted_recovery_continues_from_its_backup() {
    let scene = played();
    let kept = cut_off(&scene);
    let recovered = scene.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert_eq!(entries(&scene.store(), "one").len(), 5);
    assert!(!kept.join("unfinished").exists() && kept.join("callboard.db").exists());

    // A leftover mark does not reset a store that was used since.
    fs::write(kept.join("unfinished"), "").unwrap();
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 0);
    let revision = entries(&scene.store(), "trial").len();
    assert!(scene.callboard(&["recover"]).run().stdout.contains("is intact"));
    assert_eq!(entries(&scene.store(), "trial").len(), revision);
}

#[test]
fn embedded_recover_from_view_does_not_overwrite_an_interrupted_recovery() {
    let scene = played();
    cut_off(&scene);
    let refused = rebuild(&scene, &scene.view("one")).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("`callboard recover` first"), "{}", refused.stderr);
    assert!(!scene.store().join("callboard.db").exists(), "an empty store was begun");
    assert_eq!(scene.callboard(&["recover"]).run().code, 0);
    assert_eq!(entries(&scene.store(), "one").len(), 5);
}

#[test]
fn embedded_a_database_that_is_being_replaced_is_waited_for() {
    let scene = played();
    let (database, aside) = (scene.store().join("callboard.db"), scene.store().join("aside"));
    let writer_lock = fs::File::options().write(true).open(scene.store().join("writer.lock")).unwrap();
    writer_lock.lock().unwrap();
    fs::rename(&database, &aside).unwrap();
    let running = scene.callboard(&["ls"]).start();
    crate::sessions::commands::archives::wait_for_queue(&scene, 1);
    fs::rename(&aside, &database).unwrap();
    drop(writer_lock);
    let listed = running.wait();
    assert_eq!(listed.code, 0, "{}", listed.transcript());
}

#[test]
fn embedded_a_deleted_database_is_reported_with_a_hint() {
    let scene = played();
    fs::remove_file(scene.store().join("callboard.db")).unwrap();
    let refused = scene.callboard(&["ls"]).run();
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("callboard recover"), "{}", refused.stderr);
    assert_snapshot!(scene.callboard(&["recover"]).run().transcript(), @"
    $ callboard recover
    error: cannot recover the store `[STORE]`: no run can be read
      caused by: the database is missing, but other files of its store are there

    hint: run `callboard recover --from FILE` to restore a copy
    hint: run `callboard recover --from-view .agents/runs/RUN/run_state.json --workflow WORKFLOW` to rebuild a run
    hint: move `[STORE]` aside to start with an empty store
    [exit 5]
    ");
    assert!(!scene.store().join("callboard.db").exists(), "an empty store was begun in silence");
}
