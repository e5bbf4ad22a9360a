//! The files of the embedded store: their modes, and what happens when another program changes, removes or replaces them.

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
use testkit::harness::entry_commit;

struct TestStore {
    directory: TempDir,
    location: Location,
}

impl TestStore {
    fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::find(directory.path(), Some("store".into())).unwrap();
        Self { directory, location }
    }

    /// A store that was used and closed.
    async fn used() -> Self {
        let test = Self::fresh();
        test.open().commit(first_commit(&run())).await.unwrap();
        test
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.location).unwrap()
    }

    /// Returns the error of opening. Both ways to open must fail.
    fn open_error(&self) -> OpenError {
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

fn first_commit(run: &RunId) -> Commit {
    entry_commit(run, Position::absent(), "{}")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_has_access() {
    let test = TestStore::fresh();
    let store = test.open();
    store.commit(first_commit(&run())).await.unwrap();
    let _lock = store.lock_engine(&run()).await.unwrap();
    assert_eq!(mode(test.location.root()), 0o700);
    let files = test.files();
    assert!(files.contains(&test.location.root().join("callboard.db-wal")), "{files:?}");
    for path in files {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(mode(&test.location.root().join("engines/run.lock")), 0o600);
}

#[test]
fn open_existing_creates_nothing() {
    let test = TestStore::fresh();
    assert!(SqliteStore::open_existing(&test.location).unwrap().is_none());
    assert!(!test.location.root().exists());
}

#[test]
fn several_processes_may_create_the_store_at_once() {
    let test = TestStore::fresh();
    // What a killed process left is removed.
    fs::create_dir_all(test.location.root()).unwrap();
    fs::write(test.location.root().join("callboard.db.new"), "half a database").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| test.open());
        }
    });
    assert!(SqliteStore::open_existing(&test.location).unwrap().is_some());
    assert!(!test.location.root().join("callboard.db.new").exists());
}

#[tokio::test]
async fn after_the_store_is_removed_every_operation_fails_and_nothing_is_recreated() {
    let test = TestStore::fresh();
    let store = test.open();
    let position = store.commit(first_commit(&run())).await.unwrap();
    let mut watch = store.watch(&run(), Revision(1)).await.unwrap();
    fs::remove_file(test.location.database()).unwrap();
    let before = test.files();

    let assert_gone = |unavailable: &Unavailable| match unavailable {
        Unavailable::Gone { path } => assert_eq!(path, &test.location.database()),
        other => panic!("{other}"),
    };
    let error = store.commit(Commit { expected: position, ..first_commit(&run()) }).await.unwrap_err();
    assert!(
        error.to_string().ends_with("callboard.db` was removed or replaced while it was in use"),
        "{error}"
    );
    let CommitError::Unavailable(unavailable) = error else { panic!("{error}") };
    assert_gone(&unavailable);
    let ReadError::Unavailable(unavailable) = store.load(&run()).await.unwrap_err() else { panic!() };
    assert_gone(&unavailable);
    let ReadError::Unavailable(unavailable) = watch.next().await.unwrap_err() else { panic!() };
    assert_gone(&unavailable);
    store.put_blobs(vec![b"blob".to_vec()]).await.unwrap_err();
    store.lock_engine(&run()).await.unwrap_err();
    store.watch(&run(), Revision(0)).await.unwrap_err();
    assert_eq!(test.files(), before);
}

#[tokio::test]
async fn a_replaced_store_is_not_written_to() {
    let (test, other) = (TestStore::fresh(), TestStore::used().await);
    let store = test.open();
    let replacement = fs::read(other.location.database()).unwrap();
    fs::rename(other.location.database(), test.location.database()).unwrap();
    let error = store.commit(first_commit(&run())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Gone { .. })), "{error}");
    drop(store);
    assert!(fs::read(test.location.database()).unwrap() == replacement);
}

#[tokio::test]
async fn a_waiting_watcher_is_woken_when_its_store_is_deleted() {
    let test = TestStore::fresh();
    let store = test.open();
    let mut watch = store.watch(&run(), Revision(0)).await.unwrap();
    let waiting = tokio::spawn(async move { watch.next().await });
    // The loads queue behind the first read of the watcher. After them it waits for events.
    for _ in 0..20 {
        store.load(&run()).await.unwrap();
    }
    fs::remove_dir_all(test.location.root()).unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("the watcher is woken");
    let error = woken.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::Gone { .. })), "{error}");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused_and_not_changed() {
    let test = TestStore::used().await;
    let garbage = "this is not a database\n".repeat(1000);
    fs::write(test.location.database(), &garbage).unwrap();
    let error = test.open_error();
    assert!(matches!(error, OpenError::Unreadable { .. }), "{error}");
    assert!(error.to_string().ends_with("callboard.db` cannot be read as a database"), "{error}");
    assert!(fs::read_to_string(test.location.database()).unwrap() == garbage);
}

#[tokio::test]
async fn a_truncated_database_is_refused_and_not_changed() {
    let test = TestStore::used().await;
    let whole = fs::read(test.location.database()).unwrap();
    for length in [whole.len() / 2, 4096, 100, 16] {
        fs::write(test.location.database(), &whole[..length]).unwrap();
        let error = test.open_error();
        assert!(matches!(error, OpenError::Unreadable { .. }), "{length}: {error}");
        assert!(fs::read(test.location.database()).unwrap() == whole[..length]);
    }
    fs::write(test.location.database(), "").unwrap();
    assert!(matches!(test.open_error(), OpenError::Empty { .. }));
    fs::write(test.location.database(), whole).unwrap();
    assert_eq!(test.open().runs().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_database_is_not_replaced_by_an_empty_one() {
    let test = TestStore::used().await;
    fs::remove_file(test.location.database()).unwrap();
    let error = test.open_error();
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(!test.location.database().exists());
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let test = TestStore::used().await;
    let other = Connection::open(test.location.database()).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    let error = test.open_error();
    assert!(matches!(error, OpenError::Newer { found: 99, known: 1, .. }), "{error}");
}

/// A newer program may migrate the database while this one has it open.
#[tokio::test]
async fn after_a_migration_by_a_newer_program_every_operation_fails() {
    let test = TestStore::used().await;
    let store = test.open();
    store.load(&run()).await.unwrap();
    Connection::open(test.location.database()).unwrap().pragma_update(None, "user_version", 3).unwrap();
    let error = store.commit(first_commit(&RunId::new("new").unwrap())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Upgraded { found: 3, .. })), "{error}");
    let error = store.load(&run()).await.unwrap_err();
    assert!(matches!(error, ReadError::Unavailable(Unavailable::Upgraded { found: 3, .. })), "{error}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let test = TestStore::fresh();
    fs::create_dir_all(test.location.root()).unwrap();
    Connection::open(test.location.database()).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    assert!(matches!(test.open_error(), OpenError::OtherProgram { .. }));
}

#[tokio::test]
async fn a_lost_lock_file_is_recreated_when_the_store_is_opened_again() {
    let test = TestStore::used().await;
    let store = test.open();
    fs::remove_file(test.location.writer_lock()).unwrap();
    let error = store.commit(first_commit(&RunId::new("new").unwrap())).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(Unavailable::Gone { .. })), "{error}");
    let store = test.open();
    store.commit(first_commit(&RunId::new("new").unwrap())).await.unwrap();
    assert_eq!(store.runs().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_blob_whose_bytes_have_changed_is_an_error() {
    let test = TestStore::fresh();
    let store = test.open();
    store.put_blobs(vec![b"genuine".to_vec()]).await.unwrap();
    let other = Connection::open(test.location.database()).unwrap();
    other.execute("UPDATE blobs SET body = x'00'", []).unwrap();
    let error = store.blob(&Digest::of("genuine")).await.unwrap_err();
    assert!(matches!(error, ReadError::DamagedBlob { .. }), "{error}");
}

#[test]
fn a_path_with_a_space_and_an_umlaut_works() {
    let test = TestStore::fresh();
    let start = test.directory.path().join("mein Ordner für file:x?mode=ro");
    fs::create_dir(&start).unwrap();
    let location = Location::find(&start, Some("a store".into())).unwrap();
    SqliteStore::open(&location).unwrap();
    assert!(location.database().is_file());
}

#[tokio::test]
async fn the_engine_is_visible_although_a_writer_hangs() {
    let test = TestStore::used().await;
    let store = test.open();
    let lock = store.lock_engine(&run()).await.unwrap();
    let hanging = fs::OpenOptions::new().write(true).open(test.location.writer_lock()).unwrap();
    hanging.lock().unwrap();
    let holder = store.peek_engine_holder(&run()).await.unwrap();
    assert_eq!(holder.map(|holder| holder.pid), Some(std::process::id()));
    drop(hanging);
    drop(lock);
    assert_eq!(store.peek_engine_holder(&run()).await.unwrap(), None);
}

#[tokio::test]
async fn an_engine_can_lock_a_run_of_a_database_that_was_restored_without_the_other_files() {
    let test = TestStore::used().await;
    let (root, database) = (test.location.root(), test.location.database());
    let copy = test.directory.path().join("copy");
    fs::copy(&database, &copy).unwrap();
    fs::remove_dir_all(root).unwrap();
    fs::create_dir(root).unwrap();
    fs::copy(&copy, &database).unwrap();
    let _lock = test.open().lock_engine(&run()).await.unwrap();
    assert_eq!(mode(&root.join("engines")), 0o700);
}
