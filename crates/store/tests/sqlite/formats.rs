//! One store of every released format: this program opens, migrates and reads each of them.
//!
//! `scripts/format-fixture` makes the fixture of a new format; see CONTRIBUTING. A released fixture is never changed.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::Revision;
use rusqlite::Connection;
use store::{ExclusiveAccess, Location, SqliteStore, Store as _, find_damage};
use tempfile::TempDir;

/// The fixtures, oldest first: format and file.
fn fixtures() -> Vec<(i64, PathBuf)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            (name.strip_prefix('v').unwrap().parse().unwrap(), path)
        })
        .collect();
    found.sort();
    found
}

/// Restores a fixture as a store on disk.
fn restore(fixture: &Path) -> (TempDir, Location) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("store");
    for name in ["attempts", "engines"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let location = Location::find(directory.path(), Some(root)).unwrap();
    let connection = Connection::open(location.database()).unwrap();
    connection.execute_batch(&fs::read_to_string(fixture).unwrap()).unwrap();
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
    (directory, location)
}

#[test]
fn every_format_has_a_fixture() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::find(directory.path(), Some("store".into())).unwrap();
    drop(SqliteStore::open(&location).unwrap());
    let current = Connection::open(location.database()).unwrap();
    let current: i64 = current.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    let formats: Vec<_> = fixtures().into_iter().map(|(format, _)| format).collect();
    let all: Vec<_> = (1..=current).collect();
    assert_eq!(formats, all, "the format has changed: run `scripts/format-fixture`");
}

#[tokio::test]
async fn every_fixture_is_opened_migrated_and_read() {
    for (format, fixture) in fixtures() {
        let (_directory, location) = restore(&fixture);
        // Checked before the migration, too, because `recover` must not take an older format for damage.
        assert_eq!(
            find_damage(&ExclusiveAccess::acquire(&location).unwrap()).unwrap(),
            [],
            "format {format}"
        );
        let store = SqliteStore::open(&location).unwrap();
        let runs = store.runs().await.unwrap();
        let names: Vec<_> = runs.iter().map(|row| row.run.as_str()).collect();
        assert_eq!(names, ["succeeded", "failed", "interrupted"], "format {format}");
        for row in &runs {
            let loaded = store.load(&row.run).await.unwrap().unwrap();
            let entries = store.entries(&row.run, Revision(0)).await.unwrap();
            assert_eq!(entries.len() as u64, loaded.position.revision.0, "format {format}");
            assert!(!store.parts_at(&row.run, loaded.position.revision).await.unwrap().is_empty());
            store.lock_engine(&row.run).await.unwrap();
        }
        drop(store);
        assert_eq!(
            find_damage(&ExclusiveAccess::acquire(&location).unwrap()).unwrap(),
            [],
            "format {format}, migrated"
        );
    }
}
