//! The floor: the least that a step needs, implemented directly in Rust.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rusqlite::Connection;

use crate::figure::median;

/// Opens bare SQLite with the settings of the store: WAL, every commit synced.
pub(crate) fn connect(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         CREATE TABLE IF NOT EXISTS rows (run INTEGER, revision INTEGER, body TEXT, PRIMARY KEY (run, revision));",
    )?;
    Ok(connection)
}

/// Inserts one row in a synced transaction.
pub(crate) fn commit(
    connection: &mut Connection,
    run: usize,
    revision: usize,
    body: &str,
) -> anyhow::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.prepare_cached("INSERT INTO rows VALUES (?1, ?2, ?3)")?.execute((run, revision, body))?;
    Ok(transaction.commit()?)
}

/// Returns as many bytes as one step stores on average.
pub(crate) fn payload(database: &Path, steps: usize) -> anyhow::Result<String> {
    let connection = Connection::open(database)?;
    let sum = |table: &str| {
        let sql = format!("SELECT sum(length(body)) FROM {table}");
        connection.query_row(&sql, [], |row| row.get::<_, Option<usize>>(0)).context("the store has no texts")
    };
    let bytes = sum("entries")?.unwrap_or(0) + sum("parts")?.unwrap_or(0);
    Ok("x".repeat(bytes / steps))
}

/// Measures the floor in rounds, between the other measurements, so that the load of the machine affects both.
pub(crate) struct Floor<'p> {
    program: &'p Path,
    connection: Connection,
    /// What one of the two commits of a step writes: half of the payload.
    half: String,
    written: usize,
    /// The times of our binary doing nothing, of `/bin/true`, and of two commits, one per round.
    our_exec: Vec<Duration>,
    bin_true: Vec<Duration>,
    commits: Vec<Duration>,
}

impl<'p> Floor<'p> {
    pub(crate) fn new(program: &'p Path, database: &Path, payload: &str) -> anyhow::Result<Self> {
        Ok(Self {
            program,
            connection: connect(database)?,
            half: payload[..payload.len() / 2].to_owned(),
            written: 0,
            our_exec: Vec::new(),
            bin_true: Vec::new(),
            commits: Vec::new(),
        })
    }

    pub(crate) fn measure(&mut self, rounds: usize) -> anyhow::Result<()> {
        for _ in 0..rounds {
            // Without its directory `__shim` exits at once, so this times the loading of our binary.
            self.our_exec.push(time_process(Command::new(self.program).arg("__shim"))?);
            self.bin_true.push(time_process(&mut Command::new("/bin/true"))?);
            let begun = Instant::now();
            for _ in 0..2 {
                self.written += 1;
                commit(&mut self.connection, 1, self.written, &self.half)?;
            }
            self.commits.push(begun.elapsed());
        }
        Ok(())
    }

    /// `/bin/true` and two commits.
    pub(crate) fn bare(&self) -> Duration {
        median(self.bin_true.clone()) + median(self.commits.clone())
    }

    /// The bare floor and the binary doing nothing.
    pub(crate) fn with_our_exec(&self) -> Duration {
        median(self.our_exec.clone()) + self.bare()
    }

    /// The parts of the floor, in words.
    pub(crate) fn parts(&self) -> String {
        let [our_exec, bin_true, commits] = [&self.our_exec, &self.bin_true, &self.commits]
            .map(|part| crate::figure::Figure::from(median(part.clone())));
        format!("our exec {our_exec} + true {bin_true} + two commits {commits}")
    }
}

/// Returns the time from the spawn of a process to its end, whatever its exit code.
pub(crate) fn time_process(command: &mut Command) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear().status()?;
    Ok(begun.elapsed())
}
