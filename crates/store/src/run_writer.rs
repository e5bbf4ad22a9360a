//! Writes a whole run at once: an imported run, or one rebuilt by recovery. All of it becomes visible, or nothing.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Epoch, RunId};
use rusqlite::Transaction;

use crate::commit::{Commit, Position, Token};
use crate::error::{CommitError, EngineLockError, Unavailable};
use crate::sqlite::{OpenError, TransactionWriter};
use crate::{Digest, KvEntry};

/// Why a run could not be written. No part of it is visible then.
#[derive(Debug, thiserror::Error)]
pub enum RunWriteError {
    #[error(transparent)]
    Create(#[from] OpenError),
    #[error(transparent)]
    Refused(#[from] CommitError),
    #[error(transparent)]
    EngineLock(#[from] EngineLockError),
    #[error("could not write to the database `{}`", path.display())]
    Database { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Receives the commits and blobs of one run.
#[derive(Debug)]
pub struct RunWriter<'t>(Target<'t>);

#[derive(Debug)]
enum Target<'t> {
    Transaction(TransactionWriter<'t>),
    Buffer(&'t mut BufferedRun),
}

/// A run in memory. The NATS backend writes it when all commits and blobs have been added.
#[derive(Debug, Default)]
pub(crate) struct BufferedRun {
    pub(crate) commits: Vec<Commit>,
    pub(crate) blobs: Vec<Vec<u8>>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) epoch: Epoch,
    /// What another program has written under this run's key of the NATS bucket, and the run replaces. Not an entry of a journal.
    pub(crate) replaced_bucket_entry: Option<KvEntry>,
}

impl<'t> RunWriter<'t> {
    pub(crate) fn within(transaction: &'t Transaction<'t>, path: &'t Path) -> Self {
        Self(Target::Transaction(TransactionWriter::new(transaction, path)))
    }

    pub(crate) fn buffered(buffer: &'t mut BufferedRun) -> Self {
        Self(Target::Buffer(buffer))
    }

    /// Adds a commit. It becomes visible together with all others.
    pub fn append(&mut self, commit: &Commit) -> Result<Position, RunWriteError> {
        match &mut self.0 {
            Target::Transaction(writer) => writer.append(commit),
            Target::Buffer(buffer) => buffer.append(commit),
        }
    }

    /// Adds a blob. Returns its digest.
    pub fn put_blob(&mut self, body: &Vec<u8>) -> Result<Digest, RunWriteError> {
        match &mut self.0 {
            Target::Transaction(writer) => writer.put_blob(body),
            Target::Buffer(buffer) => {
                buffer.blobs.push(body.clone());
                Ok(Digest::of(body))
            }
        }
    }

    /// Declares that the run replaces what another program has written under the run's key of the NATS bucket with peer
    /// documents. Nothing is replaced in an SQLite store, or if the key has another value by the time the run is written.
    pub fn replace_bucket_entry(&mut self, entry: KvEntry) {
        match &mut self.0 {
            Target::Transaction(_) => {}
            Target::Buffer(buffer) => buffer.replaced_bucket_entry = Some(entry),
        }
    }

    /// Sets when the run was created, and the epoch that every future engine of it must exceed.
    pub fn set_created_and_epoch(
        &mut self,
        run: &RunId,
        created: Timestamp,
        epoch: Epoch,
    ) -> Result<(), RunWriteError> {
        match &mut self.0 {
            Target::Transaction(writer) => writer.set_created_and_epoch(run, created, epoch),
            Target::Buffer(buffer) => {
                buffer.created = Some(created);
                buffer.epoch = buffer.epoch.max(epoch);
                Ok(())
            }
        }
    }
}

impl BufferedRun {
    /// Adds a commit. Its token is provisional: the backend assigns the real one.
    fn append(&mut self, commit: &Commit) -> Result<Position, RunWriteError> {
        let found = self.commits.last().map_or(Position::absent(), |last| provisional_next(last.expected));
        if commit.expected != found {
            let (run, expected) = (commit.run.clone(), commit.expected.revision);
            return Err(CommitError::Conflict { run, expected, found: found.revision }.into());
        }
        self.commits.push(commit.clone());
        Ok(provisional_next(found))
    }
}

fn provisional_next(position: Position) -> Position {
    let revision = position.revision.next();
    Position { revision, token: Token(revision.0) }
}
