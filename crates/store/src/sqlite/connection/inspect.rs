//! Reads a store without leaving a trace: creates no file, migrates, recovers and checkpoints nothing, waits for no
//! lock. `callboard doctor` uses it to report on a store before anything touches it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use linux::FileIdentity;
use rusqlite::Connection;

use super::connect::{FileState, connect_without_changing_database};
use super::database::Database;
use super::open::{self, OpenError};
use crate::Location;
use crate::sqlite::SqliteStore;
use crate::sqlite::lock::writer::WriterLock;
use crate::sqlite::sql::schema::{APPLICATION_ID, FORMAT, read_format};

/// The state in which a store was found.
#[derive(Debug)]
pub struct StoreInspection {
    /// The format of the database.
    pub format: i64,
    /// The format this program writes.
    pub current_format: i64,
    /// What SQLite's check reports; empty if the file is sound.
    pub problems: Vec<String>,
    /// The store for reading, if it has our format.
    pub store: Option<SqliteStore>,
}

/// How many problems are listed: one is enough to act on, and a broken file has thousands.
const MAX_PROBLEMS: usize = 5;

pub(crate) fn inspect(location: &Location) -> Result<Option<StoreInspection>, OpenError> {
    if !open::is_present(location)? {
        return Ok(None);
    }
    let path = location.database();
    let unreadable = |error| open::unreadable(&path, error);
    let (mut connection, mut problems) = quick_check(&path).map_err(unreadable)?;
    if !problems.is_empty() {
        // Check once more: another process may have begun to write after the file was opened as one that does not change.
        (connection, problems) = quick_check(&path).map_err(unreadable)?;
    }
    let (application, format) = read_format(&connection).map_err(unreadable)?;
    if application != APPLICATION_ID {
        return Err(OpenError::OtherProgram { path });
    }
    if format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    let store = (format == FORMAT).then(|| store_for_reading(location, connection)).transpose()?;
    Ok(Some(StoreInspection { format, current_format: FORMAT, problems, store }))
}

fn quick_check(path: &Path) -> rusqlite::Result<(Connection, Vec<String>)> {
    let connection = connect_without_changing_database(path, FileState::of(path))?;
    let problems = {
        let mut check = connection.prepare(&format!("PRAGMA quick_check({MAX_PROBLEMS})"))?;
        let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        lines.into_iter().filter(|line| line != "ok").collect()
    };
    Ok((connection, problems))
}

fn store_for_reading(location: &Location, connection: Connection) -> Result<SqliteStore, OpenError> {
    let path = location.database();
    let failed = |source| OpenError::Io { action: "look at", path: path.clone(), source };
    let identity = FileIdentity::of(&std::fs::metadata(&path).map_err(failed)?);
    // A restored backup has no lock file, and a reader must not create one.
    let writer_lock = match location.writer_lock() {
        writer_lock if writer_lock.exists() => WriterLock::open_existing(writer_lock),
        _ => WriterLock::of_database(path.clone()),
    };
    let writer_lock = writer_lock.map_err(failed)?;
    let (reader, writer) = (Mutex::new(connection), Mutex::new(None));
    Ok(SqliteStore(Arc::new(Database {
        location: location.clone(),
        path: path.clone(),
        identity,
        writer_lock,
        reader,
        writer,
    })))
}
