//! The statements that only read.

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use crate::Digest;
use crate::commit::{OutboxItem, Part, Position, Token, ViewMark, WriteId};
use crate::sqlite::sql::checksum::checksum;
use crate::store::{LoadedRun, NewEntries, RunListing, StoredDocument, StoredEntry};

pub(crate) fn load(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<LoadedRun>> {
    let head = tx
        .prepare_cached("SELECT id, protocol, revision, token, summary FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| {
            let position = Position { revision: Revision(row.get(2)?), token: Token(row.get(3)?) };
            Ok((row.get::<_, i64>(0)?, row.get(1)?, position, row.get(4)?))
        })
        .optional()?;
    let Some((id, protocol, position, summary)) = head else { return Ok(None) };
    let snapshot = newest_snapshot(tx, id)?;
    let after = snapshot.as_ref().map_or(Revision(0), |snapshot| snapshot.revision);
    Ok(Some(LoadedRun {
        protocol,
        position,
        epoch: run_epoch(tx, run)?,
        summary,
        snapshot,
        tail: entries(tx, run, after)?,
        outbox: outbox(tx, id)?,
        views: views(tx, id)?,
        // Only a document on NATS can be written by other programs.
        external_write: None,
    }))
}

pub(crate) fn catch_up(
    tx: &Transaction<'_>,
    run: &RunId,
    before: Position,
) -> rusqlite::Result<Option<NewEntries>> {
    let position = tx
        .prepare_cached("SELECT revision, token FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| {
            Ok(Position { revision: Revision(row.get(0)?), token: Token(row.get(1)?) })
        })
        .optional()?;
    let Some(position) = position.filter(|position| position.revision >= before.revision) else {
        return Ok(None);
    };
    Ok(Some(NewEntries { position, entries: entries(tx, run, before.revision)? }))
}

pub(crate) fn protocol(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<String>> {
    tx.prepare_cached("SELECT protocol FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| row.get(0))
        .optional()
}

pub(crate) fn newest_revision(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<Revision>> {
    tx.prepare_cached("SELECT revision FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| row.get(0).map(Revision))
        .optional()
}

pub(crate) fn document(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<StoredDocument>> {
    let head = tx
        .prepare_cached("SELECT id, protocol, revision FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?, Revision(row.get(2)?))))
        .optional()?;
    let Some((id, protocol, revision)) = head else { return Ok(None) };
    Ok(Some(StoredDocument { protocol, revision, parts: newest_parts(tx, id)? }))
}

/// Returns the newest version of each part. Fails if one is not UTF-8. Faster than [`parts_at`]: walking the index backwards,
/// the first row of each path is the newest. The simple statement is also faster to compile.
fn newest_parts(tx: &Transaction<'_>, run: i64) -> rusqlite::Result<Vec<Part>> {
    let mut before = tx.prepare_cached(
        "SELECT path, body FROM parts WHERE run = ?1 AND path < ?2 ORDER BY path DESC, revision DESC LIMIT 1",
    )?;
    let mut parts: Vec<Part> = Vec::new();
    let mut path = char::MAX.to_string();
    let read = |row: &Row<'_>| Ok(Part { path: row.get(0)?, body: row.get(1)? });
    while let Some(part) = before.query_one(params![run, path], read).optional()? {
        path.clone_from(&part.path);
        parts.push(part);
    }
    parts.reverse();
    Ok(parts)
}

fn newest_snapshot(tx: &Transaction<'_>, run: i64) -> rusqlite::Result<Option<StoredEntry>> {
    tx.prepare_cached("SELECT revision, body FROM snapshots WHERE run = ?1 ORDER BY revision DESC LIMIT 1")?
        .query_one([run], stored_entry)
        .optional()
}

pub(crate) fn entry(
    tx: &Transaction<'_>,
    run: &RunId,
    revision: Revision,
) -> rusqlite::Result<Option<StoredEntry>> {
    tx.prepare_cached(
        "SELECT revision, body FROM entries
         WHERE run = (SELECT id FROM runs WHERE name = ?1) AND revision = ?2",
    )?
    .query_one(params![run.as_str(), bound(revision)], stored_entry)
    .optional()
}

pub(crate) fn entries(
    tx: &Transaction<'_>,
    run: &RunId,
    after: Revision,
) -> rusqlite::Result<Vec<StoredEntry>> {
    entries_between(tx, run, after, Revision(u64::MAX))
}

pub(crate) fn entries_between(
    tx: &Transaction<'_>,
    run: &RunId,
    after: Revision,
    last: Revision,
) -> rusqlite::Result<Vec<StoredEntry>> {
    tx.prepare_cached(
        "SELECT revision, body FROM entries
         WHERE run = (SELECT id FROM runs WHERE name = ?1) AND revision > ?2 AND revision <= ?3 ORDER BY revision",
    )?
    .query_map(params![run.as_str(), bound(after), bound(last)], stored_entry)?
    .collect()
}

/// Returns the last revision up to which no entry is missing and every checksum matches.
pub(crate) fn last_intact_revision(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Revision> {
    let mut entries = tx.prepare_cached(
        "SELECT run, revision, write_id, body, checksum FROM entries
         WHERE run = (SELECT id FROM runs WHERE name = ?1) ORDER BY revision",
    )?;
    let mut rows = entries.query([run.as_str()])?;
    let mut last = Revision(0);
    while let Some(row) = rows.next()? {
        let revision = Revision(row.get(1)?);
        let (write_id, found): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(4)?);
        // A body that is not UTF-8 was changed, too.
        let Ok(body) = row.get::<_, String>(3) else { break };
        if revision != last.next() || found != checksum(row.get(0)?, revision, &write_id, &body) {
            break;
        }
        last = revision;
    }
    Ok(last)
}

pub(crate) fn snapshot_at(
    tx: &Transaction<'_>,
    run: &RunId,
    revision: Revision,
) -> rusqlite::Result<Option<StoredEntry>> {
    tx.prepare_cached(
        "SELECT revision, body FROM snapshots
         WHERE run = (SELECT id FROM runs WHERE name = ?1) AND revision <= ?2 ORDER BY revision DESC LIMIT 1",
    )?
    .query_one(params![run.as_str(), bound(revision)], stored_entry)
    .optional()
}

fn outbox(tx: &Transaction<'_>, run: i64) -> rusqlite::Result<Vec<OutboxItem>> {
    tx.prepare_cached("SELECT id, body FROM outbox WHERE run = ?1 ORDER BY revision, position")?
        .query_map([run], |row| Ok(OutboxItem { id: row.get(0)?, body: row.get(1)? }))?
        .collect()
}

fn views(tx: &Transaction<'_>, run: i64) -> rusqlite::Result<Vec<ViewMark>> {
    tx.prepare_cached("SELECT path, revision, digest FROM views WHERE run = ?1 ORDER BY path")?
        .query_map([run], |row| {
            Ok(ViewMark { path: row.get(0)?, revision: Revision(row.get(1)?), digest: parsed(row, 2)? })
        })?
        .collect()
}

/// Returns the epoch of the run's newest engine, 0 if it never had one.
pub(crate) fn run_epoch(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Epoch> {
    let epoch = tx
        .prepare_cached("SELECT epoch FROM engines WHERE run = ?1")?
        .query_one([run.as_str()], |row| row.get(0).map(Epoch))
        .optional()?;
    Ok(epoch.unwrap_or_default())
}

pub(crate) fn resolve_unknown_write(
    tx: &Transaction<'_>,
    run: &RunId,
    write_id: WriteId,
) -> rusqlite::Result<Option<Position>> {
    tx.prepare_cached(
        "SELECT revision, token FROM entries
         WHERE run = (SELECT id FROM runs WHERE name = ?1) AND write_id = ?2 ORDER BY revision DESC LIMIT 1",
    )?
    .query_one(params![run.as_str(), write_id.as_bytes()], |row| {
        Ok(Position { revision: Revision(row.get(0)?), token: Token(row.get(1)?) })
    })
    .optional()
}

/// Returns the parts of the document at a revision. Skips from path to path in the index, so that the other versions of a
/// part are not read.
pub(crate) fn parts_at(tx: &Transaction<'_>, run: &RunId, revision: Revision) -> rusqlite::Result<Vec<Part>> {
    tx.prepare_cached(
        "WITH RECURSIVE
           this (run) AS (SELECT id FROM runs WHERE name = ?1),
           paths (path) AS (
             SELECT min(path) FROM parts WHERE run = (SELECT run FROM this)
             UNION ALL
             SELECT (SELECT min(path) FROM parts WHERE run = (SELECT run FROM this) AND path > paths.path)
             FROM paths WHERE path IS NOT NULL)
         SELECT parts.path, parts.body FROM paths JOIN parts
         ON parts.rowid = (SELECT rowid FROM parts AS version
                           WHERE version.run = (SELECT run FROM this) AND version.path = paths.path
                             AND version.revision <= ?2
                           ORDER BY version.revision DESC LIMIT 1)
         ORDER BY parts.path",
    )?
    .query_map(params![run.as_str(), bound(revision)], |row| {
        Ok(Part { path: row.get(0)?, body: lossy_text(row, 1)? })
    })?
    .collect()
}

pub(crate) fn runs(tx: &Transaction<'_>) -> rusqlite::Result<Vec<RunListing>> {
    tx.prepare_cached("SELECT name, protocol, revision, created, summary FROM runs ORDER BY id")?
        .query_map([], |row| {
            let created = Timestamp::from_microsecond(row.get(3)?)
                .map_err(|error| conversion_error(3, Type::Integer, error))?;
            Ok(RunListing {
                run: parsed(row, 0)?,
                protocol: row.get(1)?,
                revision: Revision(row.get(2)?),
                created,
                summary: row.get(4)?,
            })
        })?
        .collect()
}

/// Returns the runs whose names begin with `beginning`. Names are ASCII, so all of them sort before `beginning` followed by
/// the last Unicode character.
pub(crate) fn runs_with_prefix(
    tx: &Transaction<'_>,
    beginning: &str,
    at_most: usize,
) -> rusqlite::Result<Vec<RunId>> {
    let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
    tx.prepare_cached("SELECT name FROM runs WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3")?
        .query_map(params![beginning, format!("{beginning}{}", char::MAX), at_most], |row| parsed(row, 0))?
        .collect()
}

/// Returns the indices of the blobs that are not stored yet.
pub(crate) fn missing_blobs(tx: &Transaction<'_>, digests: &[Digest]) -> rusqlite::Result<Vec<usize>> {
    let mut known = tx.prepare_cached("SELECT 1 FROM blobs WHERE digest = ?1")?;
    let mut missing = Vec::new();
    for (index, digest) in digests.iter().enumerate() {
        if !known.exists([digest.as_str()])? {
            missing.push(index);
        }
    }
    Ok(missing)
}

pub(crate) fn blob(tx: &Transaction<'_>, digest: &Digest) -> rusqlite::Result<Option<Vec<u8>>> {
    tx.prepare_cached("SELECT body FROM blobs WHERE digest = ?1")?
        .query_one([digest.as_str()], |row| row.get(0))
        .optional()
}

/// Converts a revision for a comparison in SQL. No stored revision exceeds SQLite's largest integer.
fn bound(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

fn stored_entry(row: &Row<'_>) -> rusqlite::Result<StoredEntry> {
    Ok(StoredEntry { revision: Revision(row.get(0)?), body: row.get(1)? })
}

/// Reads a text that may be damaged. One damaged part must not prevent reading the others, so a text that is not UTF-8
/// is returned escaped and marked.
fn lossy_text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) if std::str::from_utf8(bytes).is_err() => {
            Ok(format!("not UTF-8: {}", bytes.escape_ascii()))
        }
        _ => row.get(column),
    }
}

/// Parses a text that this program wrote. A failure means that the database is damaged.
fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: TryFrom<String, Error: std::error::Error + Send + Sync + 'static>,
{
    T::try_from(row.get(column)?).map_err(|error| conversion_error(column, Type::Text, error))
}

fn conversion_error(
    column: usize,
    kind: Type,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, Box::new(error))
}
