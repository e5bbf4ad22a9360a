//! Looking at a store without leaving a trace: no file is made, nothing is migrated, recovered or tidied up, nobody is
//! waited for. For whoever wants to know how a store is before anything touches it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::SqliteStore;
use super::connection::{Database, Trust, connect_without_trace};
use super::migrations::{APPLICATION_ID, FORMAT, read_format};
use super::open::{self, OpenError};
use super::writer_lock::WriterLock;
use crate::Location;
use crate::os::FileIdentity;

/// A store as it was found.
#[derive(Debug)]
pub struct Examined {
    /// The format the database has, and the one this program writes.
    pub format: i64,
    pub known: i64,
    /// What SQLite finds wrong with the file; empty if it is sound.
    pub faults: Vec<String>,
    /// For reading, if it has our format.
    pub store: Option<SqliteStore>,
}

/// How many faults are listed: one is enough to act on, and a broken file has thousands.
const FAULTS: usize = 5;

pub(super) fn examine(location: &Location) -> Result<Option<Examined>, OpenError> {
    if !open::is_present(location)? {
        return Ok(None);
    }
    let path = location.database();
    let unreadable = |error| open::unreadable(&path, error);
    let (mut connection, mut faults) = look(&path).map_err(unreadable)?;
    if !faults.is_empty() {
        // Somebody may have begun to write while we took the file for one at rest.
        (connection, faults) = look(&path).map_err(unreadable)?;
    }
    let (application, format) = read_format(&connection).map_err(unreadable)?;
    if application != APPLICATION_ID {
        return Err(OpenError::ExternalWrite { path });
    }
    if format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    let store = (format == FORMAT).then(|| for_reading(location, connection)).transpose()?;
    Ok(Some(Examined { format, known: FORMAT, faults, store }))
}

fn look(path: &Path) -> rusqlite::Result<(Connection, Vec<String>)> {
    let connection = connect_without_trace(path, Trust::in_log_of(path))?;
    let faults = {
        let mut check = connection.prepare(&format!("PRAGMA quick_check({FAULTS})"))?;
        let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        lines.into_iter().filter(|line| line != "ok").collect()
    };
    Ok((connection, faults))
}

fn for_reading(location: &Location, connection: Connection) -> Result<SqliteStore, OpenError> {
    let path = location.database();
    let failed = |source| OpenError::Io { action: "look at", path: path.clone(), source };
    let identity = FileIdentity::of(&std::fs::metadata(&path).map_err(failed)?);
    let writer_lock = match location.writer_lock() {
        writer_lock if writer_lock.exists() => WriterLock::prepare(writer_lock),
        _ => WriterLock::of_a_reader(path.clone()),
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
