//! Which table a row belongs to, told from its shape alone: the pages that would say it may be gone.

use std::io;

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};

use super::cells::{Cell, Kind, Shape, Value, values};
use super::pages::Pages;
use crate::Digest;
use crate::sqlite::seal::{SEAL_LENGTH, seal};

/// A row that makes sense by itself.
#[derive(Debug)]
pub(super) enum Row {
    Entry {
        run: i64,
        revision: Revision,
        write_id: Vec<u8>,
        body: String,
        sealed: bool,
    },
    /// An entry whose text is not what was written.
    Spoilt {
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
    /// A part of a document: of no use in itself, but it tells that there was an entry of that revision.
    Trace {
        run: i64,
        revision: Revision,
    },
}

/// The length of a write id.
const WRITE_ID: usize = 16;

/// What a row is, if it is anything we look for.
pub(super) fn row(pages: &Pages, kind: Kind, cell: &Cell<'_>) -> io::Result<Option<Row>> {
    let Some(shapes) = cell.shapes() else { return Ok(None) };
    let read = match (kind, shapes.as_slice()) {
        (
            Kind::Table,
            [Shape::Null, run, revision, Shape::Blob(WRITE_ID), Shape::Text(_)]
            | [Shape::Null, run, revision, Shape::Blob(WRITE_ID), Shape::Text(_), Shape::Null]
            | [Shape::Null, run, revision, Shape::Blob(WRITE_ID), Shape::Text(_), Shape::Blob(SEAL_LENGTH)],
        ) if run.is_integer() && revision.is_integer() => entry,
        (
            Kind::Table,
            [Shape::Null, Shape::Text(_), Shape::Text(_), created, revision, token, Shape::Text(_)],
        ) if created.is_integer() && revision.is_integer() && token.is_integer() => run,
        (Kind::Table, [Shape::Text(64), Shape::Blob(_)]) => blob,
        (Kind::Table, [run, Shape::Text(_), revision, Shape::Text(_)])
            if run.is_integer() && revision.is_integer() =>
        {
            trace
        }
        (Kind::Index, [Shape::Text(_), epoch]) if epoch.is_integer() => epoch_of,
        _ => return Ok(None),
    };
    let Some(row) = cell.gather(pages)? else { return Ok(None) };
    Ok(values(&shapes, &row).and_then(|values| read(&values)))
}

fn entry(values: &[Value<'_>]) -> Option<Row> {
    let [_, Value::Integer(run), Value::Integer(revision), Value::Blob(write_id), Value::Text(body), ..] =
        *values
    else {
        return None;
    };
    let revision = Revision(u64::try_from(revision).ok().filter(|&revision| revision > 0)?);
    let spoilt = Some(Row::Spoilt { run, revision });
    let Ok(body) = std::str::from_utf8(body) else { return spoilt };
    let sealed = match values.get(5) {
        Some(Value::Blob(found)) if *found == seal(run, revision, write_id, body) => true,
        // From before there were seals: the column is missing, or empty if the row was written again since.
        Some(Value::Null) | None => false,
        Some(_) => return spoilt,
    };
    Some(Row::Entry { run, revision, write_id: write_id.to_vec(), body: body.to_owned(), sealed })
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

fn trace(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Integer(run), Value::Text(_), Value::Integer(revision), Value::Text(body)] = *values else {
        return None;
    };
    // Its numbers are believed only if the rest looks like a part.
    let plausible = std::str::from_utf8(body).is_ok_and(|body| body.starts_with(['{', '[', 'n']));
    let revision = Revision(u64::try_from(revision).ok().filter(|_| plausible)?);
    Some(Row::Trace { run, revision })
}

/// A blob whose bytes changed is no blob of that name.
fn blob(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Text(digest), Value::Blob(body)] = *values else { return None };
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    (Digest::of(body) == digest).then(|| Row::Blob { digest, body: body.to_vec() })
}

/// Rows of the index over names have the same shape. To take their number for an epoch does no harm: an epoch may be
/// too high, never too low.
fn epoch_of(values: &[Value<'_>]) -> Option<Row> {
    let [Value::Text(run), Value::Integer(epoch)] = *values else { return None };
    let run = RunId::new(std::str::from_utf8(run).ok()?).ok()?;
    Some(Row::Epoch { run, epoch: Epoch(u64::try_from(epoch).ok()?) })
}
