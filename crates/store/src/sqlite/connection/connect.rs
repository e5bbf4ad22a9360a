//! SQLite connections: for writing, for reading, and for reading without changing the database or its WAL.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::location::wal_of;
use crate::sqlite::sql::schema;

/// How long SQLite waits for a lock. Our own writers queue on the writer lock, so this only concerns other programs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// More statements than any connection uses, so that each is compiled once per connection.
const STATEMENT_CACHE: usize = 32;

/// Opens a connection to an existing database.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

/// Opens a connection that cannot write. Returns it with the application id and format of the file.
///
/// Closing it never checkpoints the write-ahead log (WAL), even as the last connection. Otherwise every read-only
/// command would delete and recreate two files.
pub(crate) fn connect_reader(path: &Path) -> rusqlite::Result<(Connection, i64, i64)> {
    match connect(path).and_then(make_read_only) {
        // Without write permission SQLite cannot create its shared memory. A database with an empty WAL needs none. If
        // another machine has the same disk mounted for writing and starts to write now, a read may fail or be stale.
        Err(_) if is_complete_and_read_only(path) => {
            connect_without_changing_database(path, FileState::Unchanging).and_then(make_read_only)
        }
        connected => connected,
    }
}

fn make_read_only(connection: Connection) -> rusqlite::Result<(Connection, i64, i64)> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.execute_batch("PRAGMA query_only = ON")?;
    let (application, format) = schema::read_format(&connection)?;
    Ok((connection, application, format))
}

/// Whether the directory is not writable and the WAL is empty, so that the database file is complete.
fn is_complete_and_read_only(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(Path::new("/"));
    linux::check_writable(directory).is_err() && !has_wal(path)
}

fn has_wal(path: &Path) -> bool {
    std::fs::metadata(wal_of(path)).is_ok_and(|wal| wal.len() > 0)
}

/// What a connection that must not change the database assumes about its file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileState {
    /// No process changes it: SQLite takes no lock and ignores the WAL.
    Unchanging,
    /// Other processes may write: SQLite reads their WAL through shared memory, and creates that file if it is missing.
    Live,
}

impl FileState {
    /// Returns `Unchanging` if the WAL is empty or absent: then SQLite needs no file but the database.
    pub(crate) fn of(path: &Path) -> Self {
        if has_wal(path) { Self::Live } else { Self::Unchanging }
    }
}

/// Opens a connection that changes neither the database nor its WAL, not even when it is the last to close.
pub(crate) fn connect_without_changing_database(
    path: &Path,
    state: FileState,
) -> rusqlite::Result<Connection> {
    let mode = match state {
        FileState::Unchanging => "immutable=1",
        FileState::Live => "mode=ro",
    };
    // The path becomes part of a URI: escape what has a meaning there, and bytes that are not ASCII.
    let escape = |byte: &u8| match byte {
        b'%' | b'?' | b'#' | 0x80.. => format!("%{byte:02x}"),
        byte => char::from(*byte).to_string(),
    };
    let name: String = path.as_os_str().as_bytes().iter().map(escape).collect();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{name}?{mode}"), flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(connection)
}
