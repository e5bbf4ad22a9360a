//! The store beside bare SQLite with the same texts and settings: a read, a commit, commits of many at once.

use std::path::Path;
use std::time::{Duration, Instant};

use protocol::{Revision, RunId};
use rusqlite::Connection;
use store::{Commit, Location, OutboxItem, Part, Position, SqliteStore, Store as _, WriteId};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::figure::{Figure, median};
use crate::floor;
use crate::place::{Place, Shape};
use crate::table::Row;

const WRITERS: usize = 8;

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let place = Place::new(&bench.program)?;
    place.workflow(Shape::Line, 10, "trivial");
    place.deliver("small", 1)?;
    let location = Location::find(place.scene().repo(), None)?;
    let texts = Texts::of_a_commit(&location.database())?;
    let mut rows = read(bench, &location, &place.scene().kit().join("read.db"))?;
    let bare = place.scene().kit().join("bare.db");
    floor::connect(&bare)?;
    for writers in [1, WRITERS] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..bench.sizes.rounds {
            ours.push(at_once(writers, |writer| {
                commits(bench, &location, &texts, &format!("{writers}-{round}-{writer}"))
            })?);
            let run = |writer| writers * 10_000 + round * 100 + writer;
            theirs.push(at_once(writers, |writer| bare_commits(bench, &bare, &texts, run(writer)))?);
        }
        let per = |total| Figure::per(total, writers * bench.sizes.commits);
        let name = format!("a commit, {writers} {}", if writers == 1 { "writer" } else { "writers" });
        rows.push(Row::new(name, per(median(ours))).against("bare SQLite, one row", per(median(theirs))));
    }
    Ok(rows)
}

/// The texts of a commit in the middle of a run.
struct Texts {
    entry: String,
    parts: Vec<Part>,
    summary: String,
}

impl Texts {
    fn of_a_commit(database: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(database)?;
        let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let mut parts = connection.prepare("SELECT path, body FROM parts WHERE revision = 6")?;
        let parts = parts.query_map([], |row| Ok(Part { path: row.get(0)?, body: row.get(1)? }))?;
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            entry: text("SELECT body FROM entries WHERE revision = 6")?,
            summary: text("SELECT summary FROM runs")?,
        })
    }

    /// All of them in one.
    fn together(&self) -> String {
        self.parts.iter().fold(self.entry.clone() + &self.summary, |all, part| all + &part.body)
    }
}

/// Reads what is needed to go on with a run, and its whole document.
fn read(bench: &Bench, location: &Location, bare: &Path) -> anyhow::Result<Vec<Row>> {
    let store = SqliteStore::open(location)?;
    let (runtime, run) = (runtime()?, RunId::new("small")?);
    let read = || {
        runtime.block_on(async {
            let loaded = store.load(&run).await?.expect("it was just delivered");
            let parts = store.parts_at(&run, loaded.position.revision).await?;
            let texts = loaded
                .tail
                .into_iter()
                .map(|entry| entry.body)
                .chain(parts.into_iter().map(|part| part.body));
            anyhow::Ok(texts.collect::<String>())
        })
    };
    let all = read()?;
    let mut bare = floor::connect(bare)?;
    floor::commit(&mut bare, 1, 1, &all)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..bench.sizes.commits {
        let begun = Instant::now();
        assert_eq!(read()?.len(), all.len());
        ours.push(begun.elapsed());
        let begun = Instant::now();
        let transaction = bare.transaction()?;
        let mut select =
            transaction.prepare_cached("SELECT body FROM rows WHERE run = ?1 AND revision = ?2")?;
        assert_eq!(select.query_row([1, 1], |row| row.get::<_, String>(0))?.len(), all.len());
        drop(select);
        drop(transaction);
        theirs.push(begun.elapsed());
    }
    Ok(vec![
        Row::new("a read of a 10-step run", median(ours)).against("bare SQLite, one row", median(theirs)),
    ])
}

/// How long that many threads take together, each with what `work` needs of its own.
fn at_once(writers: usize, work: impl Fn(usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || work(writer))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })?;
    Ok(begun.elapsed())
}

/// Commits to a run of its own, through a store of its own.
fn commits(bench: &Bench, location: &Location, texts: &Texts, run: &str) -> anyhow::Result<()> {
    let store = SqliteStore::open(location)?;
    let run = RunId::new(run)?;
    runtime()?.block_on(async {
        let mut position = Position::absent();
        for _ in 0..bench.sizes.commits {
            let done: Vec<_> =
                (position.revision > Revision(0)).then(|| action(position.revision)).into_iter().collect();
            position = store
                .commit(Commit {
                    run: run.clone(),
                    protocol: "steps".to_owned(),
                    expected: position,
                    epoch: None,
                    write_id: WriteId::new(),
                    entry: texts.entry.clone(),
                    parts: texts.parts.clone(),
                    document: None,
                    outbox: vec![OutboxItem { id: action(position.revision.next()), body: "{}".to_owned() }],
                    acknowledged: done,
                    views: Vec::new(),
                    snapshot: None,
                    summary: texts.summary.clone(),
                })
                .await?;
        }
        anyhow::Ok(())
    })
}

fn action(revision: Revision) -> String {
    format!("start s{revision}#1.1")
}

fn bare_commits(bench: &Bench, database: &Path, texts: &Texts, run: usize) -> anyhow::Result<()> {
    let mut connection = floor::connect(database)?;
    let all = texts.together();
    (0..bench.sizes.commits).try_for_each(|revision| floor::commit(&mut connection, run, revision, &all))
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
