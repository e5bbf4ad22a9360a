//! Looking at a store leaves no trace and waits for nobody.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use protocol::RunId;
use rusqlite::Connection;
use store::{Commit, Location, OpenError, Position, SqliteStore, Store as _};
use tempfile::TempDir;
use testkit::harness::change;

struct Place {
    _directory: TempDir,
    location: Location,
}

impl Place {
    fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::find(directory.path(), Some("a #store?%20".into())).unwrap();
        Self { _directory: directory, location }
    }

    async fn used() -> Self {
        let place = Self::fresh();
        place.open().commit(opening()).await.unwrap();
        place
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.location).unwrap()
    }

    /// Every file with what is in it.
    fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = fs::read_dir(self.location.root()).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

fn opening() -> Commit {
    let run = RunId::new("run").unwrap();
    Commit { summary: "x".repeat(20_000), ..change(&run, Position::absent(), "{}") }
}

#[tokio::test]
async fn a_store_at_rest_is_read_and_stays_as_it_is() {
    let place = Place::used().await;
    let before = place.bytes();
    let examined = SqliteStore::examine(&place.location).unwrap().unwrap();
    assert_eq!((examined.faults.len(), examined.format), (0, examined.known));
    let store = examined.store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!(place.bytes(), before);
}

#[tokio::test]
async fn a_store_that_others_looked_at_is_at_rest_as_well() {
    let place = Place::used().await;
    drop(place.open().runs().await.unwrap());
    let index = place.location.root().join("callboard.db-shm");
    let touched = || fs::metadata(&index).unwrap().modified().unwrap();
    let (bytes, at) = (place.bytes(), touched());
    let store = SqliteStore::examine(&place.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!((place.bytes(), touched()), (bytes, at), "the index of its empty log was written anew");
}

#[tokio::test]
async fn a_backup_that_nobody_has_written_to_is_read_without_making_it_a_ticket() {
    let place = Place::used().await;
    fs::remove_file(place.location.writer_lock()).unwrap();
    let before = place.bytes();
    let store = SqliteStore::examine(&place.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
    drop(store);
    assert_eq!(place.bytes(), before);
}

#[tokio::test]
async fn what_was_committed_last_is_seen_beside_an_open_store() {
    let place = Place::fresh();
    let writer = place.open();
    writer.commit(opening()).await.unwrap();
    let store = SqliteStore::examine(&place.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_held_ticket_is_not_waited_for() {
    let place = Place::used().await;
    let writer_lock = fs::File::options().write(true).open(place.location.writer_lock()).unwrap();
    writer_lock.lock().unwrap();
    let store = SqliteStore::examine(&place.location).unwrap().unwrap().store.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn where_there_is_no_store_none_is_made() {
    let place = Place::fresh();
    assert!(SqliteStore::examine(&place.location).unwrap().is_none());
    assert!(!place.location.root().exists());
}

#[tokio::test]
async fn a_damaged_page_is_a_fault_and_a_damaged_head_an_error() {
    let place = Place::used().await;
    let file = fs::File::options().write(true).open(place.location.database()).unwrap();
    // Some page behind the first: the tables begin there.
    file.write_all_at(&[0xff; 4096], 4096).unwrap();
    let before = place.bytes();
    let found = SqliteStore::examine(&place.location);
    assert!(
        found.as_ref().is_err()
            || found.as_ref().unwrap().as_ref().is_some_and(|found| !found.faults.is_empty()),
        "{found:?}"
    );
    file.write_all_at(&[0xff; 100], 0).unwrap();
    assert!(matches!(SqliteStore::examine(&place.location), Err(OpenError::Unreadable { .. })));
    assert_eq!(place.bytes().len(), before.len(), "nothing was added");
}

#[tokio::test]
async fn an_older_format_is_told_and_not_upgraded() {
    let place = Place::used().await;
    Connection::open(place.location.database()).unwrap().pragma_update(None, "user_version", 0).unwrap();
    let before = place.bytes();
    let examined = SqliteStore::examine(&place.location).unwrap().unwrap();
    assert!(examined.format < examined.known && examined.store.is_none());
    assert_eq!(place.bytes(), before);
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_not_called_damaged() {
    let place = Place::used().await;
    let database = place.location.database();
    fs::remove_file(&database).unwrap();
    fs::create_dir(&database).unwrap();
    let opened = SqliteStore::open_existing(&place.location).map(drop);
    assert!(matches!(opened, Err(OpenError::Unavailable(_))), "{opened:?}");
    let examined = SqliteStore::examine(&place.location).map(drop);
    assert!(matches!(examined, Err(OpenError::Unavailable(_))), "{examined:?}");
}
