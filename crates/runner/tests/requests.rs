//! Requests that are committed between two steps of an engine, on a real store.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use protocol::entry::Author;
use protocol::run::{Halt, Phase, Request};
use protocol::steps::{self, DEFAULT_ITERATIONS, OnFailure, Step, Steps, Workflow};
use protocol::{RunId, SeatName, Stage};
use runner::{Again, Asked, Clock, Engine, Frozen, House, Journal, Rest, Staging};
use store::{Location, SqliteStore, Store as _, Tenure};
use supervisor::ShimProgram;
use tokio::sync::mpsc;

fn person() -> Author {
    Author::Person { name: "tester".to_owned(), host: "here".to_owned() }
}

/// A house in which nothing can be started: a test that gets so far ends, and not well.
fn house(store: &SqliteStore) -> House {
    House {
        again: Again::default(),
        by_agent: BTreeMap::new(),
        places: 1,
        backoff: Duration::from_millis(1),
        lingering: Duration::from_secs(30),
        shim: ShimProgram { program: "/bin/false".into(), args: Vec::new() },
        store_root: store.location().root().to_owned(),
        clock: Clock::system(),
        boot_id: "none".to_owned(),
        descriptors: None,
        author: Author::Engine {
            host: "here".to_owned(),
            boot_id: "none".to_owned(),
            pid: std::process::id(),
        },
    }
}

/// Opens a run of one step.
async fn opened(directory: &Path) -> anyhow::Result<(SqliteStore, RunId)> {
    let location = Location::find(directory, Some(directory.join("store")))?;
    let store = SqliteStore::open(&location)?;
    let run = RunId::new("trial")?;
    let step = SeatName::new("a")?;
    let workflow = Workflow {
        name: "trial".to_owned(),
        description: String::new(),
        metadata: serde_json::Map::new(),
        steps: vec![Step::new(step.clone(), "player", "task.md")],
    };
    let definition = steps::Frozen {
        workflow,
        source: String::new(),
        prompts: BTreeMap::from([(step, "Do it.".to_owned())]),
        max_attempts: NonZeroU32::MIN,
        max_iterations: DEFAULT_ITERATIONS,
        on_failure: OnFailure::Stop,
    };
    let staging = Staging {
        stage: Stage { run: run.clone(), repo_dir: directory.display().to_string() },
        workdir: directory.to_owned(),
        player: None,
        env: Vec::new(),
    };
    let frozen = Frozen { title: "trial".to_owned(), definition: definition.into(), staging };
    runner::open::<Steps, _>(&store, &Clock::system(), person(), frozen).await?;
    Ok((store, run))
}

/// What a request by somebody else between an engine's load and its first commit comes to.
async fn overtaken_by(request: Request<SeatName>) -> anyhow::Result<(Option<Rest>, Phase)> {
    let directory = tempfile::tempdir()?;
    let (store, run) = opened(directory.path()).await?;
    let mut nobody = ();
    let engine = Engine::<Steps, _>::lead(&store, house(&store), &run, Tenure::Engine, &mut nobody).await?;
    let journal = Journal::<Steps, _>::load(&store, &Clock::system(), &run).await?;
    let mut journal = journal.ok_or_else(|| anyhow::anyhow!("the run is gone"))?;
    runner::request(&mut journal, person(), request, None).await?;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // A paused engine stays until it is told to go.
    let paused = journal.folded.run.phase == Phase::Paused;
    if paused {
        interrupt.send(())?;
    }
    let rest = engine.play(Asked::to_resume(None), interrupts).await;
    journal.reload().await?;
    let entries = store.entries(&run, protocol::Revision(0)).await?;
    assert!(entries.iter().all(|entry| !entry.body.contains("\"began\"")), "something was started");
    Ok((rest.ok(), journal.folded.run.phase))
}

#[tokio::test]
async fn a_stop_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = Halt::Stopped;
    assert_eq!(
        overtaken_by(Request::Stop).await.unwrap(),
        (Some(Rest::Halted(halted)), Phase::Halted(halted))
    );
}

#[tokio::test]
async fn a_pause_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = Halt::Interrupted;
    assert_eq!(
        overtaken_by(Request::Pause).await.unwrap(),
        (Some(Rest::Halted(halted)), Phase::Halted(halted))
    );
}
