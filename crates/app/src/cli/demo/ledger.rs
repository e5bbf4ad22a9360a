//! What the agents themselves note: a line as they begin and one as they end, with the number of their process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use protocol::AttemptId;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) when: When,
    pub(super) attempt: AttemptId,
    pub(super) pid: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Begin,
    End,
}

/// Wakes us whenever an agent has written to the ledger.
#[derive(Debug)]
pub(super) struct Wakeup {
    pipe: pipe::Receiver,
    ledger: PathBuf,
}

impl Wakeup {
    pub(super) fn open(path: &Path, ledger: PathBuf) -> io::Result<Self> {
        // For writing, too: so there is always a writer, and agents that come and go do not end it.
        Ok(Self { pipe: pipe::OpenOptions::new().read_write(true).open_receiver(path)?, ledger })
    }

    /// Waits for news, and reads all there is.
    pub(super) async fn next(&mut self) -> io::Result<Vec<Note>> {
        // How often it was rung does not matter: all there is is read.
        let _ = self.pipe.read(&mut [0; 64]).await?;
        read(&self.ledger)
    }
}

/// All notes, oldest first.
pub(super) fn read(ledger: &Path) -> io::Result<Vec<Note>> {
    fs::read_to_string(ledger)?.lines().map(parse).collect()
}

fn parse(line: &str) -> io::Result<Note> {
    let read = || {
        let mut words = line.split(' ');
        let when = match words.next()? {
            "begin" => When::Begin,
            "end" => When::End,
            _ => return None,
        };
        Some(Note { when, attempt: words.next()?.parse().ok()?, pid: words.next()?.parse().ok()? })
    };
    read().ok_or_else(|| io::Error::other(format!("the ledger has the line `{line}`")))
}
