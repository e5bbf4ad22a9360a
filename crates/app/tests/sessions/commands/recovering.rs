//! `recover`: undamaged entries are recovered, and no entry is invented.

mod at_random;
mod damaged;
mod missing_database;
mod rebuilt;

use std::fs;
use std::path::Path;

use insta::assert_snapshot;
use protocol::{Revision, RunId};
use store::{Location, SqliteStore, Store as _};
use testkit::harness::block_on;
use testkit::{Callboard, TestEnv};

use crate::sessions::{status, test_env};

/// The size of a page of the database.
const PAGE: usize = 4096;

/// Returns a test environment with three succeeded runs, and the run `trial`, stopped by Ctrl-C in its second step.
fn env_with_four_runs() -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a", "c: b"]);
    for run in ["one", "two", "three"] {
        let session = test_env.run_named(run).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
    }
    test_env.script_agent(&["b * hang"]);
    let running = test_env.run(&[]).start();
    // Nine attempts of the other three runs, and two of this one.
    testkit::wait_until(&test_env.agent_dir(), "its second step", || {
        (test_env.agent_log().started().len() == 11).then_some(())
    });
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    test_env.script_agent(&[]);
    test_env
}

fn open_store(store: &Path) -> SqliteStore {
    let location = Location::find(Path::new("/"), Some(store.to_owned())).unwrap();
    SqliteStore::open_existing(&location).unwrap().expect("there is a store")
}

/// Returns the entries of a run as they are stored.
fn entries(store: &Path, run: &str) -> Vec<String> {
    let stored = block_on(open_store(store).entries(&RunId::new(run).unwrap(), Revision(0))).unwrap();
    stored.into_iter().map(|entry| entry.body).collect()
}

/// Prepares `recover --from-view VIEW` with the scripted agent.
fn recover_from_view<'s>(test_env: &'s TestEnv, view: &Path) -> Callboard<'s> {
    test_env.with_agent(&["recover", "--from-view", view.to_str().unwrap(), "--workflow", "wf.yaml"])
}

#[test]
fn embedded_an_intact_store_is_checked_and_left_alone() {
    let test_env = env_with_four_runs();
    let database = test_env.store_dir().join("callboard.db");
    let before = fs::read(&database).unwrap();
    let session = test_env.callboard(&["recover"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard recover
    the store `[STORE]` is intact
      one   whole       5 entries, succeeded
      two   whole       5 entries, succeeded
      three whole       5 entries, succeeded
      trial whole       5 entries, stopped
    [exit 0]
    ");
    assert!(fs::read(&database).unwrap() == before, "the database was changed");
    // `recover` copies a damaged database to this directory first.
    assert!(!test_env.store_dir().join("saved").exists());
}

#[test]
fn embedded_a_store_with_a_live_engine_is_not_touched() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    assert_snapshot!(test_env.callboard(&["recover"]).run().transcript(), @"
    $ callboard recover
    error: run `trial` has an engine: process [PID] on `[HOST]`

    hint: run `callboard stop trial`, then the same command again
    [exit 5]
    ");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn missing_and_changed_views_are_rewritten() {
    let test_env = env_with_four_runs();
    let view = test_env.view_path("one");
    let before = fs::read(&view).unwrap();
    fs::remove_file(&view).unwrap();
    fs::remove_dir_all(test_env.view_path("two").parent().unwrap()).unwrap();
    fs::write(test_env.view_path("three"), "mine").unwrap();
    let recovered = test_env.callboard(&["recover", "--json"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert!(fs::read(&view).unwrap() == before);
    assert_eq!(status(&test_env.document("two"), "c"), "COMPLETED");
    assert!(test_env.view_path("two").with_file_name("reports").join("two__c.json").is_file());
    let quarantined = recovered.json()["quarantined"][0][1].as_str().unwrap().to_owned();
    assert_eq!(fs::read_to_string(quarantined).unwrap(), "mine");
    let again = test_env.callboard(&["recover", "--json"]).run().json();
    assert_eq!(again["views"], serde_json::json!([]));
}

#[test]
fn an_agent_cannot_recover_its_own_store() {
    let test_env = env_with_four_runs();
    let refused = test_env.callboard(&["recover"]).env("CALLBOARD_ATTEMPT", "a#1.1").run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
}
