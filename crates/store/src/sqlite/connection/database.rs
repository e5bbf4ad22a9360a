//! An open database: one read or one write transaction at a time.
//!
//! Each transaction first checks that the file is still the one that was opened and still has our format.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use linux::FileIdentity;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::connect::connect;
use crate::Location;
use crate::error::Unavailable;
use crate::sqlite::lock::writer::{WriterLock, check_identity};
use crate::sqlite::sql::schema::FORMAT;

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) location: Location,
    pub(crate) path: PathBuf,
    pub(crate) identity: FileIdentity,
    pub(crate) writer_lock: WriterLock,
    pub(crate) reader: Mutex<Connection>,
    /// Opened by the first write, because most commands only read.
    pub(crate) writer: Mutex<Option<Connection>>,
}

/// Why the database did not acknowledge a write.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Nothing was written.
    Unavailable(Unavailable),
    /// `COMMIT` failed in a way that does not say whether its last bytes reached the disk.
    OutcomeUnknown { path: PathBuf, source: rusqlite::Error },
}

impl From<Unavailable> for WriteFailure {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// For idempotent writes, which may be repeated whether or not they landed.
impl From<WriteFailure> for Unavailable {
    fn from(failure: WriteFailure) -> Self {
        match failure {
            WriteFailure::Unavailable(unavailable) => unavailable,
            WriteFailure::OutcomeUnknown { path, source } => unavailable(&path, source),
        }
    }
}

impl Database {
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Runs `query` on one consistent state of the database. Waits for no writer.
    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Unavailable> {
        let mut reader = lock(&self.reader);
        self.check_files()?;
        let failed = |error| unavailable(&self.path, error);
        let transaction = reader.transaction_with_behavior(TransactionBehavior::Deferred).map_err(failed)?;
        self.check_format(&transaction)?;
        query(&transaction).map_err(failed)
    }

    /// Runs `change` in one transaction while holding the writer lock. If `change` returns an inner `Err`, the
    /// transaction is rolled back.
    pub(crate) fn write<T, R>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, R>>,
    ) -> Result<Result<T, R>, WriteFailure> {
        let mut slot = lock(&self.writer);
        let writer = match &mut *slot {
            Some(writer) => writer,
            empty => empty.insert(self.connect_writer()?),
        };
        let result = self.write_locked(writer, change);
        if matches!(result, Err(WriteFailure::OutcomeUnknown { .. })) {
            // The connection's cache may no longer match the file.
            *slot = None;
        }
        result
    }

    /// Moves the write-ahead log (WAL) into the database and truncates it, so that no older images of pages are left.
    /// While another process reads, the WAL stays.
    pub(crate) fn truncate_wal(&self) {
        if let Some(writer) = &*lock(&self.writer) {
            let _ = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn write_locked<T, R>(
        &self,
        writer: &mut Connection,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, R>>,
    ) -> Result<Result<T, R>, WriteFailure> {
        // Declared before the transaction, so dropped after it: when watchers wake up, the change is visible.
        let _guard = self.writer_lock.acquire()?;
        self.check_files()?;
        let failed = |error| unavailable(&self.path, error);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        self.check_format(&transaction)?;
        let answer = match change(&transaction).map_err(failed)? {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match transaction.execute_batch("COMMIT") {
            Ok(()) => Ok(Ok(answer)),
            // The transaction is still open, so nothing of it is durable; dropping it rolls it back.
            Err(error) if !transaction.is_autocommit() => Err(failed(error).into()),
            // If the WAL had no room, its last frame is missing, and without that frame nothing counts.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => Err(failed(error).into()),
            Err(source) => Err(WriteFailure::OutcomeUnknown { path: self.path.clone(), source }),
        }
    }

    fn connect_writer(&self) -> Result<Connection, Unavailable> {
        self.check_files()?;
        // SQLite creates files next to the database, so the directory must be writable, too. Checked here, because
        // SQLite's own error does not say which of the two is not.
        for path in [&self.path, self.location.root()] {
            linux::check_writable(path).map_err(|error| Unavailable::io("write", path.to_owned(), error))?;
        }
        connect(&self.path).map_err(|error| unavailable(&self.path, error))
    }

    /// Fails if the database or the lock file was removed or replaced since it was opened.
    pub(crate) fn check_files(&self) -> Result<(), Unavailable> {
        check_identity(&self.path, Some(self.identity))?;
        self.writer_lock.check()
    }

    /// Fails if a newer program has migrated the database since it was opened.
    fn check_format(&self, connection: &Connection) -> Result<(), Unavailable> {
        let format =
            connection.prepare_cached("PRAGMA user_version").and_then(|mut s| s.query_one([], |r| r.get(0)));
        match format.map_err(|error| unavailable(&self.path, error))? {
            FORMAT => Ok(()),
            found => Err(Unavailable::Upgraded { path: self.path.clone(), found, known: FORMAT }),
        }
    }
}

/// Classifies an SQLite error by what the user can do about it.
pub(crate) fn unavailable(path: &Path, error: rusqlite::Error) -> Unavailable {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Unavailable::Damaged { path, source: error.into() }
        }
        Some(ErrorCode::DiskFull) => Unavailable::Full { path, source: error.into() },
        // SQLite reports a full disk with these codes, too.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if linux::is_full(&path) => {
            Unavailable::Full { path, source: error.into() }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
            if linux::check_writable(&path).is_err() =>
        {
            Unavailable::NotWritable { path, source: error.into() }
        }
        _ => Unavailable::Database { path, source: error.into() },
    }
}

/// Locks a connection. A panic during a transaction rolled it back, so a poisoned connection is sound.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::connection::open::open;

    #[test]
    fn the_writer_syncs_every_commit_and_the_reader_cannot_write() {
        let directory = tempfile::tempdir().unwrap();
        let database = open(&Location::find(directory.path(), Some("store".into())).unwrap()).unwrap();
        let writer = database.connect_writer().unwrap();
        let text = |name| writer.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap();
        let number = |name| writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        const FULL: i64 = 2;
        assert_eq!((text("journal_mode").as_str(), number("synchronous")), ("wal", FULL));
        assert_eq!(number("foreign_keys"), 1);
        let refused = database.read(|tx| tx.execute("DELETE FROM blobs", []));
        assert!(refused.is_err());
    }

    #[test]
    fn a_command_that_only_reads_keeps_the_wal_file() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::find(directory.path(), Some("store".into())).unwrap();
        let wal = location.wal();
        drop(open(&location).unwrap());
        let before = std::fs::metadata(&wal).unwrap();
        let database = open(&location).unwrap();
        database.read(|tx| tx.query_row("SELECT count(*) FROM runs", [], |_| Ok(()))).unwrap();
        drop(database);
        assert_eq!(FileIdentity::of(&std::fs::metadata(&wal).unwrap()), FileIdentity::of(&before));
    }
}
