//! Finding the processes of attempts, and probing programs: running one for its output, such as its version.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use supervisor::{ProbeError, find_marked, probe};

const LONG: Duration = Duration::from_secs(60);

/// Writes a program with this script.
fn program(directory: &tempfile::TempDir, script: &str) -> PathBuf {
    let file = directory.path().join("agent");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_probe_returns_both_output_streams() {
    let directory = tempfile::tempdir().unwrap();
    let agent = program(&directory, r#"echo "$1 2.1"; echo also >&2"#);
    assert_eq!(probe(&agent, &["--version"], LONG).unwrap(), "--version 2.1\nalso\n");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_descendants_in_other_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("pids");
    let script =
        format!("setsid sh -c 'echo $$ >>{0}; exec sleep 1000' & echo $$ >>{0}; wait", pid_file.display());
    let agent = program(&directory, &script);
    let probed = probe(&agent, &[], Duration::from_secs(3));
    assert!(matches!(probed, Err(ProbeError::TimedOut(_))), "{probed:?}");
    let pids = fs::read_to_string(pid_file).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"));
        assert!(state.is_err() || state.unwrap().contains(") Z "), "{pid} is left");
    }
}

#[test]
fn a_probe_does_not_wait_for_a_child_that_keeps_the_pipe_open() {
    let directory = tempfile::tempdir().unwrap();
    let agent = program(&directory, "sleep 1000 & echo 7");
    assert_eq!(probe(&agent, &[], LONG).unwrap(), "7\n");
}

#[test]
fn a_program_with_much_output_ends_and_its_output_is_truncated() {
    let directory = tempfile::tempdir().unwrap();
    let agent = program(&directory, "head -c 1000000 /dev/zero | tr '\\0' x");
    assert_eq!(probe(&agent, &[], LONG).unwrap().len(), 4096);
}

#[test]
fn a_failing_and_a_missing_program_are_different_errors() {
    let directory = tempfile::tempdir().unwrap();
    let agent = program(&directory, "exit 3");
    assert!(matches!(probe(&agent, &[], LONG), Err(ProbeError::Failed { .. })));
    assert!(matches!(probe(&directory.path().join("none"), &[], LONG), Err(ProbeError::Start(_))));
}

#[test]
fn marked_processes_are_found_with_their_unmarked_descendants() {
    let store = tempfile::tempdir().unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "env -i sleep 1000 & echo ready; wait"])
        .env("CALLBOARD_STORE", store.path())
        .env("CALLBOARD_RUN", "trial")
        .env("CALLBOARD_ATTEMPT", "a#1.1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let found = |pid: u32| {
        let all = find_marked().unwrap();
        all.into_iter()
            .filter(|marked| marked.store == store.path())
            .find(|marked| marked.pid.cast_unsigned() == pid)
    };
    // The grandchild carries the mark until `env -i` has executed `sleep`.
    let marked = loop {
        let marked = found(child.id()).expect("it carries the mark");
        if !marked.unmarked_descendants.is_empty() {
            break marked;
        }
        std::thread::yield_now();
    };
    assert_eq!(
        (marked.run.as_str(), marked.attempt.as_str(), marked.unmarked_descendants.len()),
        ("trial", "a#1.1", 1)
    );
    assert!(marked.command.starts_with("sh -c env -i sleep"), "{}", marked.command);
    for pid in [marked.unmarked_descendants[0], marked.pid] {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
    child.wait().unwrap();
    assert_eq!(found(child.id()), None);
}
