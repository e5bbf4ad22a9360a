//! View files that are deleted, replaced or never written: every view is rewritten from the store.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::TestEnv;

use crate::sessions::{status, test_env};

/// Replaces the view of a run while its second step waits. Returns the path that the replacement was moved to.
fn run_with_replaced_view(test_env: &TestEnv, store: Option<&Path>, replace: impl Fn(&Path)) -> PathBuf {
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let store: Vec<_> =
        store.iter().flat_map(|store| ["--store", store.to_str().expect("our paths are UTF-8")]).collect();
    let running = test_env.run(&store).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    fs::remove_file(test_env.view_path("trial")).expect("the view is there");
    replace(&test_env.view_path("trial"));
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
    let (_, after) = session.stderr.split_once("moved it to ").expect("it says so");
    PathBuf::from(after.split_once(" and wrote the view again").expect("it says so").0)
}

/// Creates a named pipe.
fn make_pipe(path: &Path) {
    let created = Command::new("mkfifo").arg(path).status();
    assert!(created.is_ok_and(|created| created.success()), "a pipe can be made");
}

/// Creates a directory with the file `inside`.
fn make_directory(path: &Path) {
    fs::create_dir(path).expect("the place is free");
    fs::write(path.join("inside"), "theirs").expect("it can be written");
}

#[test]
fn a_pipe_at_a_views_path_is_moved_away() {
    let test_env = test_env();
    let quarantined = run_with_replaced_view(&test_env, None, make_pipe);
    assert!(quarantined.metadata().unwrap().file_type().is_fifo());
    assert!(quarantined.starts_with(test_env.store_dir().join("quarantine")), "{}", quarantined.display());
}

#[test]
fn a_directory_at_a_views_path_is_moved_away_with_its_contents() {
    let test_env = test_env();
    let quarantined = run_with_replaced_view(&test_env, None, make_directory);
    assert_eq!(fs::read_to_string(quarantined.join("inside")).unwrap(), "theirs");
}

#[test]
fn a_replaced_view_is_quarantined_in_a_store_on_the_same_file_system() {
    let test_env = test_env();
    let store = test_env.home().join("store");
    let quarantined = run_with_replaced_view(&test_env, Some(&store), make_pipe);
    assert!(quarantined.starts_with(&store) && quarantined.metadata().unwrap().file_type().is_fifo());
}

#[test]
fn a_replaced_view_is_quarantined_in_a_store_on_another_file_system() {
    let other_file_system_dir = other_file_system();
    let store = |name: &str| other_file_system_dir.path().join(name);
    let quarantined =
        run_with_replaced_view(&test_env(), Some(&store("text")), |path| fs::write(path, "theirs").unwrap());
    assert!(
        quarantined.starts_with(other_file_system_dir.path())
            && fs::read_to_string(&quarantined).unwrap() == "theirs"
    );
    let test_env_of_pipe = test_env();
    assert!(
        run_with_replaced_view(&test_env_of_pipe, Some(&store("pipe")), make_pipe)
            .metadata()
            .unwrap()
            .file_type()
            .is_fifo()
    );
    let test_env_of_directory = test_env();
    let quarantined =
        run_with_replaced_view(&test_env_of_directory, Some(&store("directory")), make_directory);
    assert_eq!(fs::read_to_string(quarantined.join("inside")).unwrap(), "theirs");
}

/// Creates a directory on another file system than that of temporary files. Panics if there is none.
fn other_file_system() -> tempfile::TempDir {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let temporary = device(&std::env::temp_dir());
    let mut candidates = ["/dev/shm", "/tmp", env!("CARGO_TARGET_TMPDIR")].into_iter().map(Path::new);
    let other = candidates.find(|path| path.exists() && device(path) != temporary);
    tempfile::tempdir_in(other.expect("a second file system")).unwrap()
}

/// Returns the path of the view of a step's latest report.
fn report_view(test_env: &TestEnv, step: &str) -> PathBuf {
    let shown = test_env.document("trial")["steps"][step]["report_path"].as_str().map(PathBuf::from);
    shown.expect("the step has reported")
}

#[test]
fn a_deleted_report_view_is_rewritten_when_the_run_ends() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    let file = report_view(&test_env, "a");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(report_view(&test_env, "b").is_file());
}

#[test]
fn a_report_view_that_could_not_be_written_is_written_when_the_run_ends() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    // A file where the directory of the reports should be.
    let block = r#"a * do rm -rf .agents/runs/trial/reports; mkdir -p .agents/runs/trial; : >.agents/runs/trial/reports; write_report COMPLETED "did a""#;
    test_env.script_agent(&[block, "b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    fs::remove_file(test_env.repo().join(".agents/runs/trial/reports")).unwrap();
    barrier.open();
    let session = running.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(report_view(&test_env, "a").is_file() && report_view(&test_env, "b").is_file());
}

#[test]
fn report_views_are_rewritten_after_an_engine_was_killed() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * hang"]);
    let running = test_env.run(&[]).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    running.kill();
    running.wait();
    let file = report_view(&test_env, "a");
    fs::remove_file(&file).unwrap();
    assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
    assert!(file.is_file(), "`stop` has written it again");
    fs::remove_file(&file).unwrap();
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 0);
    assert!(file.is_file() && report_view(&test_env, "b").is_file());
    assert!(!test_env.store_dir().join("quarantine").exists(), "all views are recognised");
}

/// Makes a run whose engine was killed after it had written a view, before another commit recorded the digest of that
/// file. Without the digest only its content shows that it is no file of another program.
fn run_with_killed_engine(behaviours: &[&str], extra_args: &[&str]) -> TestEnv {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a b"]);
    test_env.script_agent(behaviours);
    let running = test_env.run(&[&["--jobs", "2"], extra_args].concat()).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    test_env.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    test_env
}

#[test]
fn commands_after_a_killed_engine_recognise_its_view() {
    for command in
        [&["stop", "trial"][..], &["pause", "trial"], &["skip", "trial", "c", "--reason", "enough"]]
    {
        let test_env = run_with_killed_engine(&["* * hang"], &[]);
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 0, "{}", session.transcript());
        assert!(!test_env.store_dir().join("quarantine").exists(), "{command:?} quarantined our own view");
        assert!(!session.stderr.contains("another program changed"), "{}", session.stderr);
        assert_eq!(test_env.callboard(&["stop", "trial"]).run().code, 0);
        test_env.expect_no_orphans();
    }
}

#[test]
fn a_retry_after_a_killed_engine_recognises_its_view() {
    let test_env = test_env();
    test_env.workflow(&["a", "b", "c: a b"]);
    test_env.script_agent(&["a * exit 1", "b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2", "--max-attempts", "1", "--on-failure", "continue"]).start();
    test_env.wait_for_view("trial", "a failure", |document| status(document, "a") == "FAILED");
    test_env.agent_log().wait_for_start("b#1.1");
    running.kill();
    running.wait();
    test_env.script_agent(&[]);
    let retried = test_env.callboard(&["retry", "trial", "--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("a#2.1");
    barrier.open();
    let session = retried.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(!test_env.store_dir().join("quarantine").exists(), "{}", session.stderr);
    assert_eq!(test_env.agent_log().started().iter().filter(|attempt| attempt.starts_with("b#")).count(), 1);
}

#[test]
fn a_prompt_is_never_written_in_place() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    // A process that has the old file open, or linked as here, must not see it change.
    let link = r#"a * do attempt="${REPORT_PATH%/a/*}/b/1.1"; mkdir -p "$attempt"; echo old >"$shared/witness"; ln "$shared/witness" "$attempt/prompt.md"; ln "$shared/witness" "$attempt/context.json"; write_report COMPLETED "did a""#;
    test_env.script_agent(&[link, "b * save-input"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_eq!(fs::read_to_string(test_env.agent_dir().join("witness")).unwrap(), "old\n");
    assert!(fs::read_to_string(test_env.agent_dir().join("prompt")).unwrap().starts_with("You are `coder`"));
}
