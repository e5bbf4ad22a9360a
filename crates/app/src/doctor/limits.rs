//! What the kernel lets us have: open files, processes, file watches.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::failure::Code;

const CHECK: &str = "limits";

/// An attempt takes about three descriptors of its engine.
const FEW_FILES: u64 = 1024;
/// An attempt is at least two processes, and agents start their own.
const FEW_PROCESSES: u64 = 512;
const FEW_PIDS: u64 = 4096;
/// An engine needs two, a command that waits needs one.
const SPARE_INSTANCES: u64 = 8;

pub(super) fn check() -> Vec<Finding> {
    let (files, processes) = (getrlimit(Resource::Nofile).maximum, getrlimit(Resource::Nproc).current);
    let setting =
        |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).ok()?.trim().parse::<u64>().ok();
    let (instances, watches) =
        (setting("fs/inotify/max_user_instances"), setting("fs/inotify/max_user_watches"));
    let used = u64::try_from(store::inotify_instances()).unwrap_or(u64::MAX);
    let pids = setting("kernel/pid_max");
    let mut findings = Vec::new();
    if let Some(most) = files.filter(|most| *most < FEW_FILES) {
        findings.push(low(format!("a process may open {most} files only"), "ulimit -n 4096"));
    }
    if let Some(most) = processes.filter(|most| *most < FEW_PROCESSES) {
        findings.push(low(format!("you may have {most} processes only"), "ulimit -u 4096"));
    }
    if let Some(most) = pids.filter(|most| *most < FEW_PIDS) {
        findings.push(low(
            format!("the machine has {most} process ids only"),
            "sudo sysctl kernel.pid_max=32768",
        ));
    }
    if let Some(most) = instances.filter(|most| used + SPARE_INSTANCES > *most) {
        let remedy = format!("sudo sysctl fs.inotify.max_user_instances={}", (most * 4).max(512));
        findings.push(low(format!("{used} of {most} inotify instances are in use"), &remedy));
    }
    if let Some(most) = watches.filter(|most| *most < FEW_FILES) {
        findings.push(low(
            format!("there are {most} inotify watches only"),
            "sudo sysctl fs.inotify.max_user_watches=65536",
        ));
    }
    if findings.is_empty() {
        let told =
            |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        findings.push(Finding::fine(
            CHECK,
            format!(
                "open files {}, processes {}, process ids {}, inotify instances {used} of {}, watches {}",
                told(files),
                told(processes),
                told(pids),
                told(instances),
                told(watches),
            ),
        ));
    }
    findings
}

fn low(what: String, remedy: &str) -> Finding {
    Finding::act(CHECK, what).code(Code::Shortage).remedy(remedy)
}
