//! Kernel limits: open files, processes, inotify instances.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::failure::Code;

const CHECK: &str = "limits";

/// An attempt takes about three descriptors of its engine.
const MIN_OPEN_FILES: u64 = 1024;
/// An attempt is at least two processes, and agents start their own.
const MIN_PROCESSES: u64 = 512;
/// An engine needs two instances, a waiting command one.
const SPARE_INSTANCES: u64 = 8;

pub(super) fn check() -> Vec<Finding> {
    // An engine raises its own soft limit of open files, so only the hard limit matters.
    let (files, processes) = (getrlimit(Resource::Nofile).maximum, getrlimit(Resource::Nproc).current);
    let instances = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok();
    let instances = instances.and_then(|text| text.trim().parse::<u64>().ok());
    let used = u64::try_from(linux::inotify_instances()).unwrap_or(u64::MAX);
    let mut findings = Vec::new();
    if let Some(limit) = files.filter(|limit| *limit < MIN_OPEN_FILES) {
        findings.push(low(
            format!("a process may open only {limit} files"),
            "sudo prlimit --pid $$ --nofile=4096",
        ));
    }
    if let Some(limit) = processes.filter(|limit| *limit < MIN_PROCESSES) {
        findings.push(low(format!("you may have only {limit} processes"), "ulimit -u 4096"));
    }
    if let Some(limit) = instances.filter(|limit| used + SPARE_INSTANCES > *limit) {
        let command = format!("sudo sysctl fs.inotify.max_user_instances={}", (limit * 4).max(512));
        findings.push(low(format!("{used} of {limit} inotify instances are in use"), &command));
    }
    if findings.is_empty() {
        let text =
            |limit: Option<u64>, none: &str| limit.map_or_else(|| none.to_owned(), |limit| limit.to_string());
        findings.push(Finding::ok(
            CHECK,
            format!(
                "open files {}, processes {}, inotify instances {used} of {}",
                text(files, "unlimited"),
                text(processes, "unlimited"),
                text(instances, "unknown"),
            ),
        ));
    }
    findings
}

fn low(message: String, command: &str) -> Finding {
    Finding::problem(CHECK, message).code(Code::ResourceLimit).command(command)
}
