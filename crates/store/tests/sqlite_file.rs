//! The embedded store as files on a disk: who may read them, and what happens when somebody meddles with them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{Revision, RunId};
use rusqlite::Connection;
use store::{
    Commit, CommitError, Digest, Location, OpenError, Position, ReadError, SqliteStore, Store as _,
    Unavailable,
};
use tempfile::TempDir;
use testkit::harness::change;

struct Place {
    directory: TempDir,
    location: Location,
}

impl Place {
    fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::find(directory.path(), Some("store".into())).unwrap();
        Self { directory, location }
    }

    /// A store that was used and closed.
    async fn used() -> Self {
        let place = Self::fresh();
        place.open().commit(opening(&run())).await.unwrap();
        place
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.location).unwrap()
    }

    /// The error that both ways to open give.
    fn refused(&self) -> OpenError {
        SqliteStore::open_existing(&self.location).unwrap_err();
        SqliteStore::open(&self.location).unwrap_err()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> =
            fs::read_dir(self.location.root()).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn run() -> RunId {
    RunId::new("run").unwrap()
}

fn opening(run: &RunId) -> Commit {
    change(run, Position::absent(), "{}")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_can_look_inside() {
    let place = Place::fresh();
    let store = place.open();
    store.commit(opening(&run())).await.unwrap();
    let _lead = store.lock_engine(&run()).await.unwrap();
    assert_eq!(mode(place.location.root()), 0o700);
    let files = place.files();
    assert!(files.contains(&place.location.root().join("callboard.db-wal")), "{files:?}");
    for path in files {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(mode(&place.location.root().join("engines/run.lock")), 0o600);
}

#[test]
fn whoever_only_looks_creates_nothing() {
    let place = Place::fresh();
    assert!(SqliteStore::open_existing(&place.location).unwrap().is_none());
    assert!(!place.location.root().exists());
}

#[test]
fn many_may_create_the_store_at_once() {
    let place = Place::fresh();
    // What a creator that was killed left behind is no hindrance.
    fs::create_dir_all(place.location.root()).unwrap();
    fs::write(place.location.root().join("callboard.db.new"), "half a database").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| place.open());
        }
    });
    assert!(SqliteStore::open_existing(&place.location).unwrap().is_some());
    assert!(!place.location.root().join("callboard.db.new").exists());
}

#[tokio::test]
async fn a_store_removed_under_us_ends_every_operation_and_is_not_recreated() {
    let place = Place::fresh();
    let store = place.open();
    let position = store.commit(opening(&run())).await.unwrap();
    let mut watch = store.watch(&run(), Revision(1)).await.unwrap();
    fs::remove_file(place.location.database()).unwrap();
    let before = place.files();

    let gone = |unavailable: &Unavailable| match unavailable {
        Unavailable::Gone { path } => assert_eq!(path, &place.location.database()),
        other => panic!("{other}"),
    };
    let error = store.commit(Commit { expected: position, ..opening(&run()) }).await.unwrap_err();
    assert!(
        error.to_string().ends_with("callboard.db` was removed or replaced while it was in use"),
        "{error}"
    );
    let CommitError::Unavailable(unavailable) = error else { panic!("{error}") };
    gone(&unavailable);
    let ReadError::Unavailable(unavailable) = store.load(&run()).await.unwrap_err() else { panic!() };
    gone(&unavailable);
    let ReadError::Unavailable(unavailable) = watch.next().await.unwrap_err() else { panic!() };
    gone(&unavailable);
    store.put_blobs(vec![b"blob".to_vec()]).await.unwrap_err();
    store.lock_engine(&run()).await.unwrap_err();
    store.watch(&run(), Revision(0)).await.unwrap_err();
    assert_eq!(place.files(), before);
}

#[tokio::test]
async fn a_store_replaced_under_us_is_left_alone() {
    let (place, other) = (Place::fresh(), Place::used().await);
    let store = place.open();
    let strangers = fs::read(other.location.database()).unwrap();
    fs::rename(other.location.database(), place.location.database()).unwrap();
    let error = store.commit(opening(&run())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Gone { .. })), "{error}");
    drop(store);
    assert!(fs::read(place.location.database()).unwrap() == strangers);
}

#[tokio::test]
async fn a_waiting_watcher_is_woken_when_its_store_is_deleted() {
    let place = Place::fresh();
    let store = place.open();
    let mut watch = store.watch(&run(), Revision(0)).await.unwrap();
    let waiting = tokio::spawn(async move { watch.next().await });
    for _ in 0..20 {
        store.load(&run()).await.unwrap(); // queues behind the watcher's look, so that it listens by now
    }
    fs::remove_dir_all(place.location.root()).unwrap();
    let news = tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it still waits");
    let error = news.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::Gone { .. })), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_kept() {
    let place = Place::used().await;
    let garbage = "this is not a database\n".repeat(1000);
    fs::write(place.location.database(), &garbage).unwrap();
    let error = place.refused();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
    assert!(error.to_string().ends_with("callboard.db` cannot be read as a database"), "{error}");
    assert!(fs::read_to_string(place.location.database()).unwrap() == garbage);
}

#[tokio::test]
async fn a_truncated_database_is_refused_and_kept() {
    let place = Place::used().await;
    let whole = fs::read(place.location.database()).unwrap();
    for length in [whole.len() / 2, 4096, 100, 16] {
        fs::write(place.location.database(), &whole[..length]).unwrap();
        let error = place.refused();
        assert!(matches!(error, OpenError::Unreadable { .. }), "{length}: {error}");
        assert!(fs::read(place.location.database()).unwrap() == whole[..length]);
    }
    fs::write(place.location.database(), "").unwrap();
    assert!(matches!(place.refused(), OpenError::Empty { .. }));
    fs::write(place.location.database(), whole).unwrap();
    assert_eq!(place.open().runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_database_is_not_replaced_by_an_empty_one() {
    let place = Place::used().await;
    fs::remove_file(place.location.database()).unwrap();
    let error = place.refused();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!place.location.database().exists());
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let place = Place::used().await;
    let other = Connection::open(place.location.database()).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    let error = place.refused();
    assert!(matches!(error, OpenError::Newer { found: 99, known: 2, .. }), "{error}");
}

/// The old writer and the new data: a newer program may come while we have the store open.
#[tokio::test]
async fn an_upgrade_under_us_ends_every_operation() {
    let place = Place::used().await;
    let store = place.open();
    store.load(&run()).await.unwrap();
    Connection::open(place.location.database()).unwrap().pragma_update(None, "user_version", 3).unwrap();
    let error = store.commit(opening(&RunId::new("new").unwrap())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Upgraded { found: 3, .. })), "{error}");
    let error = store.load(&run()).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::Upgraded { found: 3, .. })), "{error}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let place = Place::fresh();
    fs::create_dir_all(place.location.root()).unwrap();
    Connection::open(place.location.database()).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    assert!(matches!(place.refused(), OpenError::ExternalWrite { .. }));
}

#[tokio::test]
async fn a_lost_ticket_is_made_again_for_the_next_who_opens() {
    let place = Place::used().await;
    let store = place.open();
    fs::remove_file(place.location.writer_lock()).unwrap();
    let error = store.commit(opening(&RunId::new("new").unwrap())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Gone { .. })), "{error}");
    let store = place.open();
    store.commit(opening(&RunId::new("new").unwrap())).await.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_blob_whose_bytes_changed_is_not_handed_out() {
    let place = Place::fresh();
    let store = place.open();
    store.put_blobs(vec![b"genuine".to_vec()]).await.unwrap();
    let other = Connection::open(place.location.database()).unwrap();
    other.execute("UPDATE blobs SET body = x'00'", []).unwrap();
    let error = store.blob(&Digest::of("genuine")).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedBlob { .. }), "{error}");
}

#[test]
fn a_path_with_a_space_and_an_umlaut_works() {
    let place = Place::fresh();
    let start = place.directory.path().join("mein Ordner für file:x?mode=ro");
    fs::create_dir(&start).unwrap();
    let location = Location::find(&start, Some("a store".into())).unwrap();
    SqliteStore::open(&location).unwrap();
    assert!(location.database().is_file());
}

#[tokio::test]
async fn a_leader_is_seen_though_a_writer_hangs() {
    let place = Place::used().await;
    let store = place.open();
    let lock = store.lock_engine(&run()).await.unwrap();
    let hanging = fs::OpenOptions::new().write(true).open(place.location.writer_lock()).unwrap();
    hanging.lock().unwrap();
    let seen = store.peek_engine_holder(&run()).await.unwrap();
    assert_eq!(seen.map(|leader| leader.pid), Some(std::process::id()));
    drop(hanging);
    drop(lock);
    assert_eq!(store.peek_engine_holder(&run()).await.unwrap(), None);
}

#[tokio::test]
async fn a_database_that_was_put_back_alone_can_be_led() {
    let place = Place::used().await;
    let (root, database) = (place.location.root(), place.location.database());
    let kept = place.directory.path().join("kept");
    fs::copy(&database, &kept).unwrap();
    fs::remove_dir_all(root).unwrap();
    fs::create_dir(root).unwrap();
    fs::copy(&kept, &database).unwrap();
    let _lead = place.open().lock_engine(&run()).await.unwrap();
    assert_eq!(mode(&root.join("engines")), 0o700);
}
