//! The statements that change the database. Each public function is the work of one transaction.

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::Digest;
use crate::commit::{Commit, Position, Token, ViewMark};
use crate::error::{CommitError, WriteError};
use crate::sqlite::sql::checksum::checksum;
use crate::sqlite::sql::read::run_epoch;

/// The state of a run before a commit.
struct Head {
    id: i64,
    position: Position,
}

pub(crate) fn commit(
    tx: &Transaction<'_>,
    commit: &Commit,
) -> rusqlite::Result<Result<Position, CommitError>> {
    // Fencing is checked first: a replaced engine must stop, whereas a conflict makes it reload.
    if let Some(held) = commit.epoch {
        let newest = run_epoch(tx, &commit.run)?;
        if newest > held {
            return Ok(Err(CommitError::Fenced { held, by: newest }));
        }
    }
    let head = head(tx, &commit.run)?;
    let found = head.as_ref().map_or(Position::absent(), |head| head.position);
    if found.token != commit.expected.token {
        let (run, expected) = (commit.run.clone(), commit.expected.revision);
        return Ok(Err(CommitError::Conflict { run, expected, found: found.revision }));
    }
    let run = match head {
        Some(head) => head.id,
        None => create_run(tx, commit)?,
    };
    let revision = found.revision.next();
    let token = append_entry(tx, run, revision, commit)?;
    tx.prepare_cached("UPDATE runs SET revision = ?2, token = ?3, summary = ?4 WHERE id = ?1")?
        .execute(params![run, revision.0, token.0, commit.summary])?;
    write_parts(tx, run, revision, commit)?;
    write_outbox(tx, run, revision, commit)?;
    write_views(tx, run, &commit.views)?;
    Ok(Ok(Position { revision, token }))
}

fn head(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Option<Head>> {
    tx.prepare_cached("SELECT id, revision, token FROM runs WHERE name = ?1")?
        .query_one([run.as_str()], |row| {
            let position = Position { revision: Revision(row.get(1)?), token: Token(row.get(2)?) };
            Ok(Head { id: row.get(0)?, position })
        })
        .optional()
}

fn create_run(tx: &Transaction<'_>, commit: &Commit) -> rusqlite::Result<i64> {
    let created = Timestamp::now().as_microsecond();
    tx.prepare_cached(
        "INSERT INTO runs (name, protocol, created, revision, token, summary) VALUES (?1, ?2, ?3, 0, 0, '')",
    )?
    .insert(params![commit.run.as_str(), commit.protocol, created])
}

/// Writes the entry, and the snapshot if the commit carries one. Returns the token of the entry.
fn append_entry(
    tx: &Transaction<'_>,
    run: i64,
    revision: Revision,
    commit: &Commit,
) -> rusqlite::Result<Token> {
    if let Some(snapshot) = &commit.snapshot {
        tx.prepare_cached("INSERT INTO snapshots (run, revision, body) VALUES (?1, ?2, ?3)")?
            .execute(params![run, revision.0, snapshot])?;
    }
    let token = tx
        .prepare_cached(
            "INSERT INTO entries (run, revision, write_id, body, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .insert(params![
            run,
            revision.0,
            commit.write_id.as_bytes(),
            commit.entry,
            checksum(run, revision, commit.write_id.as_bytes(), &commit.entry)
        ])?;
    Ok(Token(u64::try_from(token).expect("BUG: SQLite numbers rows from 1")))
}

fn write_parts(tx: &Transaction<'_>, run: i64, revision: Revision, commit: &Commit) -> rusqlite::Result<()> {
    let mut write = tx.prepare_cached(
        "INSERT INTO parts (run, path, revision, body) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET body = excluded.body",
    )?;
    for part in &commit.parts {
        write.execute(params![run, part.path, revision.0, part.body])?;
    }
    Ok(())
}

fn write_outbox(tx: &Transaction<'_>, run: i64, revision: Revision, commit: &Commit) -> rusqlite::Result<()> {
    let mut acknowledge = tx.prepare_cached("DELETE FROM outbox WHERE run = ?1 AND id = ?2")?;
    for id in &commit.acknowledged {
        acknowledge.execute(params![run, id])?;
    }
    let mut add = tx.prepare_cached(
        "REPLACE INTO outbox (run, id, revision, position, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (position, item) in commit.outbox.iter().enumerate() {
        add.execute(params![run, item.id, revision.0, position, item.body])?;
    }
    Ok(())
}

fn write_views(tx: &Transaction<'_>, run: i64, views: &[ViewMark]) -> rusqlite::Result<()> {
    let mut write =
        tx.prepare_cached("REPLACE INTO views (run, path, revision, digest) VALUES (?1, ?2, ?3, ?4)")?;
    for view in views {
        write.execute(params![run, view.path, view.revision.0, view.digest.as_str()])?;
    }
    Ok(())
}

/// Removes a run, but not its epoch: an old engine stays fenced if the name is used again. `held` is the epoch of the
/// caller's lock.
pub(crate) fn remove_run(
    tx: &Transaction<'_>,
    run: &RunId,
    expected: Position,
    held: Epoch,
) -> rusqlite::Result<Result<(), CommitError>> {
    let newest = run_epoch(tx, run)?;
    if newest > held {
        return Ok(Err(CommitError::Fenced { held, by: newest }));
    }
    let head = head(tx, run)?;
    let found = head.as_ref().map_or(Position::absent(), |head| head.position);
    if found.token != expected.token {
        let (run, expected) = (run.clone(), expected.revision);
        return Ok(Err(CommitError::Conflict { run, expected, found: found.revision }));
    }
    let Some(Head { id, .. }) = head else { return Ok(Ok(())) };
    // Salvage reads free pages, too, so deleted rows are overwritten: a removed run must not come back.
    tx.execute_batch("PRAGMA secure_delete = ON")?;
    for table in ["entries", "parts", "snapshots", "outbox", "views"] {
        tx.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [id])?;
    }
    tx.execute("DELETE FROM runs WHERE id = ?1", [id])?;
    Ok(Ok(()))
}

pub(crate) fn record_view_marks(
    tx: &Transaction<'_>,
    run: &RunId,
    views: &[ViewMark],
) -> rusqlite::Result<Result<(), WriteError>> {
    let Some(head) = head(tx, run)? else {
        return Ok(Err(WriteError::NoSuchRun { run: run.clone() }));
    };
    write_views(tx, head.id, views).map(Ok)
}

pub(crate) fn insert_blobs<'a>(
    tx: &Transaction<'_>,
    blobs: impl Iterator<Item = (&'a Digest, &'a Vec<u8>)>,
) -> rusqlite::Result<Result<(), WriteError>> {
    let mut write =
        tx.prepare_cached("INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    for (digest, body) in blobs {
        write.execute(params![digest.as_str(), body])?;
    }
    Ok(Ok(()))
}

/// Increments and returns the epoch of a run.
pub(crate) fn write_next_epoch(tx: &Transaction<'_>, run: &RunId) -> rusqlite::Result<Epoch> {
    tx.prepare_cached(
        "INSERT INTO engines (run, epoch) VALUES (?1, 1)
         ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
    )?
    .query_one([run.as_str()], |row| row.get(0).map(Epoch))
}
