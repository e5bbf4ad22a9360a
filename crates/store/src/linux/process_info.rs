//! What error messages say about a process.

use std::fmt;
use std::fs;

/// A process of this machine that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    pub pid: u32,
    /// Its command line, truncated; empty if it is not readable.
    pub command: String,
    /// Whether a signal (SIGSTOP, Ctrl-Z) has stopped it, so that it runs on only after SIGCONT.
    pub stopped: bool,
}

impl ProcessInfo {
    /// Reads the process with this pid, or returns `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name before the last parenthesis may contain anything, even parentheses.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())?;
        Some(Self { pid, command: command(pid), stopped: matches!(state, 'T' | 't') })
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

/// How much of a command line fits into an error message.
const LONGEST_COMMAND: usize = 80;

fn command(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&bytes);
    let words = words.trim_end_matches('\0').chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = words.take(LONGEST_COMMAND + 1).collect();
    if line.chars().count() > LONGEST_COMMAND {
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
