//! A read of the embedded store, compared with its floor, the least that it could cost: bare SQLite with the same texts and
//! settings.

use std::path::Path;
use std::time::Instant;

use protocol::RunId;
use store::{Location, SqliteStore, Store as _};

use crate::Bench;
use crate::figure::median;
use crate::floor;
use crate::repo::{BenchRepo, Shape};
use crate::table::Row;

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = BenchRepo::new(&bench.program)?;
    // Ten steps in a row, with `/bin/true` as agent.
    repo.workflow(Shape::Line, 10, "trivial");
    repo.time_run("small", 1)?;
    let location = Location::find(repo.test_env().repo(), None)?;
    read(bench, &location, &repo.test_env().agent_dir().join("read.db"))
}

/// Reads what is needed to resume a run, and its whole document.
fn read(bench: &Bench, location: &Location, floor_path: &Path) -> anyhow::Result<Vec<Row>> {
    let store = SqliteStore::open(location)?;
    let (runtime, run) = (crate::runtime()?, RunId::new("small")?);
    let read = || {
        runtime.block_on(async {
            let loaded = store.load(&run).await?.expect("the run exists");
            let parts = store.parts_at(&run, loaded.position.revision).await?;
            let texts = loaded
                .tail
                .into_iter()
                .map(|entry| entry.body)
                .chain(parts.into_iter().map(|part| part.body));
            anyhow::Ok(texts.collect::<String>())
        })
    };
    let body = read()?;
    let mut sqlite = floor::connect(floor_path)?;
    floor::commit(&mut sqlite, 1, 1, &body)?;
    let (mut store_times, mut sqlite_times) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.reads {
        let started = Instant::now();
        assert_eq!(read()?.len(), body.len());
        store_times.push(started.elapsed());
        let started = Instant::now();
        let transaction = sqlite.transaction()?;
        let mut select =
            transaction.prepare_cached("SELECT body FROM rows WHERE run = ?1 AND revision = ?2")?;
        assert_eq!(select.query_row([1, 1], |row| row.get::<_, String>(0))?.len(), body.len());
        drop(select);
        drop(transaction);
        sqlite_times.push(started.elapsed());
    }
    Ok(vec![
        Row::new("a read of a 10-step run", median(store_times))
            .against("bare SQLite, one row", median(sqlite_times)),
    ])
}
