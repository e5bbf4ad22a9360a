//! A new database, filled with whole runs and moved to the place of the old one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::backup::Backup;
use super::exclusive::ExclusiveAccess;
use crate::location::DATABASE_FILES;
use crate::run_writer::{RunWriteError, RunWriter};
use crate::sqlite::connection::{connect, open};
use crate::sqlite::run_writer::database_error;

/// A database under construction.
#[derive(Debug)]
pub struct ReplacementDatabase {
    path: PathBuf,
    connection: Connection,
}

impl ReplacementDatabase {
    /// Creates an empty database in the store's directory, after removing what an interrupted recovery left there.
    pub fn create(exclusive: &ExclusiveAccess) -> Result<Self, RunWriteError> {
        Self::create_at(&exclusive.location().root().join("callboard.db.recovered"))
    }

    /// Creates an empty database at any path, for a dry run.
    pub fn create_at(path: &Path) -> Result<Self, RunWriteError> {
        let path = path.to_owned();
        open::build(&path)?;
        let connection = connect(&path).map_err(|error| database_error(&path, error))?;
        // No other process uses it yet: it is synced as a whole before it is installed.
        connection
            .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;")
            .map_err(|error| database_error(&path, error))?;
        Ok(Self { path, connection })
    }

    /// Writes one run, or nothing of it.
    pub fn put_run<T, E: From<RunWriteError>>(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |error| E::from(database_error(&self.path, error));
        let transaction = self.connection.transaction().map_err(failed)?;
        let filled = fill(&mut RunWriter::within(&transaction, &self.path))?;
        transaction.commit().map_err(failed)?;
        Ok(filled)
    }

    /// Makes it the store's database. If there was an old one, `backup` must hold it.
    ///
    /// The old WAL is removed before the new database is moved into place: SQLite would apply it to the new one.
    pub fn install(
        self,
        exclusive: &mut ExclusiveAccess,
        backup: Option<&Backup>,
    ) -> Result<(), RunWriteError> {
        let path = self.path.clone();
        let new = self.finish()?;
        let target = exclusive.location().database();
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RunWriteError::Io { action, path, source }
        };
        let root = exclusive.location().root().to_owned();
        let sync = || File::open(&root).and_then(|directory| directory.sync_all());
        // With this note in the lock file, a missing database counts as lost, not as never created.
        exclusive
            .guard
            .write_database_note()
            .map_err(failed("write", &exclusive.location().writer_lock()))?;
        if let Some(backup) = backup {
            backup.mark_unfinished().map_err(failed("mark", backup.directory()))?;
        }
        // The database goes first: without it, no process takes the other files for a store.
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
        fs::rename(&new, &target).map_err(failed("move", &path))?;
        sync().map_err(failed("sync", &root))?;
        match backup {
            Some(backup) => backup.mark_finished().map_err(failed("clear", backup.directory())),
            None => Ok(()),
        }
    }

    /// Closes and syncs it. Returns its path.
    pub fn finish(self) -> Result<PathBuf, RunWriteError> {
        let finish = || -> rusqlite::Result<()> {
            self.connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            self.connection.close().map_err(|(_, error)| error)
        };
        finish().map_err(|error| database_error(&self.path, error))?;
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(|source| RunWriteError::Io { action: "sync", path: self.path.clone(), source })?;
        Ok(self.path)
    }
}
