//! Finds the files that this user's processes have open and locked, from `/proc`. Takes no lock and never waits.
//!
//! `/proc/locks` would be a single file, but it identifies files by a device number that `stat` does not return on
//! btrfs and overlayfs. It also lists other users' processes, which is not needed: a store belongs to one user.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::ProcessInfo;

/// An exclusive lock on a file, and the process that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    pub file: PathBuf,
    pub holder: ProcessInfo,
}

/// Returns the locks that are held on files below a directory.
#[must_use]
pub fn held_locks(below: &Path) -> Vec<HeldLock> {
    // The kernel shows paths without symbolic links.
    let Ok(real) = below.canonicalize() else { return Vec::new() };
    let mut found = Vec::new();
    for open in all_open_files() {
        let Ok(name) = open.target.strip_prefix(&real) else { continue };
        let lock = (below.join(name), open.pid);
        if open.is_locked() && !found.contains(&lock) {
            found.push(lock);
        }
    }
    let held = |(file, pid)| Some(HeldLock { file, holder: ProcessInfo::of(pid)? });
    found.into_iter().filter_map(held).collect()
}

/// Returns the process that holds the lock on a file, if it is visible.
pub fn lock_holder(file: &Path) -> Option<ProcessInfo> {
    let file = file.canonicalize().ok()?;
    let open = all_open_files().find(|open| open.target == file && open.is_locked())?;
    ProcessInfo::of(open.pid)
}

/// Whether the process visibly holds the lock on the file.
pub fn holds_lock(pid: u32, file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    open_files(pid).any(|open| open.target == file && open.is_locked())
}

/// Counts the inotify instances of this user's processes.
#[must_use]
pub fn inotify_instances() -> usize {
    all_open_files().filter(|open| open.target == Path::new("anon_inode:inotify")).count()
}

/// One file descriptor of a process.
struct OpenFile {
    pid: u32,
    /// What it refers to: a path, or a name such as `anon_inode:inotify`.
    target: PathBuf,
    /// Its file in `/proc/PID/fdinfo`, which lists the locks.
    info: PathBuf,
}

impl OpenFile {
    /// Whether the file is locked exclusively through this descriptor. The `fdinfo` of a process that only
    /// waits for the lock has no line for it.
    fn is_locked(&self) -> bool {
        let info = fs::read_to_string(&self.info).unwrap_or_default();
        let mut locks = info.lines().filter(|line| line.starts_with("lock:"));
        locks.any(|line| line.contains(" FLOCK ") && line.contains(" WRITE "))
    }
}

fn all_open_files() -> impl Iterator<Item = OpenFile> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).flat_map(open_files)
}

/// Returns nothing for another user's process, and for one that has ended.
fn open_files(pid: u32) -> impl Iterator<Item = OpenFile> {
    let process = Path::new("/proc").join(pid.to_string());
    fs::read_dir(process.join("fd")).into_iter().flatten().flatten().filter_map(move |open| {
        let target = fs::read_link(open.path()).ok()?;
        Some(OpenFile { pid, target, info: process.join("fdinfo").join(open.file_name()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_locked_an_open_file_is_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        let us = std::process::id();
        let seen = || {
            let held = held_locks(directory.path());
            let held: Vec<_> = held.into_iter().map(|held| (held.file, held.holder.pid)).collect();
            (held, lock_holder(&path).map(|holder| holder.pid), holds_lock(us, &path))
        };
        assert_eq!(seen(), (vec![], None, false));
        file.lock().unwrap();
        assert_eq!(seen(), (vec![(path.clone(), us)], Some(us), true));
        assert!(!holds_lock(1, &path));
        file.unlock().unwrap();
        assert_eq!(seen(), (vec![], None, false));
    }

    #[test]
    fn a_process_that_waits_for_a_lock_is_not_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("lock");
        let held = fs::File::create(&path).unwrap();
        held.lock().unwrap();
        let mut waiting = std::process::Command::new("flock").arg(&path).arg("true").spawn().unwrap();
        while open_files(waiting.id()).all(|open| open.target != path) {
            std::thread::yield_now();
        }
        assert!(!holds_lock(waiting.id(), &path));
        assert_eq!(lock_holder(&path).map(|holder| holder.pid), Some(std::process::id()));
        drop(held);
        assert!(waiting.wait().unwrap().success());
    }
}
