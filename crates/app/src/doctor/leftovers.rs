//! What takes room in the store beside the database.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::runs::Runs;
use super::{Finding, Ground};
use crate::output::{count, shell_word, size};

const CHECK: &str = "files";

/// We stop counting here.
const MOST: usize = 200_000;

pub(super) fn check(ground: &Ground, runs: Option<&Runs>) -> Vec<Finding> {
    // Which local_dir are those of a store on NATS is known when it is read.
    if ground.nats.is_some() && runs.is_none() {
        return Vec::new();
    }
    let Some(root) = ground.root().filter(|root| root.exists()) else { return Vec::new() };
    let (attempts, quarantine) = (root.join("attempts"), root.join("quarantine"));
    let mut findings =
        vec![Finding::fine(CHECK, format!("directories of attempts take {}", weigh(&attempts)))];
    if fs::read_dir(&quarantine).is_ok_and(|mut runs| runs.next().is_some()) {
        let what = format!("files that were set aside take {}", weigh(&quarantine));
        findings.push(Finding::note(CHECK, what).detail(quarantine.display().to_string()));
    }
    findings.extend(drafts(root));
    if let Some(runs) = runs {
        let known: BTreeSet<_> = runs.all.iter().map(|row| row.run.as_str()).collect();
        let names = fs::read_dir(&attempts).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let strays: Vec<_> =
            names.filter(|name| name.to_str().is_none_or(|name| !known.contains(name))).collect();
        if !strays.is_empty() {
            let listed = strays.iter().map(|name| {
                let path = attempts.join(name);
                format!("{}: {}", shell_word(&path), weigh(&path))
            });
            let what = count(strays.len(), "directory", "directories");
            findings.push(
                Finding::note(CHECK, format!("{what} of attempts without a run in the store"))
                    .details(listed),
            );
        }
    }
    findings
}

/// What `recover` and `import` work in, and remove unless they are killed.
fn drafts(root: &Path) -> Option<Finding> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let is_draft = |name: &str| name.starts_with("recover-") || name.starts_with("import-");
    let mut drafts: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_draft))
        .map(|entry| entry.path())
        .collect();
    drafts.sort();
    let listed: Vec<_> = drafts.iter().map(|path| format!("{}: {}", shell_word(path), weigh(path))).collect();
    (!drafts.is_empty()).then(|| {
        let what = count(drafts.len(), "directory", "directories");
        Finding::note(CHECK, format!("{what} of a `recover` or `import` that is at work, or was killed"))
            .detail("if none is at work they can be removed")
            .details(listed)
    })
}

/// The size of all files below a directory.
fn weigh(directory: &Path) -> String {
    let (mut bytes, mut files) = (0, 0);
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            files += 1;
            if files > MOST {
                return format!("more than {} in more than {MOST} files", size(bytes));
            }
            // Of the entry itself: a link leads elsewhere.
            match entry.metadata() {
                Ok(data) if data.is_dir() => left.push(entry.path()),
                Ok(data) => bytes += data.len(),
                Err(_) => {}
            }
        }
    }
    size(bytes)
}
