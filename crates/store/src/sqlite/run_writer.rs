//! Writes a whole run in one transaction.

use std::path::Path;

use jiff::Timestamp;
use protocol::{Epoch, RunId};
use rusqlite::{Transaction, params};

use crate::Digest;
use crate::commit::{Commit, Position};
use crate::error::Unavailable;
use crate::run_writer::{RunWriteError, RunWriter};
use crate::sqlite::SqliteStore;
use crate::sqlite::sql::write;

/// Writes one run within a transaction, so that all of it lands or nothing.
#[derive(Debug)]
pub(crate) struct TransactionWriter<'t> {
    transaction: &'t Transaction<'t>,
    path: &'t Path,
}

impl<'t> TransactionWriter<'t> {
    pub(crate) fn new(transaction: &'t Transaction<'t>, path: &'t Path) -> Self {
        Self { transaction, path }
    }

    pub(crate) fn append(&mut self, commit: &Commit) -> Result<Position, RunWriteError> {
        Ok(write::commit(self.transaction, commit).map_err(|error| database_error(self.path, error))??)
    }

    pub(crate) fn put_blob(&mut self, body: &Vec<u8>) -> Result<Digest, RunWriteError> {
        let digest = Digest::of(body);
        let written = write::insert_blobs(self.transaction, [(&digest, body)].into_iter());
        // The inner result is always `Ok`: no blob is refused.
        let _: Result<(), _> = written.map_err(|error| database_error(self.path, error))?;
        Ok(digest)
    }

    pub(crate) fn set_created_and_epoch(
        &mut self,
        run: &RunId,
        created: Timestamp,
        epoch: Epoch,
    ) -> Result<(), RunWriteError> {
        let set = || -> rusqlite::Result<()> {
            let created = created.as_microsecond();
            self.transaction
                .execute("UPDATE runs SET created = ?2 WHERE name = ?1", params![run.as_str(), created])?;
            self.transaction.execute(
                "INSERT INTO engines (run, epoch) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",
                params![run.as_str(), epoch.0],
            )?;
            Ok(())
        };
        set().map_err(|error| database_error(self.path, error))
    }
}

impl SqliteStore {
    /// Writes a whole run into the open store, or nothing of it. Blocks, and other writers wait.
    pub fn put_run<T, E: From<RunWriteError>>(
        &self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = self.location().database();
        let written = self.0.write(|transaction| Ok(fill(&mut RunWriter::within(transaction, &path))));
        match written {
            Ok(filled) => filled,
            Err(failure) => Err(RunWriteError::from(Unavailable::from(failure)).into()),
        }
    }
}

pub(crate) fn database_error(path: &Path, error: rusqlite::Error) -> RunWriteError {
    RunWriteError::Database { path: path.to_owned(), source: error.into() }
}
