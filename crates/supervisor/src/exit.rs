//! How an attempt ended: the one thing a shim has to say, written once, at the very end.

use std::fmt;
use std::fs;
use std::io;

use jiff::Timestamp;
use protocol::AttemptId;
use serde::{Deserialize, Serialize};

use crate::dir::AttemptDir;
use crate::whole::Reserved;

/// The content of `exit.json`. When it exists, no process of the attempt is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub attempt: AttemptId,
    pub how: How,
    pub because: Because,
    pub boot_id: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// By the monotonic clock; the two times above are the wall's.
    pub duration_ms: u64,
    /// How many descendants outlived the agent and had to be ended.
    pub swept: u32,
}

/// What became of the agent's own process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Exited { code: i32 },
    Signalled { signal: i32 },
    NotStarted { error: String },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signalled { signal } => write!(f, "was ended by signal {signal}"),
            Self::NotStarted { error } => write!(f, "could not be started: {error}"),
        }
    }
}

/// Why it ended when it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Of its own accord.
    Own,
    /// It ran longer than it may.
    TimedOut,
    /// It wrote nothing for longer than it may.
    Silent,
    /// The engine ordered it.
    Ordered,
}

impl ExitRecord {
    /// Takes the room for a record on the disk, which may be full when there is something to record.
    pub(crate) fn reserve(dir: &AttemptDir) -> io::Result<Reserved> {
        Reserved::in_dir(dir.path())
    }

    pub(crate) fn write(&self, dir: &AttemptDir, room: Reserved) -> io::Result<()> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        room.become_file(&dir.exit(), &bytes)
    }

    /// Reads the record. A file that cannot be understood is no record: the rename makes it whole, so only a power
    /// cut can have torn it, and then the attempt was interrupted.
    pub(crate) fn read(dir: &AttemptDir) -> io::Result<Option<Self>> {
        match fs::read(dir.exit()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
