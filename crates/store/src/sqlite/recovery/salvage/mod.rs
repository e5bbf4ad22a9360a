//! Reads what can still be read of a damaged database, row by row, without trusting its structure.
//!
//! SQLite finds rows by walking trees, so one bad page near a root hides thousands of good ones. Salvage scans every
//! image of every page instead, in the file and in the write-ahead log (WAL). It accepts a row if its columns have the
//! types of one of our tables, its overflow pages are complete, and its checksum or digest matches. Entries and blobs
//! are never changed once written, so an old image of a page is as good as a new one. A removed run is not found: its entries
//! are overwritten, and the WAL is truncated. If another process reads the WAL at that moment, old images stay in it.
//!
//! The rows go to a scratch database, so that memory does not grow with the store. The runner rebuilds runs from them.
//!
//! * `wal`, `pages`: the images of pages
//! * `cells`: the rows on a page
//! * `rows`: the table to which a row belongs

mod cells;
mod pages;
mod rows;
mod wal;

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use rusqlite::{Connection, OptionalExtension as _, params};

use self::pages::Pages;
use self::rows::Row;
use crate::Digest;
use crate::commit::WriteId;

/// Why salvage failed: the database could not be read, or the scratch file not be written. Damaged content is no error.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write to the scratch file `{}`", path.display())]
    Scratch { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

/// All rows that were found in a damaged database.
#[derive(Debug)]
pub struct Salvage {
    scratch: Connection,
    path: PathBuf,
    bad_frames: u64,
}

/// A run of which entries were found. Its name is in its first entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    /// The number by which entries refer to their run.
    pub number: i64,
    /// The newest entry that was found. There may be gaps before it.
    pub newest: Revision,
}

/// An entry whose checksum matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    pub write_id: WriteId,
    pub body: String,
}

const SCRATCH_SCHEMA: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE entries (
        run INTEGER, revision INTEGER, write_id BLOB, body TEXT, ambiguous INTEGER DEFAULT 0,
        PRIMARY KEY (run, revision)
    );
    CREATE TABLE corrupt (run INTEGER, revision INTEGER, PRIMARY KEY (run, revision));
    CREATE TABLE runs (name TEXT PRIMARY KEY, protocol TEXT, created INTEGER, revision INTEGER);
    CREATE TABLE blobs (digest TEXT PRIMARY KEY, body BLOB);
    CREATE TABLE epochs (run TEXT PRIMARY KEY, epoch INTEGER);
    CREATE TABLE parts (run INTEGER PRIMARY KEY, revision INTEGER);
";

impl Salvage {
    /// Reads a database that no process uses, and its WAL. The file `scratch` must not exist.
    pub fn read(database: &Path, scratch: &Path) -> Result<Self, SalvageError> {
        let failed = |source| SalvageError::Read { path: database.to_owned(), source };
        let pages = Pages::open(database).map_err(failed)?;
        let failed_scratch = |error: rusqlite::Error| scratch_error(scratch, error);
        let mut connection = Connection::open(scratch).map_err(failed_scratch)?;
        connection.execute_batch(SCRATCH_SCHEMA).map_err(failed_scratch)?;
        let transaction = connection.transaction().map_err(failed_scratch)?;
        let mut page = Vec::new();
        for image in pages.images() {
            pages.read(image, &mut page).map_err(failed)?;
            let Some((kind, cells)) = cells::cells(&page, image.header_at()) else { continue };
            for cell in &cells {
                if let Some(row) = rows::row(&pages, kind, cell).map_err(failed)? {
                    insert_row(&transaction, row).map_err(failed_scratch)?;
                }
            }
        }
        transaction.commit().map_err(failed_scratch)?;
        let bad_frames = pages.bad_frames();
        Ok(Self { scratch: connection, path: scratch.to_owned(), bad_frames })
    }

    /// The number of unreadable WAL frames that are followed by a commit.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.bad_frames
    }

    /// Returns the runs of which entries were found.
    pub fn runs(&self) -> Result<Vec<FoundRun>, SalvageError> {
        let found = self.scratch.prepare("SELECT run, max(revision) FROM entries GROUP BY run ORDER BY run");
        let found = found.and_then(|mut statement| {
            statement
                .query_map([], |row| Ok(FoundRun { number: row.get(0)?, newest: Revision(row.get(1)?) }))?
                .collect()
        });
        found.map_err(|error| scratch_error(&self.path, error))
    }

    /// Returns the runs whose row in the table of runs was found, each with its newest revision according to that row.
    pub fn run_rows(&self) -> Result<Vec<(RunId, Revision)>, SalvageError> {
        let listed = self.scratch.prepare("SELECT name, revision FROM runs ORDER BY name");
        let listed = listed.and_then(|mut statement| {
            let rows =
                statement.query_map([], |row| Ok((row.get::<_, String>(0)?, Revision(row.get(1)?))))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        let listed = listed.map_err(|error| scratch_error(&self.path, error))?;
        Ok(listed
            .into_iter()
            .filter_map(|(name, revision)| Some((RunId::new(name).ok()?, revision)))
            .collect())
    }

    /// Returns one entry. `None` if it was not found, or if two that differ were found.
    pub fn entry(&self, run: &FoundRun, revision: Revision) -> Result<Option<FoundEntry>, SalvageError> {
        let found = self.query(
            "SELECT write_id, body FROM entries WHERE run = ?1 AND revision = ?2 AND NOT ambiguous",
            params![run.number, revision.0],
            |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)),
        )?;
        Ok(found.and_then(|(id, body)| Some(FoundEntry { write_id: WriteId::from_bytes(&id)?, body })))
    }

    /// Counts the entries after `revision`, which cannot be used because of the gap before them.
    pub fn count_after(&self, run: &FoundRun, revision: Revision) -> Result<u64, SalvageError> {
        let count = self.query(
            "SELECT count(*) FROM entries WHERE run = ?1 AND revision > ?2",
            params![run.number, revision.0],
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    /// Whether the entry was found with a checksum that does not match.
    pub fn is_corrupt(&self, run: &FoundRun, revision: Revision) -> Result<bool, SalvageError> {
        let found = self.query(
            "SELECT 1 FROM corrupt WHERE run = ?1 AND revision = ?2",
            params![run.number, revision.0],
            |_| Ok(()),
        )?;
        Ok(found.is_some())
    }

    /// Returns the newest revision of which a document part was found, whether or not its entry was found.
    pub fn newest_part(&self, run: &FoundRun) -> Result<Revision, SalvageError> {
        let newest = self.query("SELECT revision FROM parts WHERE run = ?1", [run.number], |row| row.get(0));
        Ok(newest?.map_or(Revision(0), Revision))
    }

    pub fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, SalvageError> {
        self.query("SELECT body FROM blobs WHERE digest = ?1", [digest.as_str()], |row| row.get(0))
    }

    /// Returns when the run was created and its newest revision, if its row in the table of runs was found.
    pub fn run_row(&self, run: &RunId) -> Result<Option<(Timestamp, Revision)>, SalvageError> {
        let row =
            self.query("SELECT created, revision FROM runs WHERE name = ?1", [run.as_str()], |row| {
                Ok((row.get(0)?, Revision(row.get(1)?)))
            })?;
        Ok(row.and_then(|(created, revision)| Some((Timestamp::from_microsecond(created).ok()?, revision))))
    }

    /// Returns the highest epoch found for the run.
    pub fn epoch(&self, run: &RunId) -> Result<Epoch, SalvageError> {
        let epoch = self.query("SELECT epoch FROM epochs WHERE run = ?1", [run.as_str()], |row| row.get(0));
        Ok(epoch?.map_or(Epoch(0), Epoch))
    }

    fn query<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, SalvageError> {
        let answer = self.scratch.prepare_cached(sql).and_then(|mut s| s.query_one(params, read).optional());
        answer.map_err(|error| scratch_error(&self.path, error))
    }
}

/// Counts the unreadable WAL frames of a database that are followed by a commit.
pub(crate) fn bad_frames(database: &Path) -> io::Result<u64> {
    Pages::open(database).map(|pages| pages.bad_frames())
}

fn scratch_error(path: &Path, error: rusqlite::Error) -> SalvageError {
    SalvageError::Scratch { path: path.to_owned(), source: error.into() }
}

/// Adds a row to the scratch database. Two entries of one run and revision that differ are ambiguous: neither is used.
fn insert_row(scratch: &Connection, row: Row) -> rusqlite::Result<()> {
    match row {
        Row::Entry { run, revision, write_id, body } => scratch
            .prepare_cached(
                "INSERT INTO entries (run, revision, write_id, body) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET ambiguous = ambiguous OR body <> excluded.body",
            )?
            .execute(params![run, revision.0, write_id, body])?,
        Row::CorruptEntry { run, revision } => scratch
            .prepare_cached("INSERT OR IGNORE INTO corrupt (run, revision) VALUES (?1, ?2)")?
            .execute(params![run, revision.0])?,
        Row::Run { name, protocol, created, revision } => scratch
            .prepare_cached(
                "INSERT INTO runs (name, protocol, created, revision) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET revision = max(revision, excluded.revision)",
            )?
            .execute(params![name.as_str(), protocol, created.as_microsecond(), revision.0])?,
        Row::Blob { digest, body } => scratch
            .prepare_cached("INSERT OR IGNORE INTO blobs (digest, body) VALUES (?1, ?2)")?
            .execute(params![digest.as_str(), body])?,
        Row::Epoch { run, epoch } => scratch
            .prepare_cached(
                "INSERT INTO epochs (run, epoch) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",
            )?
            .execute(params![run.as_str(), epoch.0])?,
        Row::Part { run, revision } => scratch
            .prepare_cached(
                "INSERT INTO parts (run, revision) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET revision = max(revision, excluded.revision)",
            )?
            .execute(params![run, revision.0])?,
    };
    Ok(())
}
