//! Finding the processes of attempts.

use std::process::Command;

use supervisor::find_marked;

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
