//! Checks the whole database and changes nothing.

use std::fmt;

use protocol::Revision;
use rusqlite::Connection;

use super::exclusive::ExclusiveAccess;
use super::salvage;
use crate::Digest;
use crate::sqlite::connection::OpenError;
use crate::sqlite::connection::{FileState, connect_without_changing_database};
use crate::sqlite::sql::checksum::checksum;
use crate::sqlite::sql::schema::{self, APPLICATION_ID, FORMAT};

/// Something that is wrong with the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    Missing,
    Empty,
    /// SQLite does not recognise it, or cannot read it to the end.
    Unreadable(String),
    /// The first lines of SQLite's integrity check.
    Structure(Vec<String>),
    /// Frames of the write-ahead log are unreadable; SQLite would silently drop what was committed after them.
    Wal {
        bad_frames: u64,
    },
    /// The checksum of an entry does not match.
    Entry {
        run: String,
        revision: Revision,
    },
    /// Entries of a run are missing.
    Journal {
        run: String,
    },
    Blob {
        digest: String,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the database is missing, but other files of its store are there"),
            Self::Empty => f.write_str("the database is empty"),
            Self::Unreadable(why) => write!(f, "the database cannot be read: {why}"),
            Self::Structure(lines) => write!(f, "SQLite finds: {}", lines.join("; ")),
            Self::Wal { bad_frames } => {
                write!(f, "{bad_frames} pages of its log cannot be read; commits after them would be lost")
            }
            Self::Entry { run, revision } => {
                write!(f, "entry {revision} of run `{run}` is not what was written")
            }
            Self::Journal { run } => write!(f, "run `{run}` does not have all its entries"),
            Self::Blob { digest } => write!(f, "blob `{digest}` is not what was written"),
        }
    }
}

/// How many lines of SQLite's check are reported.
const MAX_LINES: u32 = 5;

/// Returns everything that is wrong with the database. Fails if it belongs to another program or a newer version, which
/// this program must not recover.
pub fn find_damage(exclusive: &ExclusiveAccess) -> Result<Vec<Damage>, OpenError> {
    let path = exclusive.location().database();
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![Damage::Missing]),
        Err(source) => return Err(OpenError::Io { action: "look at", path, source }),
        Ok(metadata) if metadata.len() == 0 => return Ok(vec![Damage::Empty]),
        Ok(_) => {}
    }
    let mut damage = Vec::new();
    let bad_frames = salvage::bad_frames(&path);
    let bad_frames =
        bad_frames.map_err(|source| OpenError::Io { action: "read", path: path.clone(), source })?;
    if bad_frames > 0 {
        damage.push(Damage::Wal { bad_frames });
    }
    let connected = connect_without_changing_database(&path, FileState::of(&path)).and_then(|connection| {
        let found = schema::read_format(&connection)?;
        Ok((connection, found))
    });
    let (connection, application, format) = match connected {
        Ok((connection, (application, format))) => (connection, application, format),
        Err(error) => {
            damage.push(Damage::Unreadable(error.to_string()));
            return Ok(damage);
        }
    };
    let has_entries = connection.table_exists(None, "entries").unwrap_or(true);
    if application != APPLICATION_ID && !has_entries {
        return Err(OpenError::OtherProgram { path });
    }
    if application == APPLICATION_ID && format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    if application != APPLICATION_ID {
        damage.push(Damage::Unreadable("its application id is not callboard's".to_owned()));
    }
    if let Err(error) = check(&connection, &mut damage) {
        damage.push(Damage::Unreadable(error.to_string()));
    }
    Ok(damage)
}

fn check(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({MAX_LINES})"))?;
    let mut lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if connection.prepare("PRAGMA foreign_key_check")?.exists([])? {
        lines.push("rows that belong to no run".to_owned());
    }
    lines.retain(|line| line != "ok");
    if !lines.is_empty() {
        damage.push(Damage::Structure(lines));
    }
    check_entries(connection, damage)?;
    check_blobs(connection, damage)
}

fn check_entries(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
    let mut all = connection.prepare(
        "SELECT entries.run, runs.name, entries.revision, write_id, body, checksum FROM entries
         JOIN runs ON runs.id = entries.run",
    )?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let (run, name, revision): (i64, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (write_id, body, found): (Vec<u8>, Vec<u8>, Vec<u8>) =
            (row.get(3)?, row.get_ref(4)?.as_bytes()?.to_vec(), row.get(5)?);
        let revision = Revision(revision);
        let matches =
            std::str::from_utf8(&body).is_ok_and(|body| found == checksum(run, revision, &write_id, body));
        if !matches {
            damage.push(Damage::Entry { run: name, revision });
        }
    }
    let mut incomplete = connection.prepare(
        "SELECT name FROM runs WHERE revision IS NOT (SELECT max(revision) FROM entries WHERE run = runs.id)
         OR revision IS NOT (SELECT count(*) FROM entries WHERE run = runs.id)",
    )?;
    for run in incomplete.query_map([], |row| row.get(0))? {
        damage.push(Damage::Journal { run: run? });
    }
    Ok(())
}

fn check_blobs(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
    let mut all = connection.prepare("SELECT digest, body FROM blobs")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let digest: String = row.get(0)?;
        if Digest::of(row.get_ref(1)?.as_bytes()?).as_str() != digest {
            damage.push(Damage::Blob { digest });
        }
    }
    Ok(())
}
