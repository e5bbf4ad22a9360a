//! Commits per second on both stores, compared with bare loops that write the same bytes.
//!
//! Each writer has a thread and a connection of its own, as engines have, and cycles through its share of the runs.
//! The two sides alternate, so that a disturbance affects both. The ratio is the median of all alternations.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use protocol::{Revision, RunId};
use rusqlite::Connection;
use serde_json::Value;
use store::{
    Commit, Location, NatsSettings, NatsStore, OutboxItem, Part, Position, SqliteStore, Store, WriteId,
};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::figure::{Figure, median};
use crate::nats::{self, Server};
use crate::repo::{BenchRepo, Shape};
use crate::table::{Bar, Row};
use crate::{floor, runtime};

/// How many writers commit at the same time.
const WRITER_COUNTS: [usize; 2] = [1, 8];

/// The promised share of the rate of bare SQLite. A commit writes more than its one row: five tables with their indices.
const SQLITE_BAR: f64 = 0.5;
/// The promised share of the rate of bare NATS.
const NATS_BAR: f64 = 0.8;

pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = BenchRepo::new(&bench.program)?;
    repo.workflow(Shape::Line, 10, "trivial");
    repo.time_run("small", 1)?;
    let location = Location::find(repo.test_env().repo(), None)?;
    let texts = CommitTexts::of_step(&location.database())?;
    let shared = repo.test_env().agent_dir();
    let mut rows = Vec::new();
    for writers in WRITER_COUNTS {
        let ours = per_writer(writers, |writer| {
            let runs =
                runs_of_writer(bench, writers, writer, |number| Ok((run(number)?, Position::absent())))?;
            let store = Arc::new(SqliteStore::open(&location)?);
            Ok(StoreWriter { runtime: runtime()?, store, texts: texts.clone(), runs })
        })?;
        let path = shared.join("bare.db");
        let theirs = per_writer(writers, |writer| {
            let runs = runs_of_writer(bench, writers, writer, |number| Ok((number, 0)))?;
            Ok(BareSqlite { connection: floor::connect(&path)?, body: texts.concatenated(), runs })
        })?;
        rows.push(
            compare(bench, "embedded", "bare SQLite", ours, theirs)?.bar(Bar::AtLeastTimes(SQLITE_BAR)),
        );
    }
    let server = Server::start(&shared)?;
    let settings = NatsSettings { replicas: 1, ..server.address.parse()? };
    for writers in WRITER_COUNTS {
        let mut ours = per_writer(writers, |writer| {
            let runs =
                runs_of_writer(bench, writers, writer, |number| Ok((run(number)?, Position::absent())))?;
            let store = Arc::new(NatsStore::new(settings.clone()));
            Ok(StoreWriter { runtime: runtime()?, store, texts: texts.clone(), runs })
        })?;
        let first = &mut ours[0];
        // With two commits, the last message of each run is that of a change, not the first one.
        first.write(first.runs.runs.len() * 2)?;
        let name = first.runs.next().0.to_string();
        let payload = runtime()?.block_on(async {
            let client = nats::connect(&server.address).await?;
            nats::create_stream(&client).await?;
            nats::payload(&client, &name).await
        })?;
        let theirs = per_writer(writers, |writer| {
            let runtime = runtime()?;
            let client = runtime.block_on(nats::connect(&server.address))?;
            let runs =
                runs_of_writer(bench, writers, writer, |number| Ok((format!("bare.{}", run(number)?), 0)))?;
            Ok(BareNats { runtime, client, payload: payload.clone(), runs })
        })?;
        rows.push(compare(bench, "NATS", "bare NATS", ours, theirs)?.bar(Bar::AtLeastTimes(NATS_BAR)));
    }
    Ok(rows)
}

/// Makes a value for each writer.
fn per_writer<T>(writers: usize, make: impl FnMut(usize) -> anyhow::Result<T>) -> anyhow::Result<Vec<T>> {
    (0..writers).map(make).collect()
}

/// The runs of one writer, in turn.
struct RoundRobin<T> {
    runs: Vec<T>,
    next: usize,
}

impl<T> RoundRobin<T> {
    fn next(&mut self) -> &mut T {
        let index = self.next;
        self.next = (index + 1) % self.runs.len();
        &mut self.runs[index]
    }
}

/// Returns the runs of one writer. No other comparison uses the same ones.
fn runs_of_writer<T>(
    bench: &Bench,
    writers: usize,
    writer: usize,
    make: impl Fn(usize) -> anyhow::Result<T>,
) -> anyhow::Result<RoundRobin<T>> {
    let share = bench.sizes.written_runs / writers;
    let first = writers * bench.sizes.written_runs + writer * share;
    let runs = (first..first + share).map(make);
    Ok(RoundRobin { runs: runs.collect::<Result<_, _>>()?, next: 0 })
}

fn run(number: usize) -> anyhow::Result<RunId> {
    Ok(RunId::new(format!("run-{number}"))?)
}

/// Measures both sides alternately, after each run has its first commit.
fn compare<A: Writer, B: Writer>(
    bench: &Bench,
    store: &str,
    baseline: &str,
    mut ours: Vec<A>,
    mut theirs: Vec<B>,
) -> anyhow::Result<Row> {
    let (writers, sizes) = (ours.len(), &bench.sizes);
    in_parallel(&mut ours, sizes.written_runs / writers)?;
    in_parallel(&mut theirs, sizes.written_runs / writers)?;
    // Each writer makes as many commits as a single one would. With fewer, the wait for the slowest writer would count.
    let (commits, alternations) = (sizes.commits, sizes.alternations.div_ceil(writers));
    let (mut our_times, mut their_times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..alternations {
        let (our_time, their_time) = (in_parallel(&mut ours, commits)?, in_parallel(&mut theirs, commits)?);
        ratios.push(their_time.as_secs_f64() / our_time.as_secs_f64());
        our_times.push(our_time);
        their_times.push(their_time);
    }
    ratios.sort_by(f64::total_cmp);
    let rate = |times| Figure::rate(commits * writers, median(times));
    let plural = if writers == 1 { "writer" } else { "writers" };
    let name = format!("commits, {store}, {writers} {plural} on {} runs", sizes.written_runs);
    Ok(Row::new(name, rate(our_times)).against(baseline, rate(their_times)).ratio(ratios[ratios.len() / 2]))
}

/// Returns the time until each writer has made this many commits.
fn in_parallel<W: Writer>(writers: &mut [W], commits: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.iter_mut().map(|writer| scope.spawn(move || writer.write(commits))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })?;
    Ok(begun.elapsed())
}

trait Writer: Send {
    /// Makes this many commits, to one run after the other.
    fn write(&mut self, commits: usize) -> anyhow::Result<()>;
}

/// The texts of the commit that ends a step in the middle of a run and starts the next one.
#[derive(Clone)]
struct CommitTexts {
    entry: String,
    parts: Vec<Part>,
    action: String,
    summary: String,
}

impl CommitTexts {
    /// Reads revision 6 of a run of ten steps in a line.
    fn of_step(database: &Path) -> anyhow::Result<Self> {
        let connection = Connection::open(database)?;
        let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0));
        let mut parts = connection.prepare("SELECT path, body FROM parts WHERE revision = 6")?;
        let parts = parts.query_map([], |row| Ok(Part { path: row.get(0)?, body: row.get(1)? }))?;
        let entry = text("SELECT body FROM entries WHERE revision = 6")?;
        let action = serde_json::from_str::<Value>(&entry)?["actions"][0].take();
        anyhow::ensure!(action.is_object(), "a step in the middle starts another one");
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            entry,
            action: action.to_string(),
            summary: text("SELECT summary FROM runs")?,
        })
    }

    /// Returns all texts as one.
    fn concatenated(&self) -> String {
        let single = [&self.entry, &self.summary, &self.action].map(String::as_str);
        single.into_iter().chain(self.parts.iter().map(|part| part.body.as_str())).collect()
    }

    fn commit(&self, run: &RunId, expected: Position) -> Commit {
        let id = |revision: Revision| format!("start s{revision}#1.1");
        Commit {
            run: run.clone(),
            protocol: "steps".to_owned(),
            expected,
            epoch: None,
            write_id: WriteId::new(),
            entry: self.entry.clone(),
            parts: self.parts.clone(),
            document: None,
            outbox: vec![OutboxItem { id: id(expected.revision.next()), body: self.action.clone() }],
            acknowledged: vec![id(expected.revision)],
            views: Vec::new(),
            snapshot: None,
            summary: self.summary.clone(),
        }
    }
}

/// Commits to one of our stores.
struct StoreWriter {
    runtime: Runtime,
    store: Arc<dyn Store>,
    texts: CommitTexts,
    runs: RoundRobin<(RunId, Position)>,
}

impl Writer for StoreWriter {
    fn write(&mut self, commits: usize) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            for _ in 0..commits {
                let (run, position) = self.runs.next();
                *position = self.store.commit(self.texts.commit(run, *position)).await?;
            }
            Ok(())
        })
    }
}

struct BareSqlite {
    connection: Connection,
    body: String,
    runs: RoundRobin<(usize, usize)>,
}

impl Writer for BareSqlite {
    fn write(&mut self, commits: usize) -> anyhow::Result<()> {
        (0..commits).try_for_each(|_| {
            let (run, revision) = self.runs.next();
            *revision += 1;
            floor::commit(&mut self.connection, *run, *revision, &self.body)
        })
    }
}

struct BareNats {
    runtime: Runtime,
    client: async_nats::jetstream::Context,
    payload: Bytes,
    runs: RoundRobin<(String, u64)>,
}

impl Writer for BareNats {
    fn write(&mut self, commits: usize) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            for _ in 0..commits {
                let (subject, last) = self.runs.next();
                let written = nats::publish(&self.client, subject.clone(), *last, self.payload.clone());
                *last = written.await.context("a bare message")?;
            }
            Ok(())
        })
    }
}
