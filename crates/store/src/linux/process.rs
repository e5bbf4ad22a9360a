//! A process as other machines must know it.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// Names one process for ever: its number alone is given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) host: String,
    /// Changes with every start of the machine.
    boot: String,
    /// Numbers mean the same only inside it.
    namespace: String,
    /// Clock ticks after the start of the machine.
    started: u64,
}

impl Process {
    pub(crate) fn this() -> io::Result<Self> {
        let pid = std::process::id();
        let started = started(pid).ok_or_else(|| io::Error::other("this process is not in /proc"))?;
        Ok(Self { pid, host: super::host_name(), boot: boot()?, namespace: namespace()?, started })
    }

    /// Whether it is certain that it has ended. Of one that we cannot see it never is; and what goes by another host's name
    /// is not ours to see, even where both are one machine.
    pub(crate) fn has_ended(&self) -> bool {
        let is_visible = self.host == super::host_name()
            && boot().is_ok_and(|boot| boot == self.boot)
            && namespace().is_ok_and(|namespace| namespace == self.namespace);
        is_visible && started(self.pid) != Some(self.started)
    }
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

fn namespace() -> io::Result<String> {
    Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

/// When a process began, `None` if there is none, or only its remains that nobody has waited for.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name before the last bracket may hold anything, brackets too.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    match fields.next()? {
        "Z" | "X" => None,
        // `proc(5)`: the state is field 3, the start field 22.
        _ => fields.nth(18)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_when_its_number_is_another_s() {
        let us = Process::this().unwrap();
        assert!(!us.has_ended());
        assert!(Process { started: us.started + 1, ..us.clone() }.has_ended());
        assert!(Process { pid: u32::MAX, ..us.clone() }.has_ended());
        let ended = Process { pid: u32::MAX, ..us };
        let elsewhere = Process { boot: "elsewhere".to_owned(), ..ended.clone() };
        assert!(!elsewhere.has_ended(), "of another machine we know nothing");
        let named = Process { host: "elsewhere".to_owned(), ..ended };
        assert!(!named.has_ended(), "whoever says to be another host is taken for one");
    }
}
