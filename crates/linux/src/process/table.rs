//! The process table from `/proc`: parents, environments, command lines.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::info::command_line;
use super::stat::{Stat, is_gone};

/// One running process.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub pid: Pid,
    parent: Option<Pid>,
    pub start_time: u64,
}

impl Row {
    /// Identifies the process within this boot.
    pub fn key(&self) -> (i32, u64) {
        (self.pid.as_raw_pid(), self.start_time)
    }

    /// Returns its command line, on one line and truncated, for people.
    pub fn command_line(&self) -> String {
        command_line(self.pid.as_raw_pid())
    }
}

/// All running processes except this one, so that it is never signalled by mistake.
#[derive(Debug)]
pub struct ProcessTable(Vec<Row>);

impl ProcessTable {
    pub fn read() -> io::Result<Self> {
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

    /// Returns the process with this pid.
    pub fn row(&self, pid: Pid) -> Option<Row> {
        self.0.iter().find(|row| row.pid == pid).copied()
    }

    /// Returns the processes of this user whose environment has all the variables, with their values.
    pub fn with_variables<const N: usize>(
        &self,
        variables: [&str; N],
    ) -> io::Result<Vec<(Row, [String; N])>> {
        let ours = |row: &&Row| {
            let owner = fs::metadata(format!("/proc/{}", row.pid.as_raw_pid())).map(|process| process.uid());
            owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
        };
        let with_values = |row: &Row| {
            let environment = environment(row.pid)?;
            let values = variables.map(|variable| variable_value(&environment, variable));
            let has_all = values.iter().all(Option::is_some);
            Ok(has_all.then(|| (*row, values.map(Option::unwrap_or_default))))
        };
        self.0.iter().filter(ours).filter_map(|row| with_values(row).transpose()).collect()
    }

    /// Returns the descendants of this process.
    pub fn our_descendants(&self) -> Vec<Row> {
        self.descendants(HashSet::from([rustix::process::getpid()]))
    }

    /// Returns the given processes and their descendants.
    pub fn with_descendants(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let roots: HashSet<Pid> = rows.iter().map(|row| row.pid).collect();
        rows.extend(self.descendants(roots));
        rows
    }

    fn descendants(&self, mut parents: HashSet<Pid>) -> Vec<Row> {
        let mut found = Vec::new();
        loop {
            let is_child = |row: &&Row| {
                !parents.contains(&row.pid) && row.parent.is_some_and(|parent| parents.contains(&parent))
            };
            let next: Vec<Row> = self.0.iter().filter(is_child).copied().collect();
            if next.is_empty() {
                return found;
            }
            parents.extend(next.iter().map(|row| row.pid));
            found.extend(next);
        }
    }

    /// Returns the processes whose environment contains all the variables, each written as `NAME=value`.
    pub fn marked(&self, variables: &[Vec<u8>]) -> io::Result<Vec<Row>> {
        let if_marked = |row: &Row| {
            let environment = environment(row.pid)?;
            let entries: BTreeSet<&[u8]> = environment.split(|byte| *byte == 0).collect();
            Ok(variables.iter().all(|variable| entries.contains(variable.as_slice())).then_some(*row))
        };
        self.0.iter().filter_map(|row| if_marked(row).transpose()).collect()
    }
}

/// How long an exec may hide an environment. One that takes longer hangs on a dead file system, and its process counts as one
/// without an environment.
const MAX_EXEC_TIME: Duration = Duration::from_secs(1);

/// Reads the environment of a process; empty if it is unreadable. During an exec it reads as empty although the process has one.
/// So an empty one counts only if the kernel has said more than ten times in a row that there is nothing in it.
fn environment(pid: Pid) -> io::Result<Vec<u8>> {
    let started = Instant::now();
    let mut empty_reads = 0;
    loop {
        let Some(bytes) = if_readable(read_at_once(pid).map(Some))? else { return Ok(Vec::new()) };
        if !bytes.is_empty() {
            return Ok(bytes);
        }
        empty_reads = if has_no_environment(pid) { empty_reads + 1 } else { 0 };
        if empty_reads > 10 || started.elapsed() > MAX_EXEC_TIME {
            return Ok(bytes);
        }
        std::thread::yield_now();
    }
}

/// Reads the environment with one system call, because the process may execute another program between two
/// calls.
fn read_at_once(pid: Pid) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    let length = fs::File::open(format!("/proc/{}/environ", pid.as_raw_pid()))?.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether a process really has no environment: it is a kernel thread, has ended, or its environment is empty.
fn has_no_environment(pid: Pid) -> bool {
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let Ok(Some(stat)) = Stat::read(pid) else { return true };
    let number = |index| stat.field(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let (flags, env_start, env_end) = (number(9), number(50), number(51));
    stat.has_ended() || flags & KERNEL_THREAD != 0 || (env_end != 0 && env_start == env_end)
}

/// Returns the value of a variable in the environment of this process, or else of its nearest ancestor that has it: a child may
/// have been started with a cleared environment.
pub fn inherited_variable(variable: &str) -> io::Result<Option<String>> {
    Ok(inherited_variables([variable])?.map(|[value]| value))
}

/// Returns the values of several variables, from the nearest process that has all of them.
pub fn inherited_variables<const N: usize>(variables: [&str; N]) -> io::Result<Option<[String; N]>> {
    let mut pid = Some(rustix::process::getpid());
    while let Some(this) = pid {
        let environment = environment(this)?;
        let values: Vec<_> =
            variables.iter().filter_map(|variable| variable_value(&environment, variable)).collect();
        if let Ok(values) = values.try_into() {
            return Ok(Some(values));
        }
        pid = if_readable(Stat::read(this))?.and_then(|stat| stat.parent());
    }
    Ok(None)
}

/// Returns the value of a variable in an environment.
fn variable_value(environment: &[u8], variable: &str) -> Option<String> {
    let mut lines = environment.split(|byte| *byte == 0);
    let value = lines.find_map(|line| line.strip_prefix(variable.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Reads the row of a process, or returns `None` if it has ended or is unreadable. A zombie has ended.
fn read_row(pid: Pid) -> io::Result<Option<Row>> {
    let Some(stat) = if_readable(Stat::read(pid))?.filter(|stat| !stat.has_ended()) else { return Ok(None) };
    Ok(stat.start_time().map(|start_time| Row { pid, parent: stat.parent(), start_time }))
}

/// Returns `None` for a process that has ended or may not be read: that of another user, or one that has made itself unreadable
/// with `PR_SET_DUMPABLE`, as ssh-agent does. Such a process of an attempt is found by its ancestry only. Any other error is
/// returned, because it could hide a process that is ours.
fn if_readable<T>(read: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match read {
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_users_and_ended_processes_are_left_out_of_a_scan() {
        use rustix::io::Errno;
        let read = |errno: Errno| if_readable::<Row>(Err(errno.into()));
        for hidden in [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::SRCH] {
            assert!(matches!(read(hidden), Ok(None)), "{hidden}");
        }
        for failed in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
            assert!(read(failed).is_err(), "{failed}");
        }
    }

    #[test]
    fn this_process_is_not_in_the_table() {
        let own = rustix::process::getpid();
        assert!(ProcessTable::read().unwrap().0.iter().all(|row| row.pid != own));
    }
}
