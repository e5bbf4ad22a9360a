//! Files in the store's directory besides the database.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::runs::Runs;
use super::{DoctorContext, Finding};
use crate::output::{count, shell_word, size};

const CHECK: &str = "files";

/// Counting stops here.
const MAX_FILES: usize = 200_000;

pub(super) fn check(context: &DoctorContext, runs: Option<&Runs>) -> Vec<Finding> {
    // The local directory of a store on NATS is known only after the store was read.
    if context.nats.is_some() && runs.is_none() {
        return Vec::new();
    }
    let Some(root) = context.store_dir().filter(|root| root.exists()) else { return Vec::new() };
    let attempts = root.join("attempts");
    let message = format!("attempt directories take {}", total_size(&attempts));
    let mut findings = vec![Finding::ok(CHECK, message)];
    findings.extend(working_directories(root));
    findings.extend(runs.and_then(|runs| attempts_without_run(&attempts, runs)));
    findings
}

fn attempts_without_run(attempts: &Path, runs: &Runs) -> Option<Finding> {
    let known: BTreeSet<_> = runs.all.iter().map(|row| row.run.as_str()).collect();
    let names = fs::read_dir(attempts).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let unknown: Vec<_> =
        names.filter(|name| name.to_str().is_none_or(|name| !known.contains(name))).collect();
    let listed = unknown.iter().map(|name| {
        let path = attempts.join(name);
        format!("{}: {}", shell_word(&path), total_size(&path))
    });
    (!unknown.is_empty()).then(|| {
        let directories = count(unknown.len(), "attempt directory belongs", "attempt directories belong");
        Finding::note(CHECK, format!("{directories} to no run in the store"))
            .detail("remove them if you do not need their logs")
            .details(listed)
    })
}

/// Reports the working directories of `recover` and `import`. They remain if the command was killed.
fn working_directories(root: &Path) -> Option<Finding> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_working_directory = |name: &str| name.starts_with("recover-") || name.starts_with("import-");
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_working_directory))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    let listed: Vec<_> =
        found.iter().map(|path| format!("{}: {}", shell_word(path), total_size(path))).collect();
    (!found.is_empty()).then(|| {
        let directories = count(found.len(), "directory", "directories");
        Finding::note(CHECK, format!("{directories} of a `recover` or `import` that runs or was killed"))
            .detail("remove them if no such command runs")
            .details(listed)
    })
}

/// Returns the size of all files below a directory.
fn total_size(directory: &Path) -> String {
    let (mut bytes, mut files) = (0, 0);
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            files += 1;
            if files > MAX_FILES {
                return format!("more than {} in more than {MAX_FILES} files", size(bytes));
            }
            // `DirEntry::metadata` does not follow symlinks.
            match entry.metadata() {
                Ok(data) if data.is_dir() => pending.push(entry.path()),
                Ok(data) => bytes += data.len(),
                Err(_) => {}
            }
        }
    }
    size(bytes)
}
