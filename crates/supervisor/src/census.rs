//! Looking at processes without touching them: who carries a mark, whose shim lives. For people who want to know; the
//! sweep that ends them is in `mark`, the engine's own look in `attend`.

use std::io;
use std::path::PathBuf;

use crate::claim::{self, ClaimError, Standing};
use crate::dir::AttemptDir;
use crate::os::{self, Identity, Table};

/// A living process of this user that carries the mark of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    pub pid: i32,
    /// In clock ticks since boot; with the pid it tells this process from every other of this boot.
    pub start_time: u64,
    /// As the mark names them. They are an agent's environment, hence a claim.
    pub store: PathBuf,
    pub run: String,
    pub attempt: String,
    /// Its command line, for people.
    pub command: String,
    /// What it started that carries no mark.
    pub below: Vec<i32>,
}

/// Everybody who carries the mark of an attempt, of whatever store.
pub fn census() -> io::Result<Vec<Marked>> {
    let table = Table::read()?;
    let carriers = table.carriers(["CALLBOARD_STORE", "CALLBOARD_RUN", "CALLBOARD_ATTEMPT"]);
    let known: Vec<_> = carriers.iter().map(|(row, _)| row.pid).collect();
    let marked = carriers.into_iter().map(|(row, [store, run, attempt])| {
        let below = table.with_descendants(vec![row]).into_iter().map(|row| row.pid);
        let below = below.filter(|pid| !known.contains(pid)).map(|pid| pid.as_raw_pid()).collect();
        Marked {
            pid: row.pid.as_raw_pid(),
            start_time: row.start_time,
            store: store.into(),
            run,
            attempt,
            command: os::command_line(row.pid),
            below,
        }
    });
    Ok(marked.collect())
}

/// How the shim of an attempt fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShimLife {
    /// No shim has claimed the attempt.
    NeverBegan,
    /// An engine voided it.
    Void,
    Alive {
        pid: i32,
        /// By Ctrl-Z or `kill -STOP`: it does nothing until somebody continues it.
        stopped: bool,
    },
    Dead,
    /// It lives in another container.
    Remote,
}

/// Looks how the shim of an attempt fares.
pub fn shim_life(dir: &AttemptDir) -> Result<ShimLife, ClaimError> {
    Ok(match claim::standing(dir, None)? {
        Standing::Nobody => ShimLife::NeverBegan,
        Standing::Void => ShimLife::Void,
        Standing::Alive(_) => match claim::holder(dir)? {
            Some(Identity { pid, .. }) => ShimLife::Alive { pid, stopped: os::is_stopped(pid) },
            None => ShimLife::NeverBegan,
        },
        Standing::Dead => ShimLife::Dead,
        Standing::Remote(_) => ShimLife::Remote,
    })
}
