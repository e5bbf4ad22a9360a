//! One look, or one change: the only two ways to the database.
//!
//! Both first make sure that the file is still the one we opened and has still the format we know.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::migrations::{self, FORMAT};
use super::writer_lock::{WriterLock, check_identity};
use crate::Location;
use crate::error::Unavailable;
use crate::location::log_of;
use crate::os::{self, FileIdentity};

/// How long SQLite waits for a lock. Ours never collide, thanks to the ticket; this is for other programs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// More than the statements we have, so that each is compiled once.
const STATEMENTS: usize = 32;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) location: Location,
    pub(super) path: PathBuf,
    pub(super) identity: FileIdentity,
    pub(super) writer_lock: WriterLock,
    pub(super) reader: Mutex<Connection>,
    /// Opened by the first write: most commands only look.
    pub(super) writer: Mutex<Option<Connection>>,
}

/// Why a change was not acknowledged by the database.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Nothing was written.
    Unavailable(Unavailable),
    /// `COMMIT` failed in a way that leaves open whether its last bytes reached the disk.
    Unsettled { path: PathBuf, source: rusqlite::Error },
}

impl From<Unavailable> for Trouble {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(unavailable)
    }
}

/// For writes that may simply be repeated.
impl From<Trouble> for Unavailable {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unavailable(unavailable) => unavailable,
            Trouble::Unsettled { path, source } => unavailable(&path, source),
        }
    }
}

impl Database {
    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// Looks at one consistent state of the database. Waits for no writer.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Unavailable> {
        let mut reader = lock(&self.reader);
        self.check()?;
        let sql = |error| unavailable(&self.path, error);
        let transaction = reader.transaction_with_behavior(TransactionBehavior::Deferred).map_err(sql)?;
        self.check_format(&transaction)?;
        look(&transaction).map_err(sql)
    }

    /// Makes one change while holding the ticket. What `change` refuses is rolled back.
    pub(super) fn write<T, R>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, R>>,
    ) -> Result<Result<T, R>, Trouble> {
        let mut slot = lock(&self.writer);
        let writer = match &mut *slot {
            Some(writer) => writer,
            empty => empty.insert(self.connect_writer()?),
        };
        let result = self.write_in_turn(writer, change);
        if matches!(result, Err(Trouble::Unsettled { .. })) {
            // What the connection believes about the file is not known any more either.
            *slot = None;
        }
        result
    }

    fn write_in_turn<T, R>(
        &self,
        writer: &mut Connection,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, R>>,
    ) -> Result<Result<T, R>, Trouble> {
        // Declared before the transaction, so dropped after it: when the bell rings the change is there.
        let _turn = self.writer_lock.take()?;
        self.check()?;
        let sql = |error| unavailable(&self.path, error);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        self.check_format(&transaction)?;
        let answer = match change(&transaction).map_err(sql)? {
            Ok(answer) => answer,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match transaction.execute_batch("COMMIT") {
            Ok(()) => Ok(Ok(answer)),
            // The transaction is still open, so nothing of it was made durable; dropping it rolls it back.
            Err(error) if !transaction.is_autocommit() => Err(sql(error).into()),
            // Nor was it if the log had no room for all of it: what counts is its last piece.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => Err(sql(error).into()),
            Err(source) => Err(Trouble::Unsettled { path: self.path.clone(), source }),
        }
    }

    fn connect_writer(&self) -> Result<Connection, Unavailable> {
        self.check()?;
        // SQLite puts files beside the database, so both count. Asked here, the answer has a reason.
        for path in [&self.path, self.location.root()] {
            os::writable(path).map_err(|error| Unavailable::io("write", path.to_owned(), error))?;
        }
        connect(&self.path).map_err(|error| unavailable(&self.path, error))
    }

    /// Nothing is written to, or believed of, a file that is not at its place any more.
    pub(super) fn check(&self) -> Result<(), Unavailable> {
        check_identity(&self.path, Some(self.identity))?;
        self.writer_lock.check()
    }

    /// A newer program may have migrated the database since we opened it.
    fn check_format(&self, connection: &Connection) -> Result<(), Unavailable> {
        let format =
            connection.prepare_cached("PRAGMA user_version").and_then(|mut s| s.query_one([], |r| r.get(0)));
        match format.map_err(|error| unavailable(&self.path, error))? {
            FORMAT => Ok(()),
            found => Err(Unavailable::Upgraded { path: self.path.clone(), found, known: FORMAT }),
        }
    }
}

/// Opens a connection to an existing database.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

/// Opens a connection that cannot write, and says what the file claims to be.
///
/// Closing it leaves the log alone, even if nobody else is there: to move it into the database and to delete it is for
/// those who write. A command that only looks would otherwise delete and make two files each time.
pub(super) fn connect_reader(path: &Path) -> rusqlite::Result<(Connection, i64, i64)> {
    let looked = connect(path).and_then(only_looking);
    match looked {
        // Where nothing can be written SQLite cannot make the memory that readers and writers share. A database whose
        // log was taken in when it was closed needs none. (Whoever has the same disk mounted for writing elsewhere could
        // begin to write in the run_at of our look: then it may fail or tell of a run_at ago.)
        Err(_) if is_at_rest(path) => connect_without_trace(path, Trust::AtRest).and_then(only_looking),
        looked => looked,
    }
}

fn only_looking(connection: Connection) -> rusqlite::Result<(Connection, i64, i64)> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA query_only = ON")?;
    let (application, format) = migrations::read_format(&connection)?;
    Ok((connection, application, format))
}

/// Whether the database lies where we cannot write, with everything in its one file.
fn is_at_rest(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(Path::new("/"));
    os::writable(directory).is_err() && !std::fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0)
}

/// How a file is opened by whoever must not leave a trace beside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trust {
    /// Nobody can change it: no lock is taken, no log is looked for.
    AtRest,
    /// Others may write: their log is read through the memory they share.
    Live,
}

impl Trust {
    /// A database with nothing in its log is at rest: read as a file that nobody changes, it needs no other files.
    pub(super) fn in_log_of(path: &Path) -> Self {
        let has_log = std::fs::metadata(log_of(path)).is_ok_and(|log| log.len() > 0);
        if has_log { Self::Live } else { Self::AtRest }
    }
}

/// Opens a file for reading alone, and leaves all files as they are, even as the last one to close.
pub(super) fn connect_without_trace(path: &Path, trust: Trust) -> rusqlite::Result<Connection> {
    let mode = match trust {
        Trust::AtRest => "immutable=1",
        Trust::Live => "mode=ro",
    };
    // What has a meaning in a URI stands for itself in a path, and a path need not be text.
    let escape = |byte: &u8| match byte {
        b'%' | b'?' | b'#' | 0x80.. => format!("%{byte:02x}"),
        byte => char::from(*byte).to_string(),
    };
    let name: String = path.as_os_str().as_bytes().iter().map(escape).collect();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{name}?{mode}"), flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

pub(super) fn unavailable(path: &Path, error: rusqlite::Error) -> Unavailable {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Unavailable::Damaged { path, source: error.into() }
        }
        Some(ErrorCode::DiskFull) => Unavailable::Full { path, source: error.into() },
        // What SQLite could not do it often says no better than this.
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if os::is_full(&path) => {
            Unavailable::Full { path, source: error.into() }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
            if os::writable(&path).is_err() =>
        {
            Unavailable::NotWritable { path, source: error.into() }
        }
        _ => Unavailable::Database { path, source: error.into() },
    }
}

/// A panic in a look or a change has rolled its transaction back, so the connection is sound.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open::open;

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
    fn a_command_that_only_looks_leaves_the_log_where_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::find(directory.path(), Some("store".into())).unwrap();
        let log = location.log();
        drop(open(&location).unwrap());
        let made = std::fs::metadata(&log).unwrap();
        let database = open(&location).unwrap();
        database.read(|tx| tx.query_row("SELECT count(*) FROM runs", [], |_| Ok(()))).unwrap();
        drop(database);
        assert_eq!(FileIdentity::of(&std::fs::metadata(&log).unwrap()), FileIdentity::of(&made));
    }
}
