//! Room and kind of the file systems that hold the store and the repository.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{Finding, Ground, nearest};
use crate::failure::Code;
use crate::output::{shell_word, size};

const CHECK: &str = "disk";

/// Below this an agent's build or a flood of logs fills the rest in minutes.
const LITTLE_ROOM: u64 = 512 << 20;
const FEW_FILES: u64 = 2_000;

pub(super) fn check(ground: &Ground) -> Vec<Finding> {
    let store = ground.root().map(nearest);
    let mut findings: Vec<_> = store.iter().flat_map(|store| of_file_system("store", store)).collect();
    let device = |path: &Path| fs::metadata(path).map(|data| data.dev()).ok();
    if store.as_deref().and_then(device) != device(&ground.repo) {
        findings.extend(of_file_system("repository", &ground.repo));
    }
    if let Some(kind) = kind(&ground.repo).filter(|kind| is_shared(kind)) {
        findings.push(
            Finding::note(CHECK, format!("the repository is on {kind}, which machines share"))
                .detail("run engines on one machine only; views there may be seen late"),
        );
    }
    findings
}

fn of_file_system(whose: &str, path: &Path) -> Option<Finding> {
    let room = rustix::fs::statvfs(path).ok()?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let kind = kind(path).unwrap_or_else(|| "unknown kind".to_owned());
    // Some file systems make their inodes as they need them, and say 0 of 0.
    let files = (room.f_files > 0).then_some(room.f_favail);
    let told = files.map(|files| format!(" and {files} files")).unwrap_or_default();
    let what = format!("{whose} on {kind}: {}{told} free", size(free));
    if free < LITTLE_ROOM || files.is_some_and(|files| files < FEW_FILES) {
        return Some(
            Finding::act(CHECK, what)
                .code(Code::DiskFull)
                .remedy(format!("df -h {0}; df -i {0}", shell_word(path))),
        );
    }
    Some(Finding::fine(CHECK, what))
}

fn is_shared(kind: &str) -> bool {
    ["nfs", "cifs", "smb", "9p", "ceph", "lustre", "afs", "fuse.sshfs"]
        .iter()
        .any(|shared| kind.starts_with(shared))
}

/// The name of the file system that holds a path.
fn kind(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    kind_in(&fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
}

/// The longest mount point above the path, and of several there the last: it hides the others.
fn kind_in(mounts: &str, path: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, described) = line.split_once(" - ")?;
        let point = unescaped(mount.split(' ').nth(4)?);
        let kind = described.split(' ').next()?.to_owned();
        path.starts_with(&point).then_some((point.as_os_str().len(), kind))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Blanks and their like are written in octal there.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let octal = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_nearest_above_a_path_names_its_file_system() {
        let mounts = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      35 21 0:30 / /home/a\\040b rw - btrfs /dev/sdb rw\n\
                      36 21 0:31 / /home rw - nfs4 server:/ rw\n";
        let kind = |path: &str| kind_in(mounts, Path::new(path)).unwrap();
        assert_eq!(
            (kind("/home/a b/c"), kind("/home/a"), kind("/etc")),
            ("btrfs".into(), "nfs4".into(), "ext4".into())
        );
        assert!(is_shared("nfs4") && !is_shared("ext4"));
    }
}
