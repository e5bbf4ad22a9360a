//! The process table as `/proc` shows it: who is whose parent, who carries a mark.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::process::Pid;

/// One living process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) pid: Pid,
    parent: Option<Pid>,
    pub(crate) start_time: u64,
}

impl Row {
    /// Who it is. The parent is no part of that: it changes when the old one ends.
    pub(crate) fn key(&self) -> (i32, u64) {
        (self.pid.as_raw_pid(), self.start_time)
    }
}

/// All processes alive at one run_at, ourselves excepted: nothing here is ever aimed at us.
#[derive(Debug)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    pub(crate) fn read() -> io::Result<Self> {
        let own = rustix::process::getpid();
        let mut rows = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
                continue;
            };
            if pid != own {
                rows.extend(read_row(pid)?);
            }
        }
        Ok(Self(rows))
    }

    /// The process with this number, if it lives.
    pub(crate) fn row(&self, pid: Pid) -> Option<Row> {
        self.0.iter().find(|row| row.pid == pid).copied()
    }

    /// Processes of this user whose environment has all the variables, with their values.
    pub(crate) fn carriers<const N: usize>(&self, variables: [&str; N]) -> Vec<(Row, [String; N])> {
        let ours = |row: &&Row| {
            let owner = fs::metadata(format!("/proc/{}", row.pid.as_raw_pid())).map(|process| process.uid());
            owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
        };
        let carried = |row: &Row| {
            let environment = environment(row.pid);
            let values = variables.map(|variable| value(&environment, variable));
            values.iter().all(Option::is_some).then(|| (*row, values.map(Option::unwrap_or_default)))
        };
        self.0.iter().filter(ours).filter_map(carried).collect()
    }

    /// Those below us.
    pub(crate) fn our_descendants(&self) -> Vec<Row> {
        self.descendants(HashSet::from([rustix::process::getpid()]))
    }

    /// The given ones and those below them.
    pub(crate) fn with_descendants(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let roots: HashSet<Pid> = rows.iter().map(|row| row.pid).collect();
        rows.extend(self.descendants(roots));
        rows
    }

    fn descendants(&self, mut above: HashSet<Pid>) -> Vec<Row> {
        let mut found = Vec::new();
        loop {
            let below = |row: &&Row| {
                !above.contains(&row.pid) && row.parent.is_some_and(|parent| above.contains(&parent))
            };
            let next: Vec<Row> = self.0.iter().filter(below).copied().collect();
            if next.is_empty() {
                return found;
            }
            above.extend(next.iter().map(|row| row.pid));
            found.extend(next);
        }
    }

    /// Those whose environment holds all the lines. What we may not read is another user's, hence no process of ours.
    pub(crate) fn marked(&self, lines: &[Vec<u8>]) -> Vec<Row> {
        let carries = |row: &&Row| {
            let environment = environment(row.pid);
            let held: BTreeSet<&[u8]> = environment.split(|byte| *byte == 0).collect();
            lines.iter().all(|line| held.contains(line.as_slice()))
        };
        self.0.iter().filter(carries).copied().collect()
    }
}

/// How long an exec may hide an environment from us; one that takes longer hangs on a dead file system.
const LONGEST_EXEC: Duration = Duration::from_secs(1);

/// The environment of a process. While it executes another program it reads as empty, though it carried a mark before
/// and will again: an empty one is believed only if the kernel goes on saying that there is nothing in it. What we may
/// not read belongs to another user, hence to no process of ours.
fn environment(pid: Pid) -> Vec<u8> {
    let begun = Instant::now();
    let mut empty_looks = 0;
    loop {
        let Ok(bytes) = read_at_once(pid) else { return Vec::new() };
        empty_looks = if has_none(pid) { empty_looks + 1 } else { 0 };
        if !bytes.is_empty() || empty_looks > 10 || begun.elapsed() > LONGEST_EXEC {
            return bytes;
        }
        std::thread::yield_now();
    }
}

/// In one call: between two the process may have taken another program, and the rest would be missing.
fn read_at_once(pid: Pid) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    let length = fs::File::open(format!("/proc/{}/environ", pid.as_raw_pid()))?.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether a process can have no environment: it is a kernel thread, it has ended, or its environment is empty.
fn has_none(pid: Pid) -> bool {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Ok(Some(stat)) = read_stat(pid) else { return true };
    let number = |place| field(&stat, place).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let (flags, env_start, env_end) = (number(9), number(50), number(51));
    let ended = matches!(field(&stat, 3), Some("Z" | "X" | "x") | None);
    ended || flags & KERNEL_THREAD != 0 || (env_end != 0 && env_start == env_end)
}

/// The value of a variable in the environment of this process or, if it has none, of its nearest ancestor that has.
/// Whoever clears its environment is still found by its parents.
pub(crate) fn inherited(variable: &str) -> io::Result<Option<String>> {
    Ok(inherited_all([variable])?.map(|[value]| value))
}

/// The same of several that belong together: all are of the nearest process that has all of them.
pub(crate) fn inherited_all<const N: usize>(variables: [&str; N]) -> io::Result<Option<[String; N]>> {
    let mut pid = Some(rustix::process::getpid());
    while let Some(this) = pid {
        let environment = environment(this);
        let values: Vec<_> = variables.iter().filter_map(|variable| value(&environment, variable)).collect();
        if let Ok(values) = values.try_into() {
            return Ok(Some(values));
        }
        let stat = read_stat(this)?;
        pid = stat.and_then(|stat| Pid::from_raw(field(&stat, 4)?.parse().ok()?));
    }
    Ok(None)
}

/// The value of a variable in an environment.
fn value(environment: &[u8], variable: &str) -> Option<String> {
    let mut lines = environment.split(|byte| *byte == 0);
    let value = lines.find_map(|line| line.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// The command line of a process, for people: on one line and not too long.
pub(crate) fn command_line(pid: Pid) -> String {
    const LONGEST: usize = 80;
    let bytes = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches('\0').chars();
    let mut line: String = text.map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST + 1).collect();
    if line.chars().count() > LONGEST {
        line.pop();
        line.push('…');
    }
    line
}

/// Whether the process with this number was stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let stat = Pid::from_raw(pid).and_then(|pid| read_stat(pid).ok().flatten());
    stat.is_some_and(|stat| matches!(field(&stat, 3), Some("T" | "t")))
}

/// When the process with this number started; `None` if there is none.
pub(crate) fn start_time(pid: Pid) -> io::Result<Option<u64>> {
    Ok(read_stat(pid)?.and_then(|stat| field(&stat, 22)?.parse().ok()))
}

/// The row of a process, `None` once it has ended (zombies have ended).
fn read_row(pid: Pid) -> io::Result<Option<Row>> {
    let Some(stat) = read_stat(pid)? else { return Ok(None) };
    let row = || {
        let alive = !matches!(field(&stat, 3)?, "Z" | "X" | "x");
        let parent = Pid::from_raw(field(&stat, 4)?.parse().ok()?);
        let start_time = field(&stat, 22)?.parse().ok()?;
        alive.then_some(Row { pid, parent, start_time })
    };
    Ok(row())
}

fn read_stat(pid: Pid) -> io::Result<Option<String>> {
    match fs::read(format!("/proc/{}/stat", pid.as_raw_pid())) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A process may end between two looks: then its files are missing, or reading them says "no such process".
fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The field by its number in proc(5), from 3 on. The second is the program's name in brackets, which may itself
/// hold blanks and brackets: so count from the last bracket.
fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(number - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 7 1 1 0 -1 4194560 1 1 0 0 0 0 0 0 20 0 1 0 123456 1 1";
        assert_eq!(field(stat, 3), Some("S"));
        assert_eq!(field(stat, 4), Some("7"));
        assert_eq!(field(stat, 22), Some("123456"));
    }

    #[test]
    fn we_ourselves_are_never_in_the_table() {
        let own = rustix::process::getpid();
        assert!(Table::read().unwrap().0.iter().all(|row| row.pid != own));
        assert!(start_time(own).unwrap().is_some());
    }
}
