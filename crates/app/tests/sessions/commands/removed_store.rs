//! A store that is removed under a live engine, which then saves an emergency copy of the database elsewhere.

use std::fs;
use std::path::PathBuf;

use testkit::{Running, TestEnv};

use crate::sessions::{status, test_env};

/// Starts a run, and waits until the agent of its second step, which never ends by itself, has started.
fn start_run(test_env: &TestEnv) -> Running<'_> {
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    running
}

/// Returns the path of the emergency copy, as the engine printed it.
fn emergency_copy(stderr: &str) -> PathBuf {
    let (_, after) = stderr.split_once("is saved in `").unwrap_or_else(|| panic!("no copy: {stderr}"));
    PathBuf::from(after.split_once('`').unwrap().0)
}

#[test]
fn embedded_a_removed_store_stops_the_engine_which_saves_an_emergency_copy() {
    let test_env = test_env();
    let running = start_run(&test_env);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    assert!(ended.stderr.contains("was removed, moved or replaced while it was in use"), "{}", ended.stderr);
    assert!(ended.stderr.contains("running agents continue"), "{}", ended.stderr);
    assert!(!test_env.store_dir().exists(), "it was made again");

    let copy = emergency_copy(&ended.stderr);
    assert!(copy.starts_with(test_env.home()), "{}", copy.display());
    let recovered = test_env.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    test_env.script_agent(&[]);
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
    let started = test_env.agent_log().started();
    assert_eq!(started.iter().filter(|line| *line == "a#1.1").count(), 1, "{started:?}");
    test_env.expect_no_orphans();
}

#[test]
fn embedded_without_a_state_directory_the_emergency_copy_goes_to_the_temporary_one() {
    let test_env = test_env();
    let (state, temporary) = (test_env.agent_dir().join("state"), test_env.agent_dir().join("temporary"));
    fs::write(&state, "not a directory").unwrap();
    fs::create_dir(&temporary).unwrap();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).env("XDG_STATE_HOME", &state).env("TMPDIR", &temporary).start();
    test_env.agent_log().wait_for_start("a#1.1");
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    assert!(ended.stderr.contains("Not a directory"), "{}", ended.stderr);
    let copy = emergency_copy(&ended.stderr);
    assert!(copy.starts_with(&temporary), "{}", copy.display());
    let recovered = test_env.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    test_env.expect_no_orphans();
}

#[test]
fn embedded_a_removed_store_is_not_shown_as_an_empty_one() {
    let test_env = test_env();
    let running = start_run(&test_env);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let copy = emergency_copy(&running.wait().stderr);
    let command = format!("callboard recover --from {}", copy.display());
    for (arguments, code) in [(&["ls"][..], 0), (&["show", "trial"], 2), (&["resume"], 2), (&["doctor"], 1)] {
        let session = test_env.callboard(arguments).run();
        assert_eq!(session.code, code, "{}", session.transcript());
        let text = format!("{}{}", session.stdout, session.stderr);
        assert!(text.contains("there is no store, although `.agents/runs` has 1 run and a copy"), "{text}");
        assert!(text.contains(&command), "{text}");
        assert!(!test_env.store_dir().exists(), "{text}");
    }

    // If the copy is gone, too, only the views are left to recover from.
    fs::remove_file(&copy).unwrap();
    let stderr = test_env.callboard(&["ls"]).run().stderr;
    assert!(stderr.contains("there is no store, although `.agents/runs` has 1 run\n"), "{stderr}");
    assert!(stderr.contains("callboard recover --from-view"), "{stderr}");

    // A new run says what the new store lacks.
    test_env.script_agent(&[]);
    let fresh = test_env.run(&[]).run();
    assert_eq!(fresh.code, 0, "{}", fresh.transcript());
    assert!(fresh.stderr.contains("there is no store, although"), "{}", fresh.stderr);
    let stderr = test_env.callboard(&["ls"]).run().stderr;
    assert!(!stderr.contains("there is no store"), "{stderr}");
    testkit::attempt_processes(&test_env.store_dir()).iter().for_each(testkit::AttemptProcess::kill);
}

#[test]
fn embedded_a_dry_run_leaves_no_store_where_there_was_none() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    let copy = test_env.agent_dir().join("copy.db");
    fs::copy(test_env.store_dir().join("callboard.db"), &copy).unwrap();
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let from = copy.to_str().unwrap();
    let session = test_env.callboard(&["recover", "--from", from, "--dry-run"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.contains("would be created from the copy"), "{}", session.stdout);
    assert!(session.stdout.contains("trial whole"), "{}", session.stdout);
    assert!(!test_env.store_dir().exists());
    let done = test_env.callboard(&["recover", "--from", from]).run();
    assert_eq!(done.code, 0, "{}", done.transcript());
    assert!(done.stdout.contains("was created from the copy"), "{}", done.stdout);
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 0);
}

#[test]
fn embedded_a_moved_store_stops_the_engine_and_is_used_again_when_moved_back() {
    let test_env = test_env();
    let running = start_run(&test_env);
    let moved_store = test_env.agent_dir().join("elsewhere");
    fs::rename(test_env.store_dir(), &moved_store).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    emergency_copy(&ended.stderr);
    fs::rename(&moved_store, test_env.store_dir()).unwrap();
    assert!(test_env.callboard(&["recover"]).run().stdout.contains("is intact"));
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    test_env.expect_no_orphans();
}

#[test]
fn embedded_another_store_in_its_place_is_left_alone_and_can_import_the_runs() {
    let test_env = test_env();
    let running = start_run(&test_env);
    fs::remove_dir_all(test_env.store_dir()).unwrap();
    let ended = running.wait();
    let copy = emergency_copy(&ended.stderr);
    test_env.script_agent(&[]);
    assert_eq!(test_env.run_named("another").run().code, 0);
    let recovered = test_env.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert!(recovered.stdout.contains("were added:\n  trial whole"), "{}", recovered.stdout);
    let runs = test_env.callboard(&["ls", "--json"]).run().json();
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    let second_recovery = test_env.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    let not_added = "were not added\n  trial exists";
    assert!(second_recovery.stdout.contains(not_added), "{}", second_recovery.transcript());
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 0);
    test_env.expect_no_orphans();
}
