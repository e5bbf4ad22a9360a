//! A process that others wait for, as people need to know it.

use std::fmt;
use std::fs;

/// A process of this machine that others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// Its command line, cut short; empty if we may not see it.
    pub command: String,
    /// Whether it was stopped by a signal (SIGSTOP, Ctrl-Z): then it goes on only if somebody continues it.
    pub stopped: bool,
}

impl Holder {
    /// Looks at the process with this number; `None` if there is none.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name before the last bracket may hold anything, brackets too.
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())?;
        Some(Self { pid, command: command(pid), stopped: matches!(state, 'T' | 't') })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " (`{}`)", self.command)?;
        }
        if self.stopped { f.write_str(", which is stopped") } else { Ok(()) }
    }
}

/// As much of a command line as one line of an error can bear.
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
        let us = Holder::of(std::process::id()).expect("we live");
        assert_eq!((us.pid, us.stopped), (std::process::id(), false));
        assert!(us.to_string().starts_with(&format!("process {} (`", std::process::id())), "{us}");
        assert_eq!(Holder::of(u32::MAX), None);
    }
}
