//! A run on a server, and the houses of two hosts.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use protocol::entry::{Author, Entry, Input};
use protocol::run::{Request, start_queued};
use protocol::steps::Steps;
use protocol::{AttemptId, Revision, RunId, StepId};
use runner::{Clock, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Journal};
use store::{NatsSettings, NatsStore, Store as _, Tenure};
use tempfile::TempDir;
use testkit::harness;
use tokio::sync::mpsc;

use testkit::nats::Server;

/// What all hosts share.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
    pub(crate) store: NatsStore,
    pub(crate) run: RunId,
}

impl Scene {
    /// A run of steps side by side.
    pub(crate) async fn open(steps: &[&str]) -> Self {
        let server = Server::start();
        let directory = tempfile::tempdir().unwrap();
        // Long enough that no test waits for its end.
        let settings = NatsSettings { lease: Duration::from_secs(600), ..server.settings() };
        let (store, run) = (NatsStore::new(settings), RunId::new("trial").unwrap());
        let definition = harness::side_by_side(steps, NonZeroU32::MIN);
        let profile = harness::wrapper(Path::new("/bin/true"));
        let spec = harness::spec::<Steps>(definition.into(), &run, directory.path(), Some(profile));
        runner::open(&store, &Clock::system(), harness::person(), spec).await.unwrap();
        Self { server, directory, store, run }
    }

    /// A run of two steps, of which an engine on host `a` has begun the first before it was killed.
    pub(crate) async fn begun() -> Self {
        let scene = Self::open(&["first", "second"]).await;
        scene.begin("a").await;
        scene
    }

    /// An engine on that host begins one more step, and is killed before it has started anything.
    pub(crate) async fn begin(&self, host: &str) {
        let mut journal = self.journal().await;
        let (definition, mut run) = (&journal.spec.definition, journal.state.run.clone());
        let slots = run.live_attempts().count() + 1;
        let decision = start_queued(definition, &mut run, slots);
        harness::decided(&mut journal, &self.store, host, decision).await;
    }

    pub(crate) async fn journal(&self) -> Journal<Steps, NatsStore> {
        Journal::load(&self.store, &Clock::system(), &self.run).await.unwrap().unwrap()
    }

    /// Who may be alive, and where.
    pub(crate) async fn placed(&self) -> Vec<(String, String)> {
        let hosts = self.journal().await.state.hosts.into_iter();
        hosts.map(|(attempt, host)| (attempt.to_string(), host)).collect()
    }

    /// The entry in which an attempt was over.
    pub(crate) async fn over(&self, attempt: &AttemptId) -> Option<Entry<Steps>> {
        let entries = self.store.entries(&self.run, Revision(0)).await.unwrap();
        let entries = entries.iter().map(|stored| Entry::<Steps>::decode(&stored.body).unwrap());
        let over = |entry: &Entry<Steps>| match &entry.input {
            Input::Fact { fact: protocol::run::Fact::Ended { attempt: over, .. }, .. } => {
                protocol::run::Run::<Steps>::id(over) == *attempt
            }
            _ => false,
        };
        entries.into_iter().find(over)
    }

    /// Plays the run on a host until it rests.
    pub(crate) async fn play(
        &self,
        engine_config: EngineConfig,
        request: Request<StepId>,
    ) -> Result<EngineExit, EngineError> {
        let mut nobody = ();
        let engine =
            Engine::<Steps, _>::lock(&self.store, engine_config, &self.run, Tenure::Engine, &mut nobody)
                .await?;
        let (_keep, interrupts) = mpsc::unbounded_channel();
        engine.drive(EngineRequest { request, by: None, reason: None }, interrupts).await
    }

    /// A host of that name. What is started there fails at once: its shim is none.
    pub(crate) fn host(&self, name: &str) -> EngineConfig {
        let engine_config =
            harness::engine_config_at(&self.directory.path().join(name), Path::new("/bin/false"));
        let author = match engine_config.author {
            Author::Engine { boot_id, pid, .. } => Author::Engine { host: name.to_owned(), boot_id, pid },
            Author::Person { .. } | Author::Client { .. } => panic!("an engine writes as one"),
        };
        EngineConfig { author, ..engine_config }
    }
}
