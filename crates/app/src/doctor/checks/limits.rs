//! Kernel limits: open files, processes, inotify instances and watches.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::failure::Code;

const CHECK: &str = "limits";

/// An attempt takes about three descriptors of its engine.
const MIN_OPEN_FILES: u64 = 1024;
/// An attempt is at least two processes, and agents start their own.
const MIN_PROCESSES: u64 = 512;
const MIN_PIDS: u64 = 4096;
const MIN_WATCHES: u64 = 1024;
/// An engine needs two instances, a waiting command one.
const SPARE_INSTANCES: u64 = 8;

pub(super) fn check() -> Vec<Finding> {
    // An engine raises its own soft limit of open files, so only the hard limit matters.
    let (files, processes) = (getrlimit(Resource::Nofile).maximum, getrlimit(Resource::Nproc).current);
    let setting =
        |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse::<u64>().ok();
    let (instances, watches) =
        (setting("fs/inotify/max_user_instances"), setting("fs/inotify/max_user_watches"));
    let used = u64::try_from(linux::inotify_instances()).unwrap_or(u64::MAX);
    let pids = setting("kernel/pid_max");
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
    if let Some(limit) = pids.filter(|limit| *limit < MIN_PIDS) {
        findings.push(low(
            format!("the machine has only {limit} process ids"),
            "sudo sysctl kernel.pid_max=32768",
        ));
    }
    if let Some(limit) = instances.filter(|limit| used + SPARE_INSTANCES > *limit) {
        let command = format!("sudo sysctl fs.inotify.max_user_instances={}", (limit * 4).max(512));
        findings.push(low(format!("{used} of {limit} inotify instances are in use"), &command));
    }
    if let Some(limit) = watches.filter(|limit| *limit < MIN_WATCHES) {
        findings.push(low(
            format!("there are only {limit} inotify watches"),
            "sudo sysctl fs.inotify.max_user_watches=65536",
        ));
    }
    if findings.is_empty() {
        let text =
            |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        let setting_text =
            |limit: Option<u64>| limit.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string());
        findings.push(Finding::ok(
            CHECK,
            format!(
                "open files {}, processes {}, process ids {}, inotify instances {used} of {}, watches {}",
                text(files),
                text(processes),
                setting_text(pids),
                setting_text(instances),
                setting_text(watches),
            ),
        ));
    }
    findings
}

fn low(message: String, command: &str) -> Finding {
    Finding::problem(CHECK, message).code(Code::ResourceLimit).command(command)
}
