//! Who holds a lock on a file, as the kernel tells it.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

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
    let words: Vec<_> = words.split('\0').filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(LONGEST_COMMAND).collect()
}

/// Whoever holds a `flock` on the file, if the kernel tells and we can see the process.
pub(crate) fn holder(file: &File) -> Option<Holder> {
    let metadata = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_in(line, &place)).and_then(Holder::of)
}

/// The process of one line of `/proc/locks`, if it holds the lock on that file: `1: FLOCK ADVISORY WRITE 12 fd:00:34 0 EOF`.
/// Those who wait have an arrow behind their number.
fn holder_in(line: &str, place: &str) -> Option<u32> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    match words.as_slice() {
        [_, "FLOCK", _, _, pid, file, ..] if *file == place => pid.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_holds_a_lock_is_told_from_whoever_waits() {
        let line = "7: FLOCK  ADVISORY  WRITE 4711 fe:00:123 0 EOF";
        assert_eq!(holder_in(line, "fe:00:123"), Some(4711));
        assert_eq!(holder_in(line, "fe:00:124"), None);
        assert_eq!(holder_in("7: -> FLOCK  ADVISORY  WRITE 4712 fe:00:123 0 EOF", "fe:00:123"), None);
    }

    #[test]
    fn a_lock_of_our_own_is_ours() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(holder(&file), None);
        file.lock().unwrap();
        let found = holder(&file).expect("the kernel tells");
        assert_eq!((found.pid, found.stopped), (std::process::id(), false));
        assert!(found.to_string().starts_with(&format!("process {} (`", std::process::id())), "{found}");
    }
}
