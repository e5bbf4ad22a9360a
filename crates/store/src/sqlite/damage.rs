//! Is the database sound? Looks at everything in it, and changes nothing.

use std::fmt;

use protocol::Revision;
use rusqlite::Connection;

use super::closed::Closed;
use super::connection::{Trust, connect_without_trace};
use super::migrations::{self, APPLICATION_ID, FORMAT};
use super::open::OpenError;
use super::salvage;
use super::seal::seal;
use crate::Digest;

/// Something that is wrong with the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Damage {
    Missing,
    Empty,
    /// SQLite does not know it, or gives up reading it.
    Unreadable(String),
    /// What SQLite's own check says, at most a few lines of it.
    Structure(Vec<String>),
    /// Parts of the log cannot be read; SQLite would drop without a word whatever was committed after them.
    Log {
        bad_frames: u64,
    },
    /// An entry does not have the text that was written.
    Entry {
        run: String,
        revision: Revision,
    },
    /// A run does not have all its entries.
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
            Self::Missing => f.write_str("the database is gone, though its store is still there"),
            Self::Empty => f.write_str("the database is empty"),
            Self::Unreadable(why) => write!(f, "the database cannot be read: {why}"),
            Self::Structure(lines) => write!(f, "SQLite finds: {}", lines.join("; ")),
            Self::Log { bad_frames } => {
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

/// How many lines of SQLite's check we ask for.
const LINES: u32 = 5;

/// Looks at everything. An error is a database that is none of ours: it is not for us to recover it.
pub fn find_damage(closed: &Closed) -> Result<Vec<Damage>, OpenError> {
    let path = closed.location().database();
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
        damage.push(Damage::Log { bad_frames });
    }
    let looked = connect_without_trace(&path, Trust::in_log_of(&path)).and_then(|connection| {
        let found = migrations::read_format(&connection)?;
        Ok((connection, found))
    });
    let (connection, application, format) = match looked {
        Ok((connection, (application, format))) => (connection, application, format),
        Err(error) => {
            damage.push(Damage::Unreadable(error.to_string()));
            return Ok(damage);
        }
    };
    let has_entries = connection.table_exists(None, "entries").unwrap_or(true);
    if application != APPLICATION_ID && !has_entries {
        return Err(OpenError::ExternalWrite { path });
    }
    if application == APPLICATION_ID && format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    if application != APPLICATION_ID {
        damage.push(Damage::Unreadable("it does not say that it is ours".to_owned()));
    }
    if let Err(error) = look(&connection, &mut damage) {
        damage.push(Damage::Unreadable(error.to_string()));
    }
    Ok(damage)
}

fn look(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
    let mut check = connection.prepare(&format!("PRAGMA integrity_check({LINES})"))?;
    let mut lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    if connection.prepare("PRAGMA foreign_key_check")?.exists([])? {
        lines.push("rows that belong to no run".to_owned());
    }
    lines.retain(|line| line != "ok");
    if !lines.is_empty() {
        damage.push(Damage::Structure(lines));
    }
    entries(connection, damage)?;
    blobs(connection, damage)
}

fn entries(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
    // A store of the first format, not yet upgraded, has no seals.
    if connection.column_exists(None, "entries", "seal")? {
        let mut all = connection.prepare(
            "SELECT entries.run, runs.name, entries.revision, write_id, body, seal FROM entries
             JOIN runs ON runs.id = entries.run WHERE seal IS NOT NULL",
        )?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (run, name, revision): (i64, String, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (write_id, body, found): (Vec<u8>, Vec<u8>, Vec<u8>) =
                (row.get(3)?, row.get_ref(4)?.as_bytes()?.to_vec(), row.get(5)?);
            let revision = Revision(revision);
            let fits =
                std::str::from_utf8(&body).is_ok_and(|body| found == seal(run, revision, &write_id, body));
            if !fits {
                damage.push(Damage::Entry { run: name, revision });
            }
        }
    }
    let mut short = connection.prepare(
        "SELECT name FROM runs WHERE revision IS NOT (SELECT max(revision) FROM entries WHERE run = runs.id)
         OR revision IS NOT (SELECT count(*) FROM entries WHERE run = runs.id)",
    )?;
    for run in short.query_map([], |row| row.get(0))? {
        damage.push(Damage::Journal { run: run? });
    }
    Ok(())
}

fn blobs(connection: &Connection, damage: &mut Vec<Damage>) -> rusqlite::Result<()> {
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
