//! Which files the processes of this user have open, and locked, as `/proc` shows them. Looking takes no lock and waits
//! for nobody.
//!
//! `/proc/locks` would be one file to read, but it names files by a device that btrfs and overlays do not show to
//! others. What it could tell more, the processes of other users, a store does not have: it is one user's.

use std::fs;
use std::path::{Path, PathBuf};

use super::holder::Holder;

/// A lock for writing, and the process that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    pub file: PathBuf,
    pub holder: Holder,
}

/// The locks that are held on files below this directory.
#[must_use]
pub fn held_locks(below: &Path) -> Vec<HeldLock> {
    // The kernel shows paths without links in them.
    let Ok(real) = below.canonicalize() else { return Vec::new() };
    let mut found = Vec::new();
    for open in all_open_files() {
        let Ok(name) = open.target.strip_prefix(&real) else { continue };
        let lock = (below.join(name), open.pid);
        if open.is_locked() && !found.contains(&lock) {
            found.push(lock);
        }
    }
    let held = |(file, pid)| Some(HeldLock { file, holder: Holder::of(pid)? });
    found.into_iter().filter_map(held).collect()
}

/// Whoever holds the lock on this file, if we can see the process.
pub(crate) fn holder(file: &Path) -> Option<Holder> {
    let file = file.canonicalize().ok()?;
    let open = all_open_files().find(|open| open.target == file && open.is_locked())?;
    Holder::of(open.pid)
}

/// Whether this process can be seen to hold the lock on the file.
pub(crate) fn holds_lock(pid: u32, file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    open_files(pid).any(|open| open.target == file && open.is_locked())
}

/// How many sets of file watches the processes of this user have.
#[must_use]
pub fn inotify_instances() -> usize {
    all_open_files().filter(|open| open.target == Path::new("anon_inode:inotify")).count()
}

/// One descriptor of a process.
struct OpenFile {
    pid: u32,
    target: PathBuf,
    info: PathBuf,
}

impl OpenFile {
    /// Whether the whole file is locked for writing through this descriptor. Who only waits has no such line.
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

/// What may not be listed is another user's; what ends meanwhile has nothing open.
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
    fn the_holder_of_a_lock_is_seen_and_whoever_only_has_the_file_open_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        let us = std::process::id();
        let seen = || {
            let held = held_locks(directory.path());
            let held: Vec<_> = held.into_iter().map(|held| (held.file, held.holder.pid)).collect();
            (held, holder(&path).map(|holder| holder.pid), holds_lock(us, &path))
        };
        assert_eq!(seen(), (vec![], None, false));
        file.lock().unwrap();
        assert_eq!(seen(), (vec![(path.clone(), us)], Some(us), true));
        assert!(!holds_lock(1, &path));
        file.unlock().unwrap();
        assert_eq!(seen(), (vec![], None, false));
    }

    #[test]
    fn whoever_waits_for_a_lock_does_not_hold_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("lock");
        let held = fs::File::create(&path).unwrap();
        held.lock().unwrap();
        let mut waiting = std::process::Command::new("flock").arg(&path).arg("true").spawn().unwrap();
        while open_files(waiting.id()).all(|open| open.target != path) {
            std::thread::yield_now();
        }
        assert!(!holds_lock(waiting.id(), &path));
        assert_eq!(holder(&path).map(|holder| holder.pid), Some(std::process::id()));
        drop(held);
        assert!(waiting.wait().unwrap().success());
    }
}
