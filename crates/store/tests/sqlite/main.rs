//! The embedded backend: the contract suite, and what only concerns SQLite.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../contract/mod.rs"]
mod contract;
mod files;
mod formats;
mod inspect;
mod location;
mod query_plans;
mod salvage;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use contract::child_tasks::{ChildProcess, WATCH_TIMEOUT};
use contract::{Backend, entry_commit, part, run};
use protocol::Revision;
use rusqlite::Connection;
use store::{COMMIT_LIMIT, Commit, Location, Position, SqliteStore, Store as _};

/// A store in a directory of its own.
struct Sqlite {
    directory: tempfile::TempDir,
}

impl Sqlite {
    fn location(&self) -> Location {
        Location::find(self.directory.path(), Some("store".into())).unwrap()
    }
}

impl Backend for Sqlite {
    type Store = SqliteStore;
    const LIMIT: usize = COMMIT_LIMIT;

    fn fresh() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn address(&self) -> OsString {
        self.directory.path().join("store").into()
    }

    fn attach(address: &OsStr) -> SqliteStore {
        SqliteStore::open(&Location::find(Path::new("/"), Some(address.into())).unwrap()).unwrap()
    }

    fn verify(&self) {
        let connection = Connection::open(self.location().database()).unwrap();
        let answer: String =
            connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
        assert_eq!(answer, "ok");
        let orphans = connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
        assert!(!orphans);
    }
}

contract_suite!(Sqlite);

/// The commit bypasses the writer lock, so only the end of the process that has the lock file open can wake the watcher.
#[tokio::test]
async fn a_killed_writer_wakes_watchers() {
    let backend = Sqlite::fresh();
    let (store, run) = (backend.store(), run("woken"));
    store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();

    let mut writer = Command::new("sh")
        .args(["-c", "exec 9>>\"$0\"; echo ready; read forever"])
        .arg(backend.location().writer_lock())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();

    let waiting = tokio::spawn(async move { watch.next().await });
    for _ in 0..20 {
        store.load(&run).await.unwrap(); // queues behind the watcher's read, so that it waits for events by now
    }
    let bypassing = Connection::open(backend.location().database()).unwrap();
    bypassing
        .execute(
            "INSERT INTO entries (run, revision, write_id, body, checksum) VALUES (1, 2, x'00', '2', x'00')",
            [],
        )
        .unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    let entries =
        tokio::time::timeout(WATCH_TIMEOUT, waiting).await.expect("the watcher is woken").unwrap().unwrap();
    assert_eq!(entries[0].revision, Revision(2));
}

#[tokio::test]
async fn a_reader_does_not_wait_for_the_writer_lock() {
    let backend = Sqlite::fresh();
    let (store, run) = (backend.store(), run("read"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();

    let writer_lock = std::fs::File::options().append(true).open(backend.location().writer_lock()).unwrap();
    writer_lock.lock().unwrap();
    let mut writing = tokio::spawn({
        let (store, run) = (store.clone(), run.clone());
        async move { store.commit(entry_commit(&run, first, "2")).await }
    });
    for _ in 0..10 {
        let position = tokio::select! { biased;
            _ = &mut writing => panic!("a writer ignored the writer lock"),
            loaded = store.load(&run) => loaded.unwrap().unwrap().position,
        };
        assert_eq!(position, first);
    }
    drop(writer_lock);
    assert_eq!(writing.await.unwrap().unwrap().revision, Revision(2));
}

/// A limit on file size makes the write to the WAL fail during `COMMIT`, as a full disk would.
#[tokio::test]
async fn a_commit_that_fails_on_disk_has_an_unknown_outcome_that_resolves() {
    let backend = Sqlite::fresh();
    let (store, run) = (backend.store(), run("full"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 500; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap());
    let lines = ChildProcess::start_with(limited, &backend, "commit", &run, 1_000_000).succeed();
    assert_eq!(lines, ["unknown, resolved as None"]);
    // Nothing of it is left, and the next writer succeeds.
    assert_eq!(store.load(&run).await.unwrap().unwrap().position, first);
    let lines = ChildProcess::start(&backend, "commit", &run, 1_000_000).succeed();
    assert_eq!(lines, ["landed at 2"]);
    backend.verify();
}

#[tokio::test]
async fn a_part_that_is_twice_in_a_commit_has_its_last_body() {
    let backend = Sqlite::fresh();
    let (store, run) = (backend.store(), run("twice"));
    let parts = vec![part("a", "first"), part("a", "last")];
    store.commit(Commit { parts, ..entry_commit(&run, Position::absent(), "") }).await.unwrap();
    assert_eq!(store.parts_at(&run, Revision(1)).await.unwrap(), [part("a", "last")]);
}
