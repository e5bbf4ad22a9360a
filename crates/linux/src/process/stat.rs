//! `/proc/PID/stat`.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;

/// What `/proc` says about a process, in the fields of proc(5).
pub(super) struct Stat(String);

impl Stat {
    /// Reads a process, or returns `None` if `/proc` shows none with this pid. A zombie is shown.
    pub(super) fn read(pid: Pid) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{}/stat", pid.as_raw_pid())) {
            Ok(bytes) => Ok(Some(Self(String::from_utf8_lossy(&bytes).into_owned()))),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a field by its number, from 3 on. Counts from the last parenthesis, because the second field is the
    /// program's name in parentheses, which may itself contain blanks and parentheses.
    pub(super) fn field(&self, number: usize) -> Option<&str> {
        self.0.rsplit_once(')')?.1.split_ascii_whitespace().nth(number - 3)
    }

    /// Whether the process has ended: it is a zombie, or the kernel is removing it.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.field(3), Some("Z" | "X" | "x") | None)
    }

    /// Whether a signal has stopped the process.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.field(3), Some("T" | "t"))
    }

    pub(super) fn parent(&self) -> Option<Pid> {
        Pid::from_raw(self.field(4)?.parse().ok()?)
    }

    /// Returns the start time in clock ticks since boot.
    pub(super) fn start_time(&self) -> Option<u64> {
        self.field(22)?.parse().ok()
    }
}

/// Whether the process has ended: its files are missing, or reading them fails with "no such process".
pub(super) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let stat = Stat("42 (a) b (c) S 7 1 1 0 -1 4194560 1 1 0 0 0 0 0 0 20 0 1 0 123456 1 1".to_owned());
        assert!(!stat.has_ended() && !stat.is_stopped());
        assert_eq!((stat.parent(), stat.start_time()), (Pid::from_raw(7), Some(123_456)));
    }

    #[test]
    fn this_process_is_alive() {
        let stat = Stat::read(rustix::process::getpid()).unwrap().unwrap();
        assert!(!stat.has_ended() && stat.start_time().is_some());
    }
}
