//! Determines the table of a row from the types of its columns, because the pages that would tell may be lost.

use std::io;

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};

use super::cells::{Cell, PageKind, SerialType, Value, values};
use super::pages::Pages;
use crate::Digest;
use crate::sqlite::sql::checksum::{CHECKSUM_LENGTH, checksum};

/// A row of one of our tables.
#[derive(Debug)]
pub(super) enum Row {
    Entry {
        run: i64,
        revision: Revision,
        write_id: Vec<u8>,
        body: String,
    },
    /// An entry whose checksum does not match.
    CorruptEntry {
        run: i64,
        revision: Revision,
    },
    Run {
        name: RunId,
        protocol: String,
        created: Timestamp,
        revision: Revision,
    },
    Blob {
        digest: Digest,
        body: Vec<u8>,
    },
    Epoch {
        run: RunId,
        epoch: Epoch,
    },
    /// A document part. Only its revision is of use: it proves that there was an entry.
    Part {
        run: i64,
        revision: Revision,
    },
}

const WRITE_ID_LENGTH: usize = 16;

/// Reads a row, or returns `None` if it is of no table that salvage uses.
pub(super) fn row(pages: &Pages, kind: PageKind, cell: &Cell<'_>) -> io::Result<Option<Row>> {
    let Some(serial_types) = cell.serial_types() else { return Ok(None) };
    let read = match (kind, serial_types.as_slice()) {
        (
            PageKind::Table,
            [
                SerialType::Null,
                run,
                revision,
                SerialType::Blob(WRITE_ID_LENGTH),
                SerialType::Text(_),
                SerialType::Blob(CHECKSUM_LENGTH),
            ],
        ) if run.is_integer() && revision.is_integer() => entry,
        (
            PageKind::Table,
            [
                SerialType::Null,
                SerialType::Text(_),
                SerialType::Text(_),
                created,
                revision,
                token,
                SerialType::Text(_),
            ],
        ) if created.is_integer() && revision.is_integer() && token.is_integer() => run,
        (PageKind::Table, [SerialType::Text(64), SerialType::Blob(_)]) => blob,
        (PageKind::Table, [run, SerialType::Text(_), revision, SerialType::Text(_)])
            if run.is_integer() && revision.is_integer() =>
        {
            part
        }
        (PageKind::Index, [SerialType::Text(_), epoch]) if epoch.is_integer() => engine_epoch,
        _ => return Ok(None),
    };
    let Some(row) = cell.assemble(pages)? else { return Ok(None) };
    Ok(values(&serial_types, &row).and_then(|values| read(&values)))
}

fn entry(values: &[Value<'_>]) -> Option<Row> {
    let [
        _,
        Value::Integer(run),
        Value::Integer(revision),
        Value::Blob(write_id),
        Value::Text(body),
        Value::Blob(found),
    ] = *values
    else {
        return None;
    };
    let revision = Revision(u64::try_from(revision).ok().filter(|&revision| revision > 0)?);
    match std::str::from_utf8(body) {
        Ok(body) if found == checksum(run, revision, write_id, body) => {
            Some(Row::Entry { run, revision, write_id: write_id.to_vec(), body: body.to_owned() })
        }
        Ok(_) | Err(_) => Some(Row::CorruptEntry { run, revision }),
    }
}

fn run(values: &[Value<'_>]) -> Option<Row> {
    let [_, Value::Text(name), Value::Text(protocol), Value::Integer(created), Value::Integer(revision), ..] =
        *values
    else {
        return None;
    };
    Some(Row::Run {
        name: RunId::new(std::str::from_utf8(name).ok()?).ok()?,
        protocol: std::str::from_utf8(protocol).ok()?.to_owned(),
        created: Timestamp::from_microsecond(created).ok()?,
        revision: Revision(u64::try_from(revision).ok()?),
    })
}

fn part(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Integer(run), Value::Text(_), Value::Integer(revision), Value::Text(body)] = *values else {
        return None;
    };
    // The column types alone prove little, so the body must look like JSON, too.
    let plausible = std::str::from_utf8(body).is_ok_and(|body| body.starts_with(['{', '[', 'n']));
    let revision = Revision(u64::try_from(revision).ok().filter(|_| plausible)?);
    Some(Row::Part { run, revision })
}

/// Rejects a blob whose bytes do not match its digest.
fn blob(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Text(digest), Value::Blob(body)] = *values else { return None };
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    (Digest::of(body) == digest).then(|| Row::Blob { digest, body: body.to_vec() })
}

/// Rows of the index over run names have the same column types. Taking their number for an epoch is harmless: an epoch
/// may be too high, never too low.
fn engine_epoch(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Text(run), Value::Integer(epoch)] = *values else { return None };
    let run = RunId::new(std::str::from_utf8(run).ok()?).ok()?;
    Some(Row::Epoch { run, epoch: Epoch(u64::try_from(epoch).ok()?) })
}
