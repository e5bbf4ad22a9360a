//! Which files the processes of this user have open, as `/proc` shows them. Looking takes no lock and waits for nobody.

use std::fs;
use std::path::{Path, PathBuf};

/// A process that holds the kernel's lock on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    pub file: PathBuf,
    pub pid: i32,
}

/// Who holds a lock for writing on a file below this directory. Processes of other users cannot be seen.
pub fn lock_holders(below: &Path) -> Vec<LockHolder> {
    // The kernel shows paths without links in them.
    let Ok(real) = below.canonicalize() else { return Vec::new() };
    let mut holders = Vec::new();
    for_each_open_file(|pid, process, number, target| {
        let Ok(name) = target.strip_prefix(&real) else { return };
        let held = fs::read_to_string(process.join("fdinfo").join(number)).is_ok_and(|info| locks(&info));
        let holder = LockHolder { file: below.join(name), pid };
        if held && !holders.contains(&holder) {
            holders.push(holder);
        }
    });
    holders
}

/// How many sets of file watches the processes of this user have.
pub fn inotify_instances() -> usize {
    let mut instances = 0;
    for_each_open_file(|_, _, _, target| instances += usize::from(target == Path::new("anon_inode:inotify")));
    instances
}

/// Calls for every open file with the process's number and directory, the descriptor and what it is.
fn for_each_open_file(mut look: impl FnMut(i32, &Path, &Path, &Path)) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let process = entry.path();
        // What may not be listed is another user's; what ends meanwhile has nothing open.
        for open in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            if let Ok(target) = fs::read_link(open.path()) {
                look(pid, &process, Path::new(&open.file_name()), &target);
            }
        }
    }
}

/// Whether a descriptor's `fdinfo` says that the whole file is locked for writing through it. Who only waits has no
/// such line.
fn locks(info: &str) -> bool {
    info.lines()
        .filter(|line| line.starts_with("lock:"))
        .any(|line| line.contains(" FLOCK ") && line.contains(" WRITE "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_seen_and_whoever_only_has_the_file_open_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = fs::File::create(&path).unwrap();
        assert_eq!(lock_holders(directory.path()), []);
        held.lock().unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        assert_eq!(lock_holders(directory.path()), [LockHolder { file: path, pid: us }]);
        held.unlock().unwrap();
        assert_eq!(lock_holders(directory.path()), []);
    }
}
