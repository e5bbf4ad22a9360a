//! View files that are deleted, replaced or never written: the store rewrites every view.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::Scene;

use crate::sessions::{scene, status};

/// Replaces the view while the second step waits, and returns where the replacement was moved to.
fn displaced(scene: &Scene, store: Option<&Path>, replace: impl Fn(&Path)) -> PathBuf {
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * wait gate"]);
    let mut gate = scene.gate("gate");
    let store: Vec<_> =
        store.iter().flat_map(|store| ["--store", store.to_str().expect("our paths are UTF-8")]).collect();
    let running = scene.run(&store).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    fs::remove_file(scene.view("trial")).expect("the view is there");
    replace(&scene.view("trial"));
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&scene.document("trial"), "b"), "COMPLETED");
    let (_, rest) = session.stderr.split_once("moved it to ").expect("it says so");
    PathBuf::from(rest.split_once(" and wrote the view again").expect("it says so").0)
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|made| made.success()), "a pipe can be made");
}

fn directory(path: &Path) {
    fs::create_dir(path).expect("the place is free");
    fs::write(path.join("inside"), "theirs").expect("it can be written");
}

#[test]
fn a_pipe_at_a_views_path_is_moved_away() {
    let scene = scene();
    let kept = displaced(&scene, None, pipe);
    assert!(kept.metadata().unwrap().file_type().is_fifo());
    assert!(kept.starts_with(scene.store().join("quarantine")), "{}", kept.display());
}

#[test]
fn a_directory_at_a_views_path_is_moved_away_with_its_contents() {
    let scene = scene();
    let kept = displaced(&scene, None, directory);
    assert_eq!(fs::read_to_string(kept.join("inside")).unwrap(), "theirs");
}

#[test]
fn a_replaced_view_is_quarantined_in_a_store_on_the_same_file_system() {
    let scene = scene();
    let store = scene.home().join("store");
    let kept = displaced(&scene, Some(&store), pipe);
    assert!(kept.starts_with(&store) && kept.metadata().unwrap().file_type().is_fifo());
}

#[test]
fn a_replaced_view_is_quarantined_in_a_store_on_another_file_system() {
    let Some(elsewhere) = other_file_system() else {
        eprintln!("SKIPPED: there is no second file system here");
        return;
    };
    let store = |name: &str| elsewhere.path().join(name);
    let kept = displaced(&scene(), Some(&store("text")), |path| fs::write(path, "theirs").unwrap());
    assert!(kept.starts_with(elsewhere.path()) && fs::read_to_string(&kept).unwrap() == "theirs");
    let scene_of_pipe = scene();
    assert!(displaced(&scene_of_pipe, Some(&store("pipe")), pipe).metadata().unwrap().file_type().is_fifo());
    let scene_of_directory = scene();
    let kept = displaced(&scene_of_directory, Some(&store("directory")), directory);
    assert_eq!(fs::read_to_string(kept.join("inside")).unwrap(), "theirs");
}

/// A directory on another file system than the one for temporary files.
fn other_file_system() -> Option<tempfile::TempDir> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    let memory = Path::new("/dev/shm");
    (device(memory)? != device(&std::env::temp_dir())?).then(|| tempfile::tempdir_in(memory).ok())?
}

/// The file that shows the latest report of a step.
fn report(scene: &Scene, step: &str) -> PathBuf {
    let shown = scene.document("trial")["steps"][step]["report_path"].as_str().map(PathBuf::from);
    shown.expect("the step has reported")
}

#[test]
fn a_deleted_report_view_is_rewritten_when_the_run_ends() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    let file = report(&scene, "a");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    gate.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(report(&scene, "b").is_file());
}

#[test]
fn a_report_view_that_could_not_be_written_is_written_when_the_run_ends() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    // A file where the directory of the reports should be.
    let block = r#"a * do rm -rf .agents/runs/trial/reports; mkdir -p .agents/runs/trial; : >.agents/runs/trial/reports; hand_in COMPLETED "did a""#;
    scene.plan(&[block, "b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&[]).start();
    scene.agent_log().wait_for_start("b#1.1");
    fs::remove_file(scene.repo().join(".agents/runs/trial/reports")).unwrap();
    gate.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(report(&scene, "a").is_file() && report(&scene, "b").is_file());
}

#[test]
fn report_views_are_rewritten_after_an_engine_was_killed() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    scene.plan(&["b * hang"]);
    let running = scene.run(&[]).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    running.kill();
    running.wait();
    let file = report(&scene, "a");
    fs::remove_file(&file).unwrap();
    assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
    assert!(file.is_file(), "`stop` leaves the run at rest");
    fs::remove_file(&file).unwrap();
    scene.plan(&[]);
    assert_eq!(scene.callboard(&["resume"]).run().code, 0);
    assert!(file.is_file() && report(&scene, "b").is_file());
    assert!(!scene.store().join("quarantine").exists(), "nothing was anybody else's");
}

/// Makes a run whose engine was killed after it had written a view that no commit records.
fn killed(plan: &[&str], more: &[&str]) -> Scene {
    let scene = scene();
    scene.workflow(&["a", "b", "c: a b"]);
    scene.plan(plan);
    let running = scene.run(&[&["--jobs", "2"], more].concat()).start();
    scene.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    scene.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    scene
}

#[test]
fn commands_after_a_killed_engine_recognise_its_view() {
    for command in
        [&["stop", "trial"][..], &["pause", "trial"], &["skip", "trial", "c", "--reason", "enough"]]
    {
        let scene = killed(&["* * hang"], &[]);
        let session = scene.callboard(command).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert!(!scene.store().join("quarantine").exists(), "{command:?} took our view for a stranger's");
        assert!(!session.stderr.contains("another program changed"), "{}", session.stderr);
        assert_eq!(scene.callboard(&["stop", "trial"]).run().code, 0);
        scene.expect_no_orphans();
    }
}

#[test]
fn a_retry_after_a_killed_engine_recognises_its_view() {
    let scene = scene();
    scene.workflow(&["a", "b", "c: a b"]);
    scene.plan(&["a * exit 1", "b * wait gate"]);
    let mut gate = scene.gate("gate");
    let running = scene.run(&["--jobs", "2", "--max-attempts", "1", "--on-failure", "continue"]).start();
    scene.wait_for_view("trial", "a failure", |document| status(document, "a") == "FAILED");
    scene.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    scene.plan(&[]);
    let retried = scene.callboard(&["retry", "trial", "--jobs", "2"]).start();
    scene.agent_log().wait_for_start("a#2.1");
    gate.open();
    let session = retried.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!scene.store().join("quarantine").exists(), "{}", session.stderr);
    assert_eq!(scene.agent_log().started().iter().filter(|begun| begun.starts_with("b#")).count(), 1);
}

#[test]
fn a_prompt_is_never_written_in_place() {
    let scene = scene();
    scene.workflow(&["a", "b: a"]);
    // A process that has the old file open, or linked as here, must not see it change.
    let link = r#"a * do attempt="${REPORT_PATH%/a/*}/b/1.1"; mkdir -p "$attempt"; echo old >"$kit/witness"; ln "$kit/witness" "$attempt/prompt.md"; ln "$kit/witness" "$attempt/context.json"; hand_in COMPLETED "did a""#;
    scene.plan(&[link, "b * tell"]);
    assert_eq!(scene.run(&[]).run().code, 0);
    assert_eq!(fs::read_to_string(scene.kit().join("witness")).unwrap(), "old\n");
    assert!(fs::read_to_string(scene.kit().join("prompt")).unwrap().starts_with("You are `coder`"));
}
