//! Looking at a store without leaving a trace: no file is made, nothing is migrated, recovered or tidied up, nobody is
//! waited for. For whoever wants to know how a store is before anything touches it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::connection::{Database, Trust};
use super::migrations::{APPLICATION_ID, FORMAT, read_format};
use super::open::{self, OpenError};
use super::ticket::Ticket;
use super::{SqliteStore, connection};
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
        return Err(OpenError::Foreign { path });
    }
    if format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    let usable = format == FORMAT && location.ticket().exists();
    let store = usable.then(|| for_reading(location, connection)).transpose()?;
    Ok(Some(Examined { format, known: FORMAT, faults, store }))
}

fn look(path: &Path) -> rusqlite::Result<(Connection, Vec<String>)> {
    let connection = connect(path)?;
    let faults = {
        let mut check = connection.prepare(&format!("PRAGMA quick_check({FAULTS})"))?;
        let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        lines.into_iter().filter(|line| line != "ok").collect()
    };
    Ok((connection, faults))
}

/// A database without its log is at rest: read as a file that nobody changes, it needs no other files. Else its log
/// is read as well, through the index that its writers share.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let trust = if Path::new(&log).exists() { Trust::Live } else { Trust::AtRest };
    let connection = connection::connect_without_trace(path, trust)
        .unwrap_or_else(|| Err(rusqlite::Error::InvalidPath(path.to_owned())))?;
    connection.set_prepared_statement_cache_capacity(connection::STATEMENTS);
    Ok(connection)
}

fn for_reading(location: &Location, connection: Connection) -> Result<SqliteStore, OpenError> {
    let path = location.database();
    let failed = |source| OpenError::Io { action: "look at", path: path.clone(), source };
    let identity = FileIdentity::of(&std::fs::metadata(&path).map_err(failed)?);
    let ticket = Ticket::prepare(location.ticket()).map_err(failed)?;
    let (reader, writer) = (Mutex::new(connection), Mutex::new(None));
    Ok(SqliteStore(Arc::new(Database {
        location: location.clone(),
        path: path.clone(),
        identity,
        ticket,
        reader,
        writer,
    })))
}
