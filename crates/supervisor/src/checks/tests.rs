//! Tests that run real commands as checks.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use protocol::checks::{CheckResult, CheckSpec};
use tempfile::TempDir;

use super::*;

fn check(name: &str, line: &str) -> CheckSpec {
    CheckSpec {
        name: name.to_owned(),
        command: ["sh", "-c", line].map(str::to_owned).to_vec(),
        timeout: Duration::from_mins(1),
    }
}

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        fs::create_dir(scratch.tree()).unwrap();
        scratch
    }

    fn tree(&self) -> std::path::PathBuf {
        self.0.path().join("tree")
    }

    fn logs(&self) -> std::path::PathBuf {
        self.0.path().join("logs")
    }

    fn try_run(&self, specs: &[CheckSpec], stop: StopFlag) -> Result<Vec<CheckResult>, CheckError> {
        let env = vec![("GREETING".to_owned(), "good day".to_owned())];
        CheckRunner { tree: &self.tree(), logs_dir: &self.logs(), env, stop }.run(specs, |_| {})
    }

    fn run(&self, specs: &[CheckSpec]) -> Vec<CheckResult> {
        self.try_run(specs, StopFlag::new().unwrap()).unwrap()
    }
}

/// Waits until a killed process, whose id is in the file, has ended. A zombie has ended: another process reaps it.
fn wait_for_end(file: &Path) {
    let pid = fs::read_to_string(file).unwrap();
    let is_alive = || {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    while is_alive() {
        std::thread::yield_now();
    }
}

#[test]
fn each_check_leaves_its_command_exit_code_and_output() {
    let scratch = Scratch::new();
    let results =
        scratch.run(&[check("test", "echo out; echo err >&2; exit 3"), check("lint", "echo $GREETING")]);
    let [test, lint] = results.as_slice() else { panic!("two results") };
    assert_eq!((test.exit_code, test.output.as_str(), test.passed()), (Some(3), "out\nerr\n", false));
    assert_eq!(test.summary(), "test failed: exit code 3");
    assert_eq!(test.tree, None, "it is not in git");
    let log = fs::read(test.log.as_ref().unwrap()).unwrap();
    assert_eq!(
        (log.as_slice(), test.output_digest.as_str()),
        (&b"out\nerr\n"[..], output::digest(&log).as_str())
    );
    assert!(lint.passed(), "it runs after one that failed");
    assert_eq!(lint.output, "good day\n");
}

#[test]
fn a_result_names_the_tree_that_the_check_found() {
    let scratch = Scratch::new();
    let mut init = Command::new("git");
    // If a git hook runs the tests, these variables name the repository of the hook.
    crate::git::LOCATION_VARIABLES.iter().for_each(|name| {
        init.env_remove(name);
    });
    assert!(init.arg("-C").arg(scratch.tree()).args(["init", "--quiet"]).status().unwrap().success());
    let before = crate::git::tree_hash(&scratch.tree()).unwrap();
    let results = scratch.run(&[check("generate", "echo x >made.txt"), check("test", "true")]);
    let after = crate::git::tree_hash(&scratch.tree()).unwrap();
    assert_ne!(before, after);
    assert_eq!((&results[0].tree, &results[1].tree), (&Some(before), &Some(after)));
}

#[test]
fn a_check_that_takes_too_long_is_killed_with_what_it_has_started() {
    let scratch = Scratch::new();
    let mut slow = check("test", "sleep 600 & echo $! >child; echo waiting; wait");
    slow.timeout = Duration::from_millis(300);
    let results = scratch.run(&[slow]);
    assert_eq!(results[0].summary(), "test failed: timed out after 300ms");
    assert_eq!(results[0].output, "waiting\n");
    wait_for_end(&scratch.tree().join("child"));
}

#[test]
fn what_a_check_leaves_in_the_background_is_killed() {
    let scratch = Scratch::new();
    let results = scratch.run(&[check("test", "sleep 600 & echo $! >child")]);
    assert!(results[0].passed());
    wait_for_end(&scratch.tree().join("child"));
}

#[test]
fn a_command_that_cannot_be_started_or_dies_has_no_exit_code() {
    let scratch = Scratch::new();
    let missing = CheckSpec { command: vec!["/no/such/program".to_owned()], ..check("lint", "") };
    let nothing = CheckSpec { command: Vec::new(), ..check("types", "") };
    let results = scratch.run(&[missing, nothing, check("test", "kill -9 $$")]);
    let summaries: Vec<_> = results.iter().map(CheckResult::summary).collect();
    assert_eq!(
        summaries,
        [
            "lint failed: cannot be started: No such file or directory (os error 2)",
            "types failed: cannot be started: it names no program",
            "test failed: killed by signal 9"
        ]
    );
    assert!(results.iter().all(|result| result.exit_code.is_none()));
}

#[test]
fn a_stop_ends_the_check_and_starts_no_other() {
    let scratch = Scratch::new();
    let stop = StopFlag::new().unwrap();
    let (ready, stop_from_thread) = (scratch.tree().join("ready"), stop.clone());
    assert!(Command::new("mkfifo").arg(&ready).status().unwrap().success());
    let requester = std::thread::spawn(move || {
        // Returns when the check writes.
        fs::read(&ready).unwrap();
        stop_from_thread.request();
    });
    let specs =
        [check("test", "echo $$ >child; echo >ready; exec sleep 600"), check("lint", "touch started")];
    let stopped = scratch.try_run(&specs, stop.clone());
    requester.join().unwrap();
    assert!(matches!(stopped, Err(CheckError::Stopped)) && stop.is_requested());
    wait_for_end(&scratch.tree().join("child"));
    assert!(!scratch.tree().join("started").exists());
}

#[test]
fn a_result_has_the_end_of_a_long_output_and_the_log_has_all() {
    let scratch = Scratch::new();
    let results = scratch.run(&[check("test", "yes äöü | head -c 300001; echo; echo the end")]);
    let output = &results[0].output;
    assert!(output.ends_with("the end\n") && output.len() <= 16 * 1024, "{}", output.len());
    assert!(!output.starts_with('\u{fffd}'), "no cut character");
    let log = fs::read(results[0].log.as_ref().unwrap()).unwrap();
    assert_eq!(log.len(), 300_001 + "\nthe end\n".len());
    assert_eq!(results[0].output_digest, output::digest(&log));
}
