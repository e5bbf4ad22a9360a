//! The format of the database, as the ordered list of steps that lead to it.
//!
//! A step that was released is never edited: a new format is a new step at the end. `user_version` holds how many
//! steps a database has had.
//!
//! Tables with bodies are ordinary rowid tables: long rows would make the inner pages of a `WITHOUT ROWID` table
//! sparse. ExternalWrite keys go to `runs.id`, a number, so that the keys of the other tables stay short.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Marks the file as ours, for `file(1)` and against a foreign database under our name: "Call".
pub(crate) const APPLICATION_ID: i64 = 0x4361_6c6c;

/// The format this program writes.
pub(crate) const FORMAT: i64 = STEPS.len() as i64;

const STEPS: &[&str] = &[
    // 1: the first release
    "
    CREATE TABLE runs (
        id       INTEGER PRIMARY KEY,
        name     TEXT    NOT NULL UNIQUE,
        protocol TEXT    NOT NULL,
        created  INTEGER NOT NULL,            -- microseconds since 1970
        revision INTEGER NOT NULL,            -- of the newest entry
        token    INTEGER NOT NULL,            -- of the newest entry
        summary  TEXT    NOT NULL
    ) STRICT;

    -- The token counts the entries of all runs: what a writer must have read, and never the revision.
    -- A write id has no index: whoever asks for one asks about the last few entries.
    CREATE TABLE entries (
        token    INTEGER PRIMARY KEY,
        run      INTEGER NOT NULL REFERENCES runs (id),
        revision INTEGER NOT NULL,
        write_id BLOB    NOT NULL,
        body     TEXT    NOT NULL,
        UNIQUE (run, revision)
    ) STRICT;

    CREATE TABLE parts (
        run      INTEGER NOT NULL REFERENCES runs (id),
        path     TEXT    NOT NULL,
        revision INTEGER NOT NULL,
        body     TEXT    NOT NULL,
        PRIMARY KEY (run, path, revision)
    ) STRICT;

    CREATE TABLE snapshots (
        run      INTEGER NOT NULL REFERENCES runs (id),
        revision INTEGER NOT NULL,
        body     TEXT    NOT NULL,
        PRIMARY KEY (run, revision)
    ) STRICT;

    CREATE TABLE outbox (
        run      INTEGER NOT NULL REFERENCES runs (id),
        id       TEXT    NOT NULL,
        revision INTEGER NOT NULL,            -- with place: the order of committing
        place    INTEGER NOT NULL,
        body     TEXT    NOT NULL,
        PRIMARY KEY (run, id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE views (
        run      INTEGER NOT NULL REFERENCES runs (id),
        path     TEXT    NOT NULL,
        revision INTEGER NOT NULL,
        digest   TEXT    NOT NULL,
        PRIMARY KEY (run, path)
    ) STRICT, WITHOUT ROWID;

    -- By name, not by id: a run may have an engine before its first commit.
    CREATE TABLE engines (
        run   TEXT    PRIMARY KEY NOT NULL,
        epoch INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE blobs (
        digest TEXT PRIMARY KEY NOT NULL,
        body   BLOB NOT NULL
    ) STRICT;
    ",
    // 2: entries are sealed, so that a changed byte in one is noticed. Entries from before have no seal.
    "
    ALTER TABLE entries ADD COLUMN seal BLOB;
    ",
];

/// What a database says about itself: application id and format.
pub(crate) fn read_format(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok((application, connection.pragma_query_value(None, "user_version", |row| row.get(0))?))
}

/// Brings a database to [`FORMAT`] in one transaction. The caller holds the ticket and has seen that it is not newer.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may have done it meanwhile.
    let (_, format) = read_format(&transaction)?;
    let done = usize::try_from(format).unwrap_or(0);
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    if done < STEPS.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
    }
    transaction.commit()
}
