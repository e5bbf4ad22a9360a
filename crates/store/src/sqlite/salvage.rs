//! What can still be read of a damaged database, row by row, without trusting its structure.
//!
//! SQLite finds rows by walking trees; one bad page near a root hides thousands of good ones. Workspace every image of every
//! page is looked at by itself, in the file and in the log, and a row is taken if it makes sense by itself: its shape is
//! that of one of our tables, its chain of pages is whole, its seal or digest fits. Entries and blobs are never changed
//! or deleted once written, so an old image of a page is as good as a new one.
//!
//! What is found goes to a scratch database, so that memory does not grow with the store. What a run *is*, as far as it
//! could be read, is the runner's to say.

mod cells;
mod log;
mod pages;
mod rows;

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use rusqlite::{Connection, OptionalExtension as _, params};

use self::pages::Pages;
use self::rows::Row;
use crate::Digest;
use crate::commit::WriteId;

/// Why nothing could be salvaged: not because of what is in the file, but because it, or the scratch, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write to the scratch file `{}`", path.display())]
    Scratch { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

/// All that was found in a damaged database.
#[derive(Debug)]
pub struct Salvage {
    scratch: Connection,
    path: PathBuf,
    bad_frames: u64,
}

/// A run of which something was found. What it was called is in its definition; this is what its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRun {
    /// The number by which entries name their run.
    pub number: i64,
    /// The newest entry that was found, though there may be gaps before it.
    pub newest: Revision,
}

/// An entry that was found whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    pub write_id: WriteId,
    pub body: String,
}

const SCRATCH: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE entries (
        run INTEGER, revision INTEGER, write_id BLOB, body TEXT, sealed INTEGER, disputed INTEGER DEFAULT 0,
        PRIMARY KEY (run, revision)
    );
    CREATE TABLE spoilt (run INTEGER, revision INTEGER, PRIMARY KEY (run, revision));
    CREATE TABLE runs (name TEXT PRIMARY KEY, protocol TEXT, created INTEGER, revision INTEGER);
    CREATE TABLE blobs (digest TEXT PRIMARY KEY, body BLOB);
    CREATE TABLE epochs (run TEXT PRIMARY KEY, epoch INTEGER);
    CREATE TABLE traces (run INTEGER PRIMARY KEY, revision INTEGER);
";

impl Salvage {
    /// Reads a database that nobody uses, and its log. The file `scratch` must not exist.
    pub fn read(database: &Path, scratch: &Path) -> Result<Self, SalvageError> {
        let failed = |source| SalvageError::Read { path: database.to_owned(), source };
        let pages = Pages::open(database).map_err(failed)?;
        let failed_scratch = |error: rusqlite::Error| scratch_error(scratch, error);
        let mut connection = Connection::open(scratch).map_err(failed_scratch)?;
        connection.execute_batch(SCRATCH).map_err(failed_scratch)?;
        let transaction = connection.transaction().map_err(failed_scratch)?;
        let mut page = Vec::new();
        for image in pages.images() {
            pages.read(image, &mut page).map_err(failed)?;
            let Some((kind, cells)) = cells::cells(&page, image.header_at()) else { continue };
            for cell in &cells {
                if let Some(row) = rows::row(&pages, kind, cell).map_err(failed)? {
                    note(&transaction, row).map_err(failed_scratch)?;
                }
            }
        }
        transaction.commit().map_err(failed_scratch)?;
        let bad_frames = pages.bad_frames();
        Ok(Self { scratch: connection, path: scratch.to_owned(), bad_frames })
    }

    /// Parts of the log that are rubbish though commits follow them.
    #[must_use]
    pub fn bad_frames(&self) -> u64 {
        self.bad_frames
    }

    /// The runs of which entries were found.
    pub fn runs(&self) -> Result<Vec<FoundRun>, SalvageError> {
        let found = self.scratch.prepare("SELECT run, max(revision) FROM entries GROUP BY run ORDER BY run");
        let found = found.and_then(|mut statement| {
            statement
                .query_map([], |row| Ok(FoundRun { number: row.get(0)?, newest: Revision(row.get(1)?) }))?
                .collect()
        });
        found.map_err(|error| scratch_error(&self.path, error))
    }

    /// Names of runs that a row of the list of runs was found for, and how many entries it promises.
    pub fn listed(&self) -> Result<Vec<(RunId, Revision)>, SalvageError> {
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

    /// One entry, unless two that differ claim its place.
    pub fn entry(&self, run: &FoundRun, revision: Revision) -> Result<Option<FoundEntry>, SalvageError> {
        let found = self.ask(
            "SELECT write_id, body FROM entries WHERE run = ?1 AND revision = ?2 AND NOT disputed",
            params![run.number, revision.0],
            |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)),
        )?;
        Ok(found.and_then(|(id, body)| Some(FoundEntry { write_id: WriteId::from_bytes(&id)?, body })))
    }

    /// Revisions after this one that were found as well, and cannot be used because of the gap before them.
    pub fn beyond(&self, run: &FoundRun, revision: Revision) -> Result<u64, SalvageError> {
        let count = self.ask(
            "SELECT count(*) FROM entries WHERE run = ?1 AND revision > ?2",
            params![run.number, revision.0],
            |row| row.get(0),
        )?;
        Ok(count.unwrap_or(0))
    }

    /// Whether the entry was there, but with bytes that are not what was written.
    pub fn is_spoilt(&self, run: &FoundRun, revision: Revision) -> Result<bool, SalvageError> {
        let found = self.ask(
            "SELECT 1 FROM spoilt WHERE run = ?1 AND revision = ?2",
            params![run.number, revision.0],
            |_| Ok(()),
        )?;
        Ok(found.is_some())
    }

    /// The newest entry that something else of the run was found of, be it lost itself.
    pub fn trace(&self, run: &FoundRun) -> Result<Revision, SalvageError> {
        let trace = self.ask("SELECT revision FROM traces WHERE run = ?1", [run.number], |row| row.get(0));
        Ok(trace?.map_or(Revision(0), Revision))
    }

    pub fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, SalvageError> {
        self.ask("SELECT body FROM blobs WHERE digest = ?1", [digest.as_str()], |row| row.get(0))
    }

    /// When the run was created, if its row was found, and how many entries that row promises.
    pub fn row_of(&self, run: &RunId) -> Result<Option<(Timestamp, Revision)>, SalvageError> {
        let row = self.ask("SELECT created, revision FROM runs WHERE name = ?1", [run.as_str()], |row| {
            Ok((row.get(0)?, Revision(row.get(1)?)))
        })?;
        Ok(row.and_then(|(created, revision)| Some((Timestamp::from_microsecond(created).ok()?, revision))))
    }

    /// The highest epoch found for the run.
    pub fn epoch(&self, run: &RunId) -> Result<Epoch, SalvageError> {
        let epoch = self.ask("SELECT epoch FROM epochs WHERE run = ?1", [run.as_str()], |row| row.get(0));
        Ok(epoch?.map_or(Epoch(0), Epoch))
    }

    fn ask<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, SalvageError> {
        let answer = self.scratch.prepare_cached(sql).and_then(|mut s| s.query_one(params, read).optional());
        answer.map_err(|error| scratch_error(&self.path, error))
    }
}

/// Parts of a database's log that are rubbish though commits follow them.
pub(super) fn bad_frames(database: &Path) -> io::Result<u64> {
    Pages::open(database).map(|pages| pages.bad_frames())
}

fn scratch_error(path: &Path, error: rusqlite::Error) -> SalvageError {
    SalvageError::Scratch { path: path.to_owned(), source: error.into() }
}

/// Keeps a row. Of two entries that claim one place a sealed one wins; two without a seal that differ are disputed, and
/// neither is believed.
fn note(scratch: &Connection, row: Row) -> rusqlite::Result<()> {
    match row {
        Row::Entry { run, revision, write_id, body, sealed } => scratch
            .prepare_cached(
                "INSERT INTO entries (run, revision, write_id, body, sealed) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET
                    disputed = CASE WHEN sealed > excluded.sealed THEN disputed
                                    WHEN sealed < excluded.sealed THEN 0
                                    ELSE disputed OR body <> excluded.body END,
                    write_id = CASE WHEN sealed < excluded.sealed THEN excluded.write_id ELSE write_id END,
                    body = CASE WHEN sealed < excluded.sealed THEN excluded.body ELSE body END,
                    sealed = max(sealed, excluded.sealed)",
            )?
            .execute(params![run, revision.0, write_id, body, sealed])?,
        Row::Spoilt { run, revision } => scratch
            .prepare_cached("INSERT OR IGNORE INTO spoilt (run, revision) VALUES (?1, ?2)")?
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
        Row::Trace { run, revision } => scratch
            .prepare_cached(
                "INSERT INTO traces (run, revision) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET revision = max(revision, excluded.revision)",
            )?
            .execute(params![run, revision.0])?,
    };
    Ok(())
}
