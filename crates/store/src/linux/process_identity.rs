//! Identifies a process across machines and reboots.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// Identifies one process for ever. A pid alone is reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    pub(crate) host: String,
    /// The boot id, which changes with every boot.
    boot: String,
    /// The pid namespace in which `pid` is valid.
    namespace: String,
    /// The start time in clock ticks since boot.
    started: u64,
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub(crate) fn this() -> io::Result<Self> {
        let pid = std::process::id();
        let started = start_time(pid).ok_or_else(|| io::Error::other("this process is not in /proc"))?;
        Ok(Self { pid, host: super::host_name(), boot: boot_id()?, namespace: pid_namespace()?, started })
    }

    /// Whether it has certainly ended. False for a process that is not visible from here, which includes every process
    /// with another host name, even on the same machine.
    pub(crate) fn has_ended(&self) -> bool {
        let is_visible = self.host == super::host_name()
            && boot_id().is_ok_and(|boot| boot == self.boot)
            && pid_namespace().is_ok_and(|namespace| namespace == self.namespace);
        is_visible
            && match fs::read(stat_file(self.pid)) {
                Ok(stat) => parse_start_time(&stat) != Some(self.started),
                // With `hidepid`, `/proc` does not show the processes of other users.
                Err(_) => is_gone(self.pid),
            }
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn pid_namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// Returns the start time of a process, or `None` if it does not exist or is a zombie.
fn start_time(pid: u32) -> Option<u64> {
    parse_start_time(&fs::read(stat_file(pid)).ok()?)
}

fn stat_file(pid: u32) -> String {
    format!("/proc/{pid}/stat")
}

/// Whether the kernel knows no process with this id. It knows one that this user may not signal.
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

fn parse_start_time(stat: &[u8]) -> Option<u64> {
    let stat = String::from_utf8_lossy(stat);
    // The name before the last parenthesis may contain anything, even parentheses.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    match fields.next()? {
        "Z" | "X" => None,
        // `proc(5)`: the state is field 3, the start time field 22.
        _ => fields.nth(18)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_proc_does_not_show_is_gone_only_if_the_kernel_says_so() {
        assert!(!is_gone(std::process::id()));
        assert!(!is_gone(1), "not even if this user may not signal it");
        assert!(is_gone(u32::MAX) && is_gone(i32::MAX as u32));
    }

    #[test]
    fn a_process_has_ended_if_its_pid_was_reused() {
        let us = ProcessIdentity::this().unwrap();
        assert!(!us.has_ended());
        assert!(ProcessIdentity { started: us.started + 1, ..us.clone() }.has_ended());
        assert!(ProcessIdentity { pid: u32::MAX, ..us.clone() }.has_ended());
        let ended = ProcessIdentity { pid: u32::MAX, ..us };
        let other_boot = ProcessIdentity { boot: "other".to_owned(), ..ended.clone() };
        assert!(!other_boot.has_ended(), "a process of another boot is not visible");
        let other_host = ProcessIdentity { host: "other".to_owned(), ..ended };
        assert!(!other_host.has_ended(), "a process with another host name is not visible");
    }
}
