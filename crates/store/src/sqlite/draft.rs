//! Whole runs, written in one go: into a new database beside the old one, or into a store that is in use.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Epoch, RunId};
use rusqlite::{Connection, Transaction, params};

use super::backup::Backup;
use super::closed::Closed;
use super::{OpenError, SqliteStore, open, write};
use crate::Digest;
use crate::commit::{Commit, Position};
use crate::error::{CommitError, EngineLockError, Unavailable};
use crate::location::DATABASE_FILES;
use crate::whole::RunWriter;

/// A database that is not in its place yet.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    connection: Connection,
}

/// Why a run could not be written whole. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    #[error(transparent)]
    Create(#[from] OpenError),
    #[error(transparent)]
    Refused(#[from] CommitError),
    #[error(transparent)]
    Led(#[from] EngineLockError),
    #[error("could not write to the database `{}`", path.display())]
    Database { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Writes one run within a transaction, which makes it whole.
#[derive(Debug)]
pub(crate) struct TransactionWriter<'t> {
    transaction: &'t Transaction<'t>,
    path: &'t Path,
}

impl<'t> TransactionWriter<'t> {
    pub(crate) fn new(transaction: &'t Transaction<'t>, path: &'t Path) -> Self {
        Self { transaction, path }
    }

    pub(crate) fn append(&mut self, commit: &Commit) -> Result<Position, DraftError> {
        Ok(write::commit(self.transaction, commit).map_err(|error| database(self.path, error))??)
    }

    pub(crate) fn blob(&mut self, body: &Vec<u8>) -> Result<Digest, DraftError> {
        let digest = Digest::of(body);
        let written = write::blobs(self.transaction, [(&digest, body)].into_iter());
        let _: Result<(), _> = written.map_err(|error| database(self.path, error))?;
        Ok(digest)
    }

    pub(crate) fn remember(
        &mut self,
        run: &RunId,
        created: Timestamp,
        epoch: Epoch,
    ) -> Result<(), DraftError> {
        let remember = || -> rusqlite::Result<()> {
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
        remember().map_err(|error| database(self.path, error))
    }
}

impl Draft {
    /// Begins a new database in the store's directory. What an earlier attempt left there is removed.
    pub fn begin(closed: &Closed) -> Result<Self, DraftError> {
        Self::at(&closed.location().root().join("callboard.db.recovered"))
    }

    /// Begins one elsewhere, to see what would become of it.
    pub fn at(path: &Path) -> Result<Self, DraftError> {
        let path = path.to_owned();
        open::build(&path)?;
        let connection = super::connection::connect(&path).map_err(|error| database(&path, error))?;
        // Nobody has it yet: it is synced as a whole before it takes its place.
        connection
            .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;")
            .map_err(|error| database(&path, error))?;
        Ok(Self { path, connection })
    }

    /// Writes one run, or nothing of it.
    pub fn put_run<T, E: From<DraftError>>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |error| E::from(database(&self.path, error));
        let transaction = self.connection.transaction().map_err(failed)?;
        let filled = fill(&mut RunWriter::within(&transaction, &self.path))?;
        transaction.commit().map_err(failed)?;
        Ok(filled)
    }

    /// Makes it the store's database. The old one must have been kept, if there was one.
    ///
    /// The old log goes before the new database comes: SQLite would lay it over whatever database is there.
    pub fn install(self, closed: &mut Closed, kept: Option<&Backup>) -> Result<(), DraftError> {
        let path = self.path.clone();
        let draft = self.finish()?;
        let target = closed.location().database();
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| DraftError::Io { action, path, source }
        };
        let root = closed.location().root().to_owned();
        let sync = || File::open(&root).and_then(|directory| directory.sync_all());
        closed.turn.inscribe().map_err(failed("write", &closed.location().writer_lock()))?;
        if let Some(kept) = kept {
            kept.is_needed().map_err(failed("mark", kept.directory()))?;
        }
        // Without a database nobody takes what is left for the store.
        for name in DATABASE_FILES {
            let old = root.join(name);
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &old)(error));
                }
                _ => {}
            }
        }
        sync().map_err(failed("sync", &root))?;
        fs::rename(&draft, &target).map_err(failed("move", &path))?;
        sync().map_err(failed("sync", &root))?;
        match kept {
            Some(kept) => kept.is_finished().map_err(failed("clear", kept.directory())),
            None => Ok(()),
        }
    }

    /// Closes it, and gives its place.
    pub fn finish(self) -> Result<PathBuf, DraftError> {
        let finish = || -> rusqlite::Result<()> {
            self.connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            self.connection.close().map_err(|(_, error)| error)
        };
        finish().map_err(|error| database(&self.path, error))?;
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(|source| DraftError::Io { action: "sync", path: self.path.clone(), source })?;
        Ok(self.path)
    }
}

impl SqliteStore {
    /// Writes a whole run into the open store, or nothing of it. Blocks for as long as it takes; others wait.
    pub fn put_run<T, E: From<DraftError>>(
        &self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = self.location().database();
        let written = self.0.write(|transaction| Ok(fill(&mut RunWriter::within(transaction, &path))));
        match written {
            Ok(filled) => filled,
            Err(trouble) => Err(DraftError::from(Unavailable::from(trouble)).into()),
        }
    }
}

fn database(path: &Path, error: rusqlite::Error) -> DraftError {
    DraftError::Database { path: path.to_owned(), source: error.into() }
}
