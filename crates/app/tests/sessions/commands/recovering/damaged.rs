//! Files of the store with changed bytes.

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use testkit::TestEnv;

use super::{PAGE, entries, env_with_four_runs};
use crate::sessions::{status, test_env};

/// Overwrites `length` bytes of a file with random ones.
fn overwrite_randomly(path: &Path, at: usize, length: usize) {
    let mut random = fastrand::Rng::with_seed(at as u64);
    let mut bytes = fs::read(path).unwrap();
    let end = (at + length).min(bytes.len());
    bytes[at..end].iter_mut().for_each(|byte| *byte = random.u8(..));
    fs::write(path, bytes).unwrap();
}

/// Makes one entry unreadable, as a changed byte on the disk would.
fn damage_entry(test_env: &TestEnv, run: &str, revision: u64) {
    let path = test_env.store_dir().join("callboard.db");
    let entries = entries(&test_env.store_dir(), run);
    let body = &entries[usize::try_from(revision).unwrap() - 1];
    let mut bytes = fs::read(&path).unwrap();
    // All copies are changed: pages that are free now may have an older one.
    let mut damaged = 0;
    while let Some(at) = find(&bytes, body.as_bytes()) {
        bytes[at + body.len() / 2] ^= 1;
        damaged += 1;
    }
    assert!(damaged > 0, "a short entry lies on one page");
    fs::write(&path, bytes).unwrap();
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[test]
fn embedded_a_store_with_a_damaged_first_page_comes_back_whole() {
    let test_env = env_with_four_runs();
    let database = test_env.store_dir().join("callboard.db");
    overwrite_randomly(&database, 0, PAGE);
    let damaged = fs::read(&database).unwrap();
    let refused = test_env.callboard(&["ls"]).run();
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("callboard recover"), "{}", refused.stderr);

    let dry_run = test_env.callboard(&["recover", "--dry-run"]).run();
    assert_eq!(dry_run.code, 0, "{}", dry_run.transcript());
    assert!(fs::read(&database).unwrap() == damaged && !test_env.store_dir().join("saved").exists());
    assert_snapshot!(dry_run.transcript(), @"
    $ callboard recover --dry-run
    note: nothing was changed; run `callboard recover` to repair the store; it makes a backup first
    the store `[STORE]` is damaged
      the database cannot be read: file is not a database
    its runs would be recovered like this:
      one   whole       5 entries, succeeded
      two   whole       5 entries, succeeded
      three whole       5 entries, succeeded
      trial whole       5 entries, stopped
    [exit 0]
    ");

    let copy = database.to_str().unwrap();
    let dry_run = test_env.callboard(&["recover", "--dry-run", "--from", copy]).run();
    let hint = format!("run `callboard recover --from {copy}` to repair the store");
    assert!(dry_run.stderr.contains(&hint), "{}", dry_run.stderr);

    let recovered = test_env.callboard(&["recover", "--json"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    let recovery = recovered.json();
    let backup = Path::new(recovery["backup"].as_str().unwrap());
    assert!(fs::read(backup.join("callboard.db")).unwrap() == damaged, "it was not kept byte for byte");
    assert!(recovery["runs"].as_array().unwrap().iter().all(|run| run["outcome"] == "whole"), "{recovery}");
    let again = test_env.callboard(&["recover"]).run();
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(again.stdout.contains("is intact"), "{}", again.stdout);

    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(status(&test_env.document("trial"), "c"), "COMPLETED");
    test_env.expect_no_orphans();
}

#[test]
fn embedded_a_run_is_cut_before_its_damaged_entry_and_repeats_nothing() {
    let test_env = env_with_four_runs();
    damage_entry(&test_env, "two", 4);
    let recovered = test_env.callboard(&["recover"]).run();
    let backup_name =
        fs::read_dir(test_env.store_dir().join("saved")).unwrap().next().unwrap().unwrap().file_name();
    let transcript = recovered.transcript().replace(backup_name.to_str().unwrap(), "[WHEN]");
    assert_snapshot!(transcript, @"
    $ callboard recover
    note: another program had changed `[REPO]/.agents/runs/two/run_state.json`; its version was moved to `[STORE]/quarantine/two/[HEX]-run_state.json`
    note: run `callboard resume two` to continue after the last entry that was kept; what its agents reported later is read from their directories
    the store `[STORE]` was damaged
      entry 4 of run `two` is not what was written
    a backup is in `[STORE]/saved/[WHEN]`
      one   whole       5 entries, succeeded
      two   cut         3 of 5 entries, running, entry 4 is not what was written
      three whole       5 entries, succeeded
      trial whole       5 entries, stopped
      [REPO]/.agents/runs/two/run_state.json was written again
    [exit 1]
    ");
    let log = test_env.callboard(&["log", "two"]).run();
    assert!(
        log.stdout.contains("recovered from a damaged store: entry 4 is not what was written"),
        "{}",
        log.stdout
    );
    let started = test_env.agent_log().started().len();
    let resumed = test_env.callboard(&["resume", "two"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started().len(), started, "what was finished ran again");
    assert!(test_env.callboard(&["recover"]).run().stdout.contains("is intact"));
}

/// Changes an entry and its checksum, as a program with a bug might have written it.
fn rewrite_entry(
    database: &rusqlite::Connection,
    run: &str,
    revision: u64,
    change: impl FnOnce(&str) -> String,
) {
    let select = "SELECT run, write_id, body FROM entries
                  WHERE revision = ?2 AND run = (SELECT id FROM runs WHERE name = ?1)";
    let (run_number, write_id, body): (i64, Vec<u8>, String) = database
        .query_one(select, rusqlite::params![run, revision.cast_signed()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let changed = change(&body);
    assert_ne!(changed, body);
    let checksummed =
        [&run_number.to_le_bytes()[..], &revision.to_le_bytes(), &write_id, changed.as_bytes()].concat();
    let digest = store::Digest::of(checksummed);
    let checksum = &digest.as_str()[..32];
    let update = "UPDATE entries SET body = ?3, checksum = unhex(?4) WHERE run = ?1 AND revision = ?2";
    database
        .execute(update, rusqlite::params![run_number, revision.cast_signed(), changed, checksum])
        .unwrap();
}

#[test]
fn embedded_a_run_with_a_contradictory_first_entry_is_named_and_others_come_back() {
    let test_env = env_with_four_runs();
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    rewrite_entry(&database, "one", 1, |body| body.replace("\"step\":\"a\"", "\"step\":\"z\""));
    drop(database);
    let recovered = test_env.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 1, "{}", recovered.transcript());
    assert!(recovered.stdout.contains("it contradicts the entries before it"), "{}", recovered.transcript());
    let hint =
        "recover --from-view [REPO]/.agents/runs/one/run_state.json --workflow WORKFLOW` to rebuild `one`";
    assert!(recovered.transcript().contains(hint), "{}", recovered.transcript());
    let runs = test_env.callboard(&["ls", "--json"]).run().json();
    let names: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert!(!names.contains(&"one") && names.contains(&"trial"), "{names:?}");
}

#[test]
fn embedded_runs_of_a_copy_are_not_added_to_a_store_with_an_inconsistent_run() {
    let test_env = env_with_four_runs();
    let database = test_env.store_dir().join("callboard.db");
    let copy = test_env.agent_dir().join("copy.db");
    fs::copy(&database, &copy).unwrap();
    let connection = rusqlite::Connection::open(&database).unwrap();
    rewrite_entry(&connection, "one", 1, |body| body.replace("\"step\":\"a\"", "\"step\":\"z\""));
    drop(connection);
    let from_copy = ["recover", "--from", copy.to_str().unwrap()];
    assert_snapshot!(test_env.callboard(&from_copy).run().transcript(), @"
    $ callboard recover --from [SHARED]/copy.db
    error: cannot add the runs of `[SHARED]/copy.db`: the store `[STORE]` is damaged
      caused by: run `one`: entry 1 does not follow from those before it: it contradicts the entries before it

    hint: run `callboard recover` to repair the store, then this command again
    [exit 5]
    ");
    assert_eq!(test_env.callboard(&[&from_copy[..], &["--dry-run"]].concat()).run().code, 5);
    // The repaired store has nothing of the run.
    assert_eq!(test_env.callboard(&["recover"]).run().code, 1);
    let added = test_env.callboard(&from_copy).run();
    assert_eq!(added.code, 0, "{}", added.transcript());
    assert!(added.stdout.contains("one   whole"), "{}", added.transcript());
}

#[test]
fn embedded_a_run_with_entries_of_a_newer_program_is_not_cut() {
    let test_env = env_with_four_runs();
    let path = test_env.store_dir().join("callboard.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    rewrite_entry(&database, "one", 3, |body| {
        let mut entry: serde_json::Value = serde_json::from_str(body).unwrap();
        entry["v"] = 99.into();
        entry.to_string()
    });
    drop(database);
    let refused = test_env.callboard(&["recover"]).run();
    assert_eq!(refused.code, 5, "{}", refused.transcript());
    assert!(refused.stderr.contains("use the newer version of callboard"), "{}", refused.stderr);
    let database = rusqlite::Connection::open(&path).unwrap();
    let count = "SELECT count(*) FROM entries WHERE run = (SELECT id FROM runs WHERE name = 'one')";
    assert_eq!(database.query_one(count, [], |row| row.get::<_, i64>(0)).unwrap(), 5);
}

#[test]
fn embedded_a_second_recovery_makes_its_own_backup() {
    let test_env = env_with_four_runs();
    for run in ["one", "two"] {
        damage_entry(&test_env, run, 5);
        assert_eq!(test_env.callboard(&["recover"]).run().code, 1);
    }
    let backups: Vec<_> = fs::read_dir(test_env.store_dir().join("saved"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(backups.len(), 2, "{backups:?}");
    let copies: Vec<_> =
        backups.iter().map(|backup| fs::read(backup.join("callboard.db")).unwrap()).collect();
    assert!(copies[0] != copies[1]);
    let checked =
        std::process::Command::new("sha256sum").args(["-c", "digests"]).current_dir(&backups[0]).output();
    assert!(checked.unwrap().status.success());
}

/// SQLite alone would drop every commit after the damaged frame, and the running attempt with them.
#[test]
fn embedded_commits_after_a_damaged_wal_frame_come_back() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    let wal = test_env.store_dir().join("callboard.db-wal");
    let frames = (fs::metadata(&wal).unwrap().len() as usize - 32) / (24 + PAGE);
    assert!(frames > 8, "the log has {frames} frames");
    overwrite_randomly(&wal, 32 + 2 * (24 + PAGE) + 100, 50);
    let damaged = fs::read(&wal).unwrap();
    let recovered = test_env.callboard(&["recover", "--json"]).run();
    let recovery = recovered.json();
    assert!(recovery["damage"][0].as_str().unwrap().contains("of its log"), "{recovery}");
    assert_eq!(recovery["runs"][0]["outcome"], "whole", "{recovery}");
    let backup = Path::new(recovery["backup"].as_str().unwrap());
    assert!(fs::read(backup.join("callboard.db-wal")).unwrap() == damaged, "it was not kept byte for byte");
    // The agent is still running and is adopted: no second one is started.
    let stopped = test_env.callboard(&["stop", "trial"]).run();
    assert_eq!(stopped.code, 0, "{}", stopped.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "b#1.2"]);
    test_env.expect_no_orphans();
}
