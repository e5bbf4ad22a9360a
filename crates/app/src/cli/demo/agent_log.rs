//! The log that the agents write: one line at their start and one at their end, with their process id.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::AttemptId;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) event: AgentEvent,
    pub(super) attempt: AttemptId,
    pub(super) pid: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentEvent {
    Start,
    End,
}

/// Wakes the demo when an agent has written to the log.
#[derive(Debug)]
pub(super) struct Wakeup {
    pipe: pipe::Receiver,
    log: PathBuf,
}

impl Wakeup {
    pub(super) fn open(path: &Path, log: PathBuf) -> io::Result<Self> {
        // Also opened for writing, so that the pipe does not end when an agent closes it.
        Ok(Self { pipe: pipe::OpenOptions::new().read_write(true).open_receiver(path)?, log })
    }

    /// Waits for a wakeup and returns all lines of the log.
    pub(super) async fn next(&mut self) -> io::Result<Vec<LogLine>> {
        // Wakeups may be merged, so the whole log is read each time.
        let _ = self.pipe.read(&mut [0; 64]).await?;
        read(&self.log)
    }
}

/// Reads all lines, oldest first.
pub(super) fn read(log: &Path) -> io::Result<Vec<LogLine>> {
    fs::read_to_string(log)?.lines().map(parse).collect()
}

fn parse(line: &str) -> io::Result<LogLine> {
    let parsed = || {
        let mut words = line.split(' ');
        let event = match words.next()? {
            "start" => AgentEvent::Start,
            "end" => AgentEvent::End,
            _ => return None,
        };
        Some(LogLine { event, attempt: words.next()?.parse().ok()?, pid: words.next()?.parse().ok()? })
    };
    parsed().ok_or_else(|| io::Error::other(format!("the agents' log has the line `{line}`")))
}
