//! How the database finds what it is asked for: by an index, so that ten thousand runs cost a command no more than one.
//!
//! The statements are read from the sources, so that a new one is asked about as well.

use rusqlite::Connection;
use store::{Location, SqliteStore};

const SOURCES: [&str; 2] = [include_str!("../src/sqlite/read.rs"), include_str!("../src/sqlite/write.rs")];

/// Every statement that is prepared in the sources.
fn statements() -> Vec<&'static str> {
    let after = SOURCES.iter().flat_map(|source| source.split("prepare_cached(").skip(1));
    after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// What is walked from end to end, and may be: the list of all runs, and the names of one document's parts.
const WALKED: [&str; 3] = ["SCAN runs", "SCAN paths", "SCAN this"];

#[test]
fn every_statement_but_the_list_of_runs_goes_by_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let location = Location::find(directory.path(), Some("store".into())).unwrap();
    SqliteStore::open(&location).unwrap();
    let database = Connection::open(location.database()).unwrap();
    let statements = statements();
    assert!(statements.len() > 20, "they are prepared in another way now: {}", statements.len());
    let mut lists = 0;
    for statement in statements {
        let mut explained = database.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let mut rows = explained.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get("detail").unwrap();
            let allowed = WALKED.iter().any(|walked| step == *walked);
            assert!(
                allowed || !step.starts_with("SCAN") || step.starts_with("SCAN CONSTANT ROW"),
                "{step}\n{statement}"
            );
            lists += usize::from(step == "SCAN runs");
        }
    }
    assert_eq!(lists, 1, "one statement lists all runs");
}
