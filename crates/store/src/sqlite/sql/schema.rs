//! The schema of the database, as an ordered list of migrations.
//!
//! A released migration is never edited: a new format is a new migration at the end. `user_version` holds the number
//! of migrations that a database has had.
//!
//! Tables with long bodies are ordinary rowid tables: long rows make the inner pages of a `WITHOUT ROWID` table sparse.
//! The bodies of `outbox` are short. Foreign keys refer to the number `runs.id`, which keeps the keys of the other tables short.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// Identifies the file as ours, for `file(1)` and against another program's database under our name: "Call".
pub(crate) const APPLICATION_ID: i64 = 0x4361_6c6c;

/// The format this program writes.
pub(crate) const FORMAT: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: &[&str] = &[
    // 1
    "
    -- The id of a removed run is not used again: salvage may find old entries of it.
    CREATE TABLE runs (
        id       INTEGER PRIMARY KEY AUTOINCREMENT,
        name     TEXT    NOT NULL UNIQUE,
        protocol TEXT    NOT NULL,
        created  INTEGER NOT NULL,            -- microseconds since 1970
        revision INTEGER NOT NULL,            -- of the newest entry
        token    INTEGER NOT NULL,            -- of the newest entry
        summary  TEXT    NOT NULL
    ) STRICT;

    -- The token numbers the entries of all runs. Writers compare it, never the revision.
    -- There is no index on write_id: it is only looked up among the last few entries of a run.
    CREATE TABLE entries (
        token    INTEGER PRIMARY KEY,
        run      INTEGER NOT NULL REFERENCES runs (id),
        revision INTEGER NOT NULL,
        write_id BLOB    NOT NULL,
        body     TEXT    NOT NULL,
        checksum BLOB    NOT NULL,
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
        revision INTEGER NOT NULL,            -- with position: the order of commits
        position INTEGER NOT NULL,            -- within the commit
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
];

/// Returns the application id and the format of a database.
pub(crate) fn read_format(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let application = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok((application, connection.pragma_query_value(None, "user_version", |row| row.get(0))?))
}

/// Brings a database to [`FORMAT`] in one transaction. The caller holds the writer lock and has checked that the
/// database is not newer.
pub(crate) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Read again inside the transaction: another process may have migrated it meanwhile.
    let (_, format) = read_format(&transaction)?;
    let done = usize::try_from(format).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(done) {
        transaction.execute_batch(migration)?;
    }
    if done < MIGRATIONS.len() {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
    }
    transaction.commit()
}
