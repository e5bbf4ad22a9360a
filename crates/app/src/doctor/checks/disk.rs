//! Free space of the file systems that hold the store and the repository, and whether the repository is on a network.

use std::fs;
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
    if let Ok(Some(kind)) = linux::network_file_system(&context.repo) {
        findings.push(
            Finding::note(
                CHECK,
                format!("the repository is on a file system that may be on a network ({kind})"),
            )
            .detail("if it is, run engines on one machine only; other machines may see its views late"),
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
    // File systems that create inodes on demand report 0 of 0.
    let files = (space.f_files > 0).then_some(space.f_favail);
    let and_files = files.map(|files| format!(" and {files} files")).unwrap_or_default();
    let message = format!("{content}: {}{and_files} free", size(free));
    if free < MIN_FREE_BYTES || files.is_some_and(|files| files < MIN_FREE_FILES) {
        return Some(
            Finding::problem(CHECK, message)
                .code(Code::DiskFull)
                .command(format!("df -h {0}; df -i {0}", shell_word(path))),
        );
    }
    Some(Finding::ok(CHECK, message))
}
