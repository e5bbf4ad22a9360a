//! The exit record: how an attempt ended. The shim writes it once, as its last action.

use std::fmt;
use std::fs;
use std::io;

use jiff::Timestamp;
use protocol::AttemptId;
use serde::{Deserialize, Serialize};

use super::dir::AttemptDir;
use crate::atomic_file::ReservedFile;

/// The content of `exit.json`. When it exists, no process of the attempt is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub attempt: AttemptId,
    pub status: ExitStatus,
    pub reason: EndReason,
    pub boot_id: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// By the monotonic clock; the two times above are wall-clock times.
    pub duration_ms: u64,
    /// How many descendants outlived the agent and were stopped.
    pub leftover_processes: u32,
}

/// How the agent's own process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Exited { code: i32 },
    Signalled { signal: i32 },
    NotStarted { error: String },
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signalled { signal } => write!(f, "was ended by signal {signal}"),
            Self::NotStarted { error } => write!(f, "could not be started: {error}"),
        }
    }
}

/// Why the attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The agent ended by itself, or could not be started.
    Finished,
    /// It exceeded its timeout.
    TimedOut,
    /// It wrote nothing to its logs for longer than its silence limit.
    Silent,
    /// The engine stopped it.
    Stopped,
}

impl ExitRecord {
    /// Reserves disk space for a record, because the disk may be full when the attempt ends.
    pub(crate) fn reserve(dir: &AttemptDir) -> io::Result<ReservedFile> {
        ReservedFile::in_dir(dir.path())
    }

    pub(crate) fn write(&self, dir: &AttemptDir, reserved: ReservedFile) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        reserved.persist(&dir.exit(), &bytes)
    }

    /// Reads the record, or returns `None` if there is none or it cannot be parsed: it is written by rename, so only a
    /// power failure can truncate it, and that interrupted the attempt.
    pub(crate) fn read(dir: &AttemptDir) -> io::Result<Option<Self>> {
        match fs::read(dir.exit()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
