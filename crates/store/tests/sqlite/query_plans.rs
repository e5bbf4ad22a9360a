//! Every statement uses an index, so that a command costs no more with ten thousand runs than with one.
//!
//! The statements are read from the sources, so that new ones are checked, too.

use rusqlite::Connection;
use store::{Location, SqliteStore};

const SOURCES: [&str; 2] =
    [include_str!("../../src/sqlite/sql/read.rs"), include_str!("../../src/sqlite/sql/write.rs")];

/// Returns every statement that the sources prepare.
fn statements() -> Vec<&'static str> {
    let calls = SOURCES.iter().flat_map(|source| source.split("prepare_cached(").skip(1));
    calls.filter_map(|call| call.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// The full scans that are allowed: the list of all runs, and the two small tables `paths` and `this` that the query for the
/// parts of a document makes.
const ALLOWED_SCANS: [&str; 3] = ["SCAN runs", "SCAN paths", "SCAN this"];

#[test]
fn every_statement_except_the_list_of_runs_uses_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::find(directory.path(), Some("store".into())).unwrap();
    SqliteStore::open(&location).unwrap();
    let database = Connection::open(location.database()).unwrap();
    let statements = statements();
    assert!(statements.len() > 20, "the search finds only {} statements", statements.len());
    let mut lists = 0;
    for statement in statements {
        let mut explained = database.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let mut rows = explained.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let detail: String = row.get("detail").unwrap();
            let allowed = ALLOWED_SCANS.iter().any(|scan| detail == *scan);
            assert!(
                allowed || !detail.starts_with("SCAN") || detail.starts_with("SCAN CONSTANT ROW"),
                "{detail}\n{statement}"
            );
            lists += usize::from(detail == "SCAN runs");
        }
    }
    assert_eq!(lists, 1, "one statement lists all runs");
}
