//! `SqliteStore::inspect` changes no file and waits for no lock.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use protocol::RunId;
use rusqlite::Connection;
use store::{Commit, Location, OpenError, Position, SqliteStore, Store as _};
use tempfile::TempDir;
use testkit::harness::entry_commit;

struct TestStore {
    _directory: TempDir,
    location: Location,
}

impl TestStore {
    fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The store is opened by a URI, in which these characters have a meaning.
        let location = Location::find(directory.path(), Some("a #store?%20".into())).unwrap();
        Self { _directory: directory, location }
    }

    async fn used() -> Self {
        let test = Self::fresh();
        test.open().commit(first_commit()).await.unwrap();
        test
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.location).unwrap()
    }

    /// Reads every file.
    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = fs::read_dir(self.location.root()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

/// A commit that fills several pages of the database.
fn first_commit() -> Commit {
    let run = RunId::new("run").unwrap();
    Commit { summary: "x".repeat(20_000), ..entry_commit(&run, Position::absent(), "{}") }
}

#[tokio::test]
async fn a_closed_store_is_read_and_not_changed() {
    let test = TestStore::used().await;
    let before = test.bytes();
    let examined = SqliteStore::inspect(&test.location).unwrap().unwrap();
    assert_eq!((examined.problems.len(), examined.format), (0, examined.current_format));
    let store = examined.store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!(test.bytes(), before);
}

#[tokio::test]
async fn a_store_that_was_read_after_its_last_commit_is_not_changed() {
    let test = TestStore::used().await;
    drop(test.open().runs().await.unwrap());
    let index = test.location.root().join("callboard.db-shm");
    let touched = || fs::metadata(&index).unwrap().modified().unwrap();
    let (bytes, at) = (test.bytes(), touched());
    let store = SqliteStore::inspect(&test.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!((test.bytes(), touched()), (bytes, at), "the index of the empty WAL was not rewritten");
}

#[tokio::test]
async fn a_restored_backup_is_read_without_creating_a_lock_file() {
    let test = TestStore::used().await;
    fs::remove_file(test.location.writer_lock()).unwrap();
    let before = test.bytes();
    let store = SqliteStore::inspect(&test.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!(test.bytes(), before);
}

#[tokio::test]
async fn the_last_commit_of_an_open_store_is_visible() {
    let test = TestStore::fresh();
    let writer = test.open();
    writer.commit(first_commit()).await.unwrap();
    let store = SqliteStore::inspect(&test.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_held_writer_lock_is_not_waited_for() {
    let test = TestStore::used().await;
    let writer_lock = fs::File::options().write(true).open(test.location.writer_lock()).unwrap();
    writer_lock.lock().unwrap();
    let store = SqliteStore::inspect(&test.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn no_store_is_created() {
    let test = TestStore::fresh();
    assert!(SqliteStore::inspect(&test.location).unwrap().is_none());
    assert!(!test.location.root().exists());
}

#[tokio::test]
async fn a_damaged_page_is_reported_and_a_damaged_header_is_an_error() {
    let test = TestStore::used().await;
    let file = fs::File::options().write(true).open(test.location.database()).unwrap();
    // The second page: the tables begin there.
    file.write_all_at(&[0xff; 4096], 4096).unwrap();
    let before = test.bytes();
    let found = SqliteStore::inspect(&test.location);
    assert!(
        found.as_ref().is_err()
            || found.as_ref().unwrap().as_ref().is_some_and(|found| !found.problems.is_empty()),
        "{found:?}"
    );
    file.write_all_at(&[0xff; 100], 0).unwrap();
    assert!(matches!(SqliteStore::inspect(&test.location), Err(OpenError::Unreadable { .. })));
    assert_eq!(test.bytes().len(), before.len(), "nothing was added");
}

#[tokio::test]
async fn an_older_format_is_reported_and_not_migrated() {
    let test = TestStore::used().await;
    Connection::open(test.location.database()).unwrap().pragma_update(None, "user_version", 0).unwrap();
    let before = test.bytes();
    let examined = SqliteStore::inspect(&test.location).unwrap().unwrap();
    assert!(examined.format < examined.current_format && examined.store.is_none());
    assert_eq!(test.bytes(), before);
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_not_reported_as_damaged() {
    let test = TestStore::used().await;
    let database = test.location.database();
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    let opened = SqliteStore::open_existing(&test.location).map(drop);
    assert!(matches!(opened, Err(OpenError::Unavailable(_))), "{opened:?}");
    let examined = SqliteStore::inspect(&test.location).map(drop);
    assert!(matches!(examined, Err(OpenError::Unavailable(_))), "{examined:?}");
}
