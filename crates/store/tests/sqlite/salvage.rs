//! Salvage reads everything from a damaged database that was not damaged, and nothing that was never written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use protocol::{Revision, RunId};
use rusqlite::Connection;
use store::{Commit, Digest, Location, OutboxItem, Part, Position, Salvage, SqliteStore, Store as _};
use tempfile::TempDir;
use testkit::harness::entry_commit;

/// The bodies of entries, by run number and revision.
type EntryBodies = BTreeMap<(i64, u64), String>;

const PAGE: usize = 4096;

struct UsedStore {
    directory: TempDir,
    location: Location,
    written: EntryBodies,
    blobs: Vec<Vec<u8>>,
}

/// Makes a store of several runs, with entries from a few bytes to several pages, part of it still in the WAL.
async fn used_store(random: &mut Rng) -> UsedStore {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::find(directory.path(), Some("store".into())).unwrap();
    let store = SqliteStore::open(&location).unwrap();
    let mut written = EntryBodies::new();
    let mut positions = [Position::absent(); 12];
    let blobs: Vec<Vec<u8>> = (0..6).map(|n| format!("blob {n} ").repeat(1 + 300 * n).into_bytes()).collect();
    store.put_blobs(blobs.clone()).await.unwrap();
    for index in 0..150 {
        let run = random.usize(..positions.len());
        let name = RunId::new(format!("run-{run:02}")).unwrap();
        let length = [20, 400, 3000, 9000, 20_000][random.usize(..5)];
        let body: String = (0..length).map(|_| random.alphanumeric()).collect();
        let entry = format!("{{\"index\":{index},\"body\":\"{body}\"}}");
        let commit = Commit {
            parts: vec![Part { path: "run".to_owned(), body: body[..20].to_owned() }],
            outbox: vec![OutboxItem { id: format!("start {index}"), body: "{}".to_owned() }],
            ..entry_commit(&name, positions[run], &entry)
        };
        positions[run] = store.commit(commit).await.unwrap();
        // Salvage names a run by its number in the database.
        let numbers = Connection::open(location.database()).unwrap();
        let number: i64 = numbers
            .query_row("SELECT id FROM runs WHERE name = ?1", [format!("run-{run:02}")], |row| row.get(0))
            .unwrap();
        written.insert((number, positions[run].revision.0), entry);
    }
    // Copy the files while they are open, so that the WAL is not empty, as after a kill.
    let copy = directory.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["callboard.db", "callboard.db-wal"] {
        fs::copy(location.root().join(name), copy.join(name)).unwrap();
    }
    drop(store);
    let location = Location::find(directory.path(), Some("copy".into())).unwrap();
    UsedStore { directory, location, written, blobs }
}

impl UsedStore {
    fn salvage(&self) -> Salvage {
        let scratch = self.directory.path().join("scratch");
        let _ = fs::remove_file(&scratch);
        Salvage::read(&self.location.database(), &scratch).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.location.root().join(name)
    }
}

/// Returns every entry that salvage finds.
fn salvaged_entries(salvage: &Salvage) -> EntryBodies {
    let mut found = EntryBodies::new();
    for run in salvage.runs().unwrap() {
        for revision in 1..=run.newest.0.min(1000) {
            if let Some(entry) = salvage.entry(&run, Revision(revision)).unwrap() {
                found.insert((run.number, revision), entry.body);
            }
        }
    }
    found
}

#[track_caller]
fn expect_nothing_invented(written: &EntryBodies, found: &EntryBodies) {
    for (key, text) in found {
        assert!(written.get(key) == Some(text), "{key:?} was never written like this");
    }
}

fn corrupt(path: &Path, at: usize, length: usize, random: &mut Rng) {
    let mut bytes = fs::read(path).unwrap();
    let end = (at + length).min(bytes.len());
    bytes[at..end].iter_mut().for_each(|byte| *byte = random.u8(..));
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn everything_is_read_from_an_undamaged_database() {
    let used = used_store(&mut Rng::with_seed(1)).await;
    let salvage = used.salvage();
    assert!(salvaged_entries(&salvage) == used.written);
    assert_eq!(salvage.bad_frames(), 0);
    for blob in &used.blobs {
        assert_eq!(salvage.blob(&Digest::of(blob)).unwrap().as_ref(), Some(blob));
    }
    assert_eq!(salvage.run_rows().unwrap().len(), 12);
}

#[tokio::test]
async fn a_removed_run_is_not_salvaged_and_hides_no_other_run() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::find(directory.path(), Some("store".into())).unwrap();
    let store = SqliteStore::open(&location).unwrap();
    let (removed, next) = (RunId::new("removed").unwrap(), RunId::new("next").unwrap());
    // Enough pages that the next run does not overwrite all of them.
    let mut position = Position::absent();
    for n in 0..100 {
        let entry = format!("{{\"of\":\"removed\",\"n\":{n},\"text\":\"{}\"}}", "x".repeat(300));
        position = store.commit(entry_commit(&removed, position, &entry)).await.unwrap();
    }
    let lock = store.lock_engine(&removed).await.unwrap();
    store.remove_run(&lock, position).await.unwrap();
    store.commit(entry_commit(&next, Position::absent(), "{\"of\":\"next\"}")).await.unwrap();
    let salvage = Salvage::read(&location.database(), &directory.path().join("scratch")).unwrap();
    assert_eq!(salvaged_entries(&salvage), BTreeMap::from([((2, 1), "{\"of\":\"next\"}".to_owned())]));
}

#[tokio::test]
async fn a_damaged_page_hides_only_its_own_rows() {
    let mut random = Rng::with_seed(2);
    let used = used_store(&mut random).await;
    fs::remove_file(used.file("callboard.db-wal")).unwrap();
    let before = salvaged_entries(&used.salvage());
    assert!(before.len() > 50, "{}", before.len());
    let path = used.file("callboard.db");
    let pages = fs::metadata(&path).unwrap().len() as usize / PAGE;
    corrupt(&path, pages / 2 * PAGE, PAGE, &mut random);
    let after = salvaged_entries(&used.salvage());
    expect_nothing_invented(&used.written, &after);
    assert!(
        after.len() + 40 > before.len(),
        "one page hides {} of {}",
        before.len() - after.len(),
        before.len()
    );
}

#[tokio::test]
async fn rows_are_read_although_the_schema_is_lost() {
    let mut random = Rng::with_seed(3);
    let used = used_store(&mut random).await;
    fs::remove_file(used.file("callboard.db-wal")).unwrap();
    let before = salvaged_entries(&used.salvage());
    // The first page holds the file header and the list of tables.
    corrupt(&used.file("callboard.db"), 0, PAGE, &mut random);
    assert!(Connection::open(used.file("callboard.db")).unwrap().table_exists(None, "entries").is_err());
    assert!(salvaged_entries(&used.salvage()) == before);
}

#[tokio::test]
async fn what_is_left_of_a_truncated_database_is_read() {
    let used = used_store(&mut Rng::with_seed(4)).await;
    let whole = fs::read(used.file("callboard.db")).unwrap();
    let wal = fs::read(used.file("callboard.db-wal")).unwrap();
    for (length, wal_length) in
        [(whole.len() / 2, wal.len()), (whole.len() / 3 + 17, 0), (0, wal.len() / 2), (1, 1)]
    {
        fs::write(used.file("callboard.db"), &whole[..length]).unwrap();
        fs::write(used.file("callboard.db-wal"), &wal[..wal_length]).unwrap();
        let found = salvaged_entries(&used.salvage());
        expect_nothing_invented(&used.written, &found);
        assert_eq!(found.is_empty(), length < 2 && wal_length < 2, "{length} {wal_length}: {}", found.len());
    }
}

/// SQLite itself silently drops everything after the first bad frame.
#[tokio::test]
async fn commits_after_a_bad_frame_of_the_wal_are_read() {
    let mut random = Rng::with_seed(5);
    let used = used_store(&mut random).await;
    let wal = used.file("callboard.db-wal");
    // Early in the WAL: frames after the newest commit are left over from before the WAL was restarted.
    corrupt(&wal, 10 * PAGE, 2 * PAGE, &mut random);
    let salvage = used.salvage();
    assert!(salvage.bad_frames() > 0);
    let found = salvaged_entries(&salvage);
    expect_nothing_invented(&used.written, &found);
    assert!(found.len() + 10 > used.written.len(), "{} of {}", found.len(), used.written.len());
    let newest = used.written.values().find(|text| text.contains("\"index\":149,")).unwrap();
    assert!(found.values().any(|text| text == newest), "the last commit is read");
}

#[tokio::test]
async fn frames_are_read_although_the_header_of_the_wal_is_damaged() {
    let mut random = Rng::with_seed(6);
    let used = used_store(&mut random).await;
    let file = used.file("callboard.db-wal");
    let whole = fs::read(&file).unwrap();
    let check = |length, damaged: &[u8]| {
        fs::write(&file, [damaged, &whole[length..]].concat()).unwrap();
        let salvage = used.salvage();
        assert!(salvage.bad_frames() > 0, "{length}");
        let found = salvaged_entries(&salvage);
        expect_nothing_invented(&used.written, &found);
        let lost = used.written.len() - found.len();
        assert!(lost <= length / 512, "{lost} of {} are lost with {length} bytes", used.written.len());
    };
    // 48 bytes: with the salt of the first frame. These were called intact, and so was a block of zeros.
    for length in [16, 24, 48, 64, PAGE, 3 * PAGE] {
        check(length, &std::iter::repeat_with(|| random.u8(..)).take(length).collect::<Vec<_>>());
        check(length, &vec![0; length]);
    }
}

#[tokio::test]
async fn an_uncommitted_entry_is_not_read() {
    let used = used_store(&mut Rng::with_seed(7)).await;
    let wal = fs::read(used.file("callboard.db-wal")).unwrap();
    // Truncate within the last commit, so that its last frame, which commits it, is missing.
    let frame = 24 + PAGE;
    let newest = wal[32..].chunks_exact(frame).take_while(|frame| frame[8..16] == wal[16..24]).count();
    fs::write(used.file("callboard.db-wal"), &wal[..32 + newest * frame - 1]).unwrap();
    let salvage = used.salvage();
    assert_eq!(salvage.bad_frames(), 0, "a torn end is not damage: it was never acknowledged");
    let found = salvaged_entries(&salvage);
    let newest = used.written.values().find(|text| text.contains("\"index\":149,")).unwrap();
    assert!(!found.values().any(|text| text == newest));
    assert_eq!(found.len() + 1, used.written.len());
}

/// For a long run: `CALLBOARD_SEEDS=500 cargo nextest run -p callboard-store random_damage`.
#[tokio::test]
async fn random_damage_never_produces_an_entry_that_was_not_written() {
    let seeds = std::env::var("CALLBOARD_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let used = used_store(&mut Rng::with_seed(8)).await;
    let undamaged: Vec<_> = ["callboard.db", "callboard.db-wal"]
        .map(|name| (used.file(name), fs::read(used.file(name)).unwrap()))
        .into();
    for seed in 0..seeds {
        let mut random = Rng::with_seed(seed);
        for (path, bytes) in &undamaged {
            let mut bytes = bytes.clone();
            match random.u8(..5) {
                0 => bytes.truncate(random.usize(..bytes.len())),
                1 => {
                    for _ in 0..random.usize(1..6) {
                        let page = random.usize(..bytes.len() / PAGE) * PAGE;
                        bytes[page..page + PAGE].iter_mut().for_each(|byte| *byte = random.u8(..));
                    }
                }
                2 | 3 => {
                    for _ in 0..random.usize(1..2000) {
                        let at = random.usize(..bytes.len());
                        bytes[at] = random.u8(..);
                    }
                }
                _ => {}
            }
            fs::write(path, bytes).unwrap();
        }
        let salvage = used.salvage();
        expect_nothing_invented(&used.written, &salvaged_entries(&salvage));
        for blob in &used.blobs {
            let found = salvage.blob(&Digest::of(blob)).unwrap();
            assert!(found.is_none_or(|found| found == *blob));
        }
    }
}
