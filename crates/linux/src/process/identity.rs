//! Identifies a process across reboots.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::kernel_pid;
use super::stat::Stat;
use crate::host::{boot_id, pid_namespace};

/// Identifies a process of this machine for ever: no other process of any boot has the same four values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub boot_id: String,
    /// The pid namespace in which `pid` is valid.
    pub pid_namespace: String,
    pub pid: u32,
    /// In clock ticks since boot, as in `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Returns the identity of this process.
    pub fn of_self() -> io::Result<Self> {
        let stat = Stat::read(rustix::process::getpid())?;
        let start_time = stat.and_then(|stat| stat.start_time());
        let start_time = start_time.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
        let (boot_id, pid_namespace) = (boot_id()?, pid_namespace()?);
        Ok(Self { boot_id, pid_namespace, pid: std::process::id(), start_time })
    }

    pub fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot_id == boot_id()?)
    }

    pub fn is_in_our_namespace(&self) -> io::Result<bool> {
        Ok(self.pid_namespace == pid_namespace()?)
    }

    /// Whether it has certainly ended. False for a process that is not visible from here: it belongs to another boot,
    /// another container, or another machine.
    pub fn has_certainly_ended(&self) -> bool {
        let is_visible = self.is_of_this_boot().is_ok_and(|is_ours| is_ours)
            && self.is_in_our_namespace().is_ok_and(|is_ours| is_ours);
        is_visible
            && match kernel_pid(self.pid).map(Stat::read) {
                Some(Ok(Some(stat))) => stat.has_ended() || stat.start_time() != Some(self.start_time),
                // With `hidepid`, `/proc` does not show the processes of other users.
                Some(Ok(None) | Err(_)) => is_gone(self.pid),
                None => true,
            }
    }
}

/// Whether the kernel knows no process with this pid. It knows one that this user may not signal.
fn is_gone(pid: u32) -> bool {
    kernel_pid(pid).is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
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
        let us = ProcessIdentity::of_self().unwrap();
        assert!(!us.has_certainly_ended());
        assert!(ProcessIdentity { start_time: us.start_time + 1, ..us.clone() }.has_certainly_ended());
        let ended = ProcessIdentity { pid: u32::MAX, ..us };
        assert!(ended.has_certainly_ended());
        let other_boot = ProcessIdentity { boot_id: "other".to_owned(), ..ended.clone() };
        assert!(!other_boot.has_certainly_ended(), "a process of another boot is not visible");
        let other_container = ProcessIdentity { pid_namespace: "pid:[1]".to_owned(), ..ended };
        assert!(!other_container.has_certainly_ended(), "a process of another container is not visible");
    }
}
