//! A store that is removed under a live engine.

use std::fs;
use std::path::PathBuf;

use testkit::{Running, Scene};

use crate::sessions::{scene, status};

/// A run whose second step waits.
fn at_work(scene: &Scene) -> Running<'_> {
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * hang"]);
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("b#1.1");
    running
}

/// The path of the emergency copy, as the engine printed it.
fn saved(stderr: &str) -> PathBuf {
    let (_, rest) = stderr.split_once("is saved in `").unwrap_or_else(|| panic!("no copy: {stderr}"));
    PathBuf::from(rest.split_once('`').unwrap().0)
}

#[test]
fn embedded_a_removed_store_stops_the_engine_which_saves_an_emergency_copy() {
    let scene = scene();
    let running = at_work(&scene);
    fs::remove_dir_all(scene.store()).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    assert!(ended.stderr.contains("was removed, moved or replaced while it was in use"), "{}", ended.stderr);
    assert!(ended.stderr.contains("running agents continue"), "{}", ended.stderr);
    assert!(!scene.store().exists(), "it was made again");

    let copy = saved(&ended.stderr);
    assert!(copy.starts_with(scene.home()), "{}", copy.display());
    let back = scene.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(back.code, 0, "{}", back.transcript());
    scene.plan(&[]);
    let resumed = scene.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    let begun = scene.agent_log().started();
    assert_eq!(begun.iter().filter(|line| *line == "a#1.1").count(), 1, "{begun:?}");
    scene.expect_no_orphans();
}

#[test]
fn embedded_without_a_state_directory_the_emergency_copy_goes_to_the_temporary_one() {
    let scene = scene();
    let (state, temporary) = (scene.kit().join("state"), scene.kit().join("temporary"));
    fs::write(&state, "not a directory").unwrap();
    fs::create_dir(&temporary).unwrap();
    scene.workflow(&["a"]);
    scene.plan(&["a * hang"]);
    let running = scene.run(&[]).env("XDG_STATE_HOME", &state).env("TMPDIR", &temporary).start();
    scene.agent_log().wait_for_start("a#1.1");
    fs::remove_dir_all(scene.store()).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    assert!(ended.stderr.contains("Not a directory"), "{}", ended.stderr);
    let copy = saved(&ended.stderr);
    assert!(copy.starts_with(&temporary), "{}", copy.display());
    let back = scene.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(back.code, 0, "{}", back.transcript());
    assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
    scene.expect_no_orphans();
}

#[test]
fn embedded_a_removed_store_is_not_shown_as_an_empty_one() {
    let scene = scene();
    let running = at_work(&scene);
    fs::remove_dir_all(scene.store()).unwrap();
    let copy = saved(&running.wait().stderr);
    let command = format!("callboard recover --from {}", copy.display());
    for (looking, code) in [(&["ls"][..], 0), (&["show", "trial"], 2), (&["resume"], 2), (&["doctor"], 1)] {
        let told = scene.callboard(looking).run();
        assert_eq!(told.code, code, "{}", told.transcript());
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains("there is no store, although `.agents/runs` has 1 run and a copy"), "{text}");
        assert!(text.contains(&command), "{text}");
        assert!(!scene.store().exists(), "{text}");
    }

    // Without the copy the views are left.
    fs::remove_file(&copy).unwrap();
    let told = scene.callboard(&["ls"]).run().stderr;
    assert!(told.contains("there is no store, although `.agents/runs` has 1 run\n"), "{told}");
    assert!(told.contains("callboard recover --from-view"), "{told}");

    // A new run says what the new store lacks.
    scene.plan(&[]);
    let fresh = scene.run(&[]).run();
    assert_eq!(fresh.code, 0, "{}", fresh.transcript());
    assert!(fresh.stderr.contains("there is no store, although"), "{}", fresh.stderr);
    let told = scene.callboard(&["ls"]).run().stderr;
    assert!(!told.contains("there is no store"), "{told}");
    testkit::orphans(&scene.store()).iter().for_each(testkit::Orphan::kill);
}

#[test]
fn embedded_a_dry_run_leaves_no_store_where_there_was_none() {
    let scene = scene();
    scene.workflow(&["a"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    let copy = scene.kit().join("copy.db");
    fs::copy(scene.store().join("callboard.db"), &copy).unwrap();
    fs::remove_dir_all(scene.store()).unwrap();
    let from = copy.to_str().unwrap();
    let told = scene.callboard(&["recover", "--from", from, "--dry-run"]).run();
    assert_eq!(told.code, 0, "{}", told.transcript());
    assert!(told.stdout.contains("would be created from the copy"), "{}", told.stdout);
    assert!(told.stdout.contains("trial whole"), "{}", told.stdout);
    assert!(!scene.store().exists());
    let done = scene.callboard(&["recover", "--from", from]).run();
    assert_eq!(done.code, 0, "{}", done.transcript());
    assert!(done.stdout.contains("was created from the copy"), "{}", done.stdout);
    assert_eq!(scene.callboard(&["show", "trial"]).run().code, 0);
}

#[test]
fn embedded_a_moved_store_stops_the_engine_and_is_used_again_when_moved_back() {
    let scene = scene();
    let running = at_work(&scene);
    let elsewhere = scene.kit().join("elsewhere");
    fs::rename(scene.store(), &elsewhere).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, 5, "{}", ended.transcript());
    saved(&ended.stderr);
    fs::rename(&elsewhere, scene.store()).unwrap();
    assert!(scene.callboard(&["recover"]).run().stdout.contains("is intact"));
    assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
    scene.plan(&[]);
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 0);
    scene.expect_no_orphans();
}

#[test]
fn embedded_another_store_in_its_place_is_left_alone_and_can_import_the_runs() {
    let scene = scene();
    let running = at_work(&scene);
    fs::remove_dir_all(scene.store()).unwrap();
    let ended = running.wait();
    let copy = saved(&ended.stderr);
    scene.plan(&[]);
    assert_eq!(scene.run_named("another").run().code, 0);
    let back = scene.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert_eq!(back.code, 0, "{}", back.transcript());
    assert!(back.stdout.contains("were added:\n  trial whole"), "{}", back.stdout);
    let runs = scene.callboard(&["ls", "--json"]).run().json();
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    let twice = scene.callboard(&["recover", "--from", copy.to_str().unwrap()]).run();
    assert!(twice.stdout.contains("trial exists"), "{}", twice.transcript());
    assert_eq!(scene.callboard(&["resume", "trial"]).run().code, 0);
    scene.expect_no_orphans();
}
