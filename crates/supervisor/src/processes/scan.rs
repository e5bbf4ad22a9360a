//! Lists marked processes, and tells the state of a shim, without touching them.

use std::io;
use std::path::PathBuf;

use linux::{ProcessIdentity, ProcessInfo, ProcessTable};

use crate::attempt::{self, AttemptDir, ClaimError, ClaimStatus};

/// A running process of this user that carries the mark of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedProcess {
    pub pid: i32,
    /// In clock ticks since boot; together with the pid it identifies the process within this boot.
    pub start_time: u64,
    /// Store, run and attempt as the mark names them. The mark is in the environment, so the agent may have forged it.
    pub store: PathBuf,
    pub run: String,
    pub attempt: String,
    /// Its command line, for people.
    pub command: String,
    /// Its descendants that carry no mark.
    pub unmarked_descendants: Vec<i32>,
}

/// Returns every process that carries the mark of an attempt, of any store.
pub fn find_marked() -> io::Result<Vec<MarkedProcess>> {
    let table = ProcessTable::read()?;
    let marked_rows = table.with_variables(["CALLBOARD_STORE", "CALLBOARD_RUN", "CALLBOARD_ATTEMPT"])?;
    let known: Vec<_> = marked_rows.iter().map(|(row, _)| row.pid).collect();
    let marked = marked_rows.into_iter().map(|(row, [store, run, attempt])| {
        let unmarked_descendants = table.with_descendants(vec![row]).into_iter().map(|row| row.pid);
        let unmarked_descendants =
            unmarked_descendants.filter(|pid| !known.contains(pid)).map(|pid| pid.as_raw_pid()).collect();
        MarkedProcess {
            pid: row.pid.as_raw_pid(),
            start_time: row.start_time,
            store: store.into(),
            run,
            attempt,
            command: row.command_line(),
            unmarked_descendants,
        }
    });
    Ok(marked.collect())
}

/// The state of an attempt's shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShimStatus {
    /// No shim has claimed the attempt.
    Unclaimed,
    /// An engine voided the attempt.
    Void,
    Alive {
        pid: u32,
        /// Whether Ctrl-Z or `kill -STOP` has stopped it, so that it does nothing until SIGCONT.
        stopped: bool,
    },
    Dead,
    /// It is alive in another container.
    InOtherContainer,
}

/// Returns the state of an attempt's shim.
pub fn shim_status(dir: &AttemptDir) -> Result<ShimStatus, ClaimError> {
    Ok(match attempt::claim_status(dir, None)? {
        ClaimStatus::Unclaimed => ShimStatus::Unclaimed,
        ClaimStatus::Void => ShimStatus::Void,
        ClaimStatus::Alive(_) => match attempt::shim_of(dir)? {
            Some(ProcessIdentity { pid, .. }) => ShimStatus::Alive {
                pid,
                stopped: ProcessInfo::of(pid).is_some_and(|process| process.stopped),
            },
            None => ShimStatus::Unclaimed,
        },
        ClaimStatus::Dead => ShimStatus::Dead,
        ClaimStatus::InOtherContainer(_) => ShimStatus::InOtherContainer,
    })
}
