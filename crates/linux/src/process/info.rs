//! What messages say about a process.

use std::fmt;
use std::fs;

use super::kernel_pid;
use super::stat::Stat;

/// A process of this machine, as messages describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    pub pid: u32,
    /// Its command line, on one line and truncated; empty if it is not readable.
    pub command: String,
    /// Whether a signal (SIGSTOP, Ctrl-Z) has stopped it, so that it runs on only after SIGCONT.
    pub stopped: bool,
}

impl ProcessInfo {
    /// Reads the process with this pid, or returns `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::read(kernel_pid(pid)?).ok()??;
        Some(Self { pid, command: command_line(pid), stopped: stat.is_stopped() })
    }
}

impl fmt::Display for ProcessInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " (`{}`)", self.command)?;
        }
        if self.stopped { f.write_str(", which is stopped") } else { Ok(()) }
    }
}

/// Returns the command line of a process, on one line and truncated; empty if it is not readable.
pub(super) fn command_line(pid: impl fmt::Display) -> String {
    const MAX_LENGTH: usize = 80;
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').chars();
    let mut line: String = text.map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LENGTH + 1).collect();
    if line.chars().count() > MAX_LENGTH {
        line.pop();
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_with_its_command() {
        let us = ProcessInfo::of(std::process::id()).expect("this process exists");
        assert_eq!((us.pid, us.stopped), (std::process::id(), false));
        assert!(us.to_string().starts_with(&format!("process {} (`", std::process::id())), "{us}");
        assert_eq!(ProcessInfo::of(u32::MAX), None);
    }
}
