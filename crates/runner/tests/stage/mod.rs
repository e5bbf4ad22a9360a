//! A run on a real store, for tests that need no process.

#![allow(dead_code, reason = "no test needs all of it")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use protocol::entry::Author;
use protocol::steps::{self, DEFAULT_ITERATIONS, OnFailure, Step, Steps, Workflow};
use protocol::{RunId, SeatName, Stage};
use runner::{Again, Clock, Frozen, House, Staging};
use store::{Location, SqliteStore};
use supervisor::ShimProgram;

pub(crate) fn person() -> Author {
    Author::Person { name: "tester".to_owned(), host: "here".to_owned() }
}

/// Opens a run of one step.
pub(crate) async fn opened(directory: &Path) -> anyhow::Result<(SqliteStore, RunId)> {
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

/// A house in which nothing can be started: a test that gets so far ends, and not well.
pub(crate) fn house(store: &SqliteStore) -> House {
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
