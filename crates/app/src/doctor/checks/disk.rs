//! Free space and type of the file systems that hold the store and the repository.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{DoctorContext, Finding};
use crate::failure::Code;
use crate::output::{shell_word, size};

const CHECK: &str = "disk";

/// Below this, a build or a verbose agent fills the disk within minutes.
const MIN_FREE_BYTES: u64 = 512 << 20;
const MIN_FREE_FILES: u64 = 2_000;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let store = context.store_dir().map(nearest_existing);
    let mut findings: Vec<_> = store.iter().flat_map(|store| free_space("store", store)).collect();
    let device = |path: &Path| fs::metadata(path).map(|data| data.dev()).ok();
    if store.as_deref().and_then(device) != device(&context.repo) {
        findings.extend(free_space("repository", &context.repo));
    }
    if let Some(kind) = file_system(&context.repo).filter(|kind| is_network(kind)) {
        findings.push(
            Finding::note(CHECK, format!("the repository is on {kind}, a network file system"))
                .detail("run engines on one machine only; other machines may see its views late"),
        );
    }
    findings
}

/// Returns the nearest ancestor that exists. A directory created below it is on the same file system.
fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn free_space(content: &str, path: &Path) -> Option<Finding> {
    let space = rustix::fs::statvfs(path).ok()?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let kind = file_system(path).unwrap_or_else(|| "an unknown file system".to_owned());
    // File systems that create inodes on demand report 0 of 0.
    let files = (space.f_files > 0).then_some(space.f_favail);
    let and_files = files.map(|files| format!(" and {files} files")).unwrap_or_default();
    let message = format!("{content} on {kind}: {}{and_files} free", size(free));
    if free < MIN_FREE_BYTES || files.is_some_and(|files| files < MIN_FREE_FILES) {
        return Some(
            Finding::problem(CHECK, message)
                .code(Code::DiskFull)
                .command(format!("df -h {0}; df -i {0}", shell_word(path))),
        );
    }
    Some(Finding::ok(CHECK, message))
}

fn is_network(kind: &str) -> bool {
    ["nfs", "cifs", "smb", "9p", "ceph", "lustre", "afs", "fuse.sshfs"]
        .iter()
        .any(|network| kind.starts_with(network))
}

/// Returns the type of the file system that holds a path.
fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    file_system_in(&fs::read("/proc/self/mountinfo").ok()?, &path)
}

/// Picks the longest mount point above the path. Of several mounts on one point the last hides the others.
fn file_system_in(mounts: &[u8], path: &Path) -> Option<String> {
    let mounts = mounts.split(|byte| *byte == b'\n').filter_map(|line| {
        // The names of mount points need not be UTF-8.
        let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
        let point = unescape_octal(fields.get(4)?);
        let separator = fields.iter().position(|field| *field == b"-")?;
        let kind = String::from_utf8_lossy(fields.get(separator + 1)?).into_owned();
        path.starts_with(&point).then_some((point.as_os_str().len(), kind))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Decodes `\040`: mountinfo escapes white space in octal.
fn unescape_octal(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
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
    fn the_longest_mount_point_above_a_path_wins() {
        let mounts = b"21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      34 21 0:29 / /mnt/\xff rw - tmpfs tmpfs rw\n\
                      35 21 0:30 / /home/a\\040b rw - btrfs /dev/sdb rw\n\
                      36 21 0:31 / /home rw - nfs4 server:/ rw\n";
        let kind = |path: &str| file_system_in(mounts, Path::new(path)).unwrap();
        assert_eq!(
            (kind("/home/a b/c"), kind("/home/a"), kind("/etc")),
            ("btrfs".into(), "nfs4".into(), "ext4".into())
        );
        assert!(is_network("nfs4") && !is_network("ext4"));
    }
}
