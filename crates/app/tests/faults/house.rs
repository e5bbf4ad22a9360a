//! An engine in the test's own process, for what no flag can set: its clock, its patience. Shim and agent are real.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::entry::{Author, Entry};
use protocol::steps::{self, DEFAULT_ITERATIONS, OnFailure, Step, Steps, Workflow};
use protocol::{Revision, RunId, SeatName, Stage};
use runner::{
    Again, Asked, Clock, Engine, EngineError, Frozen, GRACE, House, Notice, Observer, Player, Rest, Staging,
};
use store::{Location, SqliteStore, Store as _, Tenure};
use supervisor::ShimProgram;
use supervisor::adapter::{Adapter, Pass, ReportRule, Wrapper};
use testkit::Scene;
use tokio::sync::mpsc;

/// A run of one step, `a`, with up to three tries, and what an engine of it works with.
pub(crate) struct Stand {
    pub(crate) store: SqliteStore,
    pub(crate) run: RunId,
    pub(crate) house: House,
}

impl Stand {
    pub(crate) async fn open(scene: &Scene, clock: Clock) -> Self {
        let location = Location::find(scene.repo(), None).unwrap();
        let store = SqliteStore::open(&location).unwrap();
        let run = RunId::new("trial").unwrap();
        let author = Author::Engine {
            host: store::host_name(),
            boot_id: supervisor::boot_id().unwrap(),
            pid: std::process::id(),
        };
        let house = House {
            again: Again::default(),
            by_agent: BTreeMap::new(),
            places: 1,
            backoff: Duration::from_millis(20),
            lingering: Duration::from_secs(30),
            shim: ShimProgram { program: scene.program().to_owned(), args: vec!["__shim".into()] },
            store_root: location.root().to_owned(),
            clock,
            boot_id: supervisor::boot_id().unwrap(),
            descriptors: None,
            author,
        };
        let stand = Self { store, run, house };
        let opened = runner::open::<Steps, _>(
            &stand.store,
            &stand.house.clock,
            stand.house.author.clone(),
            stand.frozen(scene),
        );
        opened.await.unwrap();
        stand
    }

    fn frozen(&self, scene: &Scene) -> Frozen<Steps> {
        let step = SeatName::new("a").unwrap();
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
            max_attempts: NonZeroU32::new(3).unwrap(),
            max_iterations: DEFAULT_ITERATIONS,
            on_failure: OnFailure::Stop,
        };
        let program = scene.agent().to_str().unwrap().to_owned();
        let player = Player {
            adapter: Adapter::Wrapper(Wrapper { program, args: Vec::new() }),
            report: ReportRule::Required,
            pass: Pass::Everything,
            env: Vec::new(),
            timeout: None,
            silence: None,
            grace: GRACE,
        };
        let repo_dir = scene.repo().to_str().unwrap().to_owned();
        let staging = Staging {
            stage: Stage { run: self.run.clone(), repo_dir },
            workdir: scene.repo().to_owned(),
            player: Some(player),
            env: Vec::new(),
        };
        Frozen { title: "trial".to_owned(), definition: definition.into(), staging }
    }

    /// Plays until the run rests. What is told to an observer goes to `seen`.
    pub(crate) async fn play(&self, seen: impl FnMut(Notice<'_, Steps>)) -> Result<Rest, EngineError> {
        let mut observer = Seen(seen);
        let engine =
            Engine::lead(&self.store, self.house.clone(), &self.run, Tenure::Engine, &mut observer).await?;
        let (_keep, interrupts) = mpsc::unbounded_channel();
        tokio::time::timeout(testkit::DEADLINE, engine.play(Asked::to_resume(None), interrupts))
            .await
            .expect("the run comes to rest")
    }

    pub(crate) async fn journal(&self) -> Vec<Entry<Steps>> {
        let entries = self.store.entries(&self.run, Revision(0)).await.unwrap();
        entries.iter().map(|entry| Entry::decode(&entry.body).unwrap()).collect()
    }
}

struct Seen<F>(F);

impl<F: FnMut(Notice<'_, Steps>)> Observer<Steps> for Seen<F> {
    fn notice(&mut self, notice: Notice<'_, Steps>) {
        (self.0)(notice);
    }
}
