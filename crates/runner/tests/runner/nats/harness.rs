//! A run on a NATS server, and the engine configurations of two hosts.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use protocol::entry::{Author, Entry, Input};
use protocol::run::{Fact, Request, start_queued};
use protocol::steps::{Definition, Steps};
use protocol::{AttemptId, PROTOCOLS, Revision, RunId, protocol_kind};
use runner::{Clock, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Journal};
use store::{AnyStore, LockPurpose, NatsSettings, NatsStore};
use tempfile::TempDir;
use testkit::harness;
use tokio::sync::mpsc;

use testkit::nats::{self, Server};

/// A run that several hosts share.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
    pub(crate) store: AnyStore,
    pub(crate) run: RunId,
}

impl Fixture {
    /// Opens a run of independent steps.
    pub(crate) async fn open(steps: &[&str]) -> Self {
        let server = Server::start();
        let directory = tempfile::tempdir().unwrap();
        // So long that no lease expires during a test.
        let settings = NatsSettings { lease: Duration::from_secs(600), ..server.settings() };
        let (store, run) = (nats::any_store(NatsStore::new(settings)), RunId::new("trial").unwrap());
        let definition = Definition::from(harness::independent_steps(steps, NonZeroU32::MIN));
        let profile = harness::wrapper(Path::new("/bin/true"));
        let spec = harness::run_spec(&definition, &run, directory.path(), Some(profile));
        runner::open(&store, &Clock::system(), protocol_kind::<Steps>(), harness::test_author(), spec)
            .await
            .unwrap();
        Self { server, directory, store, run }
    }

    /// Opens a run of two steps. An engine on host `a` has started the first step and was killed.
    pub(crate) async fn with_started_step() -> Self {
        let fixture = Self::open(&["first", "second"]).await;
        fixture.start_next("a").await;
        fixture
    }

    /// Commits the start of one more step in the name of an engine on `host` that was killed before it acted.
    pub(crate) async fn start_next(&self, host: &str) {
        let mut journal = self.journal().await;
        let mut run = journal.state.run.clone();
        let slots = run.live_attempts().count() + 1;
        let decision = start_queued(&mut run, slots);
        harness::commit_decision(&mut journal, self.store.as_ref(), host, decision).await;
    }

    pub(crate) async fn journal(&self) -> Journal {
        Journal::load(&self.store, &Clock::system(), PROTOCOLS, &self.run).await.unwrap().unwrap()
    }

    /// Returns the attempts that may be alive, with their hosts.
    pub(crate) async fn attempt_hosts(&self) -> Vec<(String, String)> {
        let attempt_hosts = self.journal().await.state.hosts.into_iter();
        attempt_hosts.map(|(attempt, host)| (attempt.to_string(), host)).collect()
    }

    /// Returns the entry in which an attempt ended.
    pub(crate) async fn end_of(&self, attempt: &AttemptId) -> Option<Entry> {
        let entries = self.store.entries(&self.run, Revision(0)).await.unwrap();
        let entries = entries.iter().map(|stored| Entry::decode(&stored.body).unwrap());
        let is_end = |entry: &Entry| match &entry.input {
            Input::Fact { fact: Fact::Ended { attempt: ended, .. }, .. } => ended == attempt,
            _ => false,
        };
        entries.into_iter().find(is_end)
    }

    /// Drives the run on a host until the engine exits.
    pub(crate) async fn drive(
        &self,
        engine_config: EngineConfig,
        request: Request,
    ) -> Result<EngineExit, EngineError> {
        let mut observer = ();
        let engine =
            Engine::lock(&self.store, engine_config, &self.run, LockPurpose::Engine, &mut observer).await?;
        let (_keep, interrupts) = mpsc::unbounded_channel();
        engine.drive(EngineRequest { request, by: None, reason: None }, interrupts).await
    }

    /// Returns the configuration of a host. Its attempts fail at once, because its shim is `/bin/false`.
    pub(crate) fn host(&self, name: &str) -> EngineConfig {
        let engine_config =
            harness::engine_config_at(&self.directory.path().join(name), Path::new("/bin/false"));
        let author = match engine_config.author {
            Author::Engine { boot_id, pid, .. } => Author::Engine { host: name.to_owned(), boot_id, pid },
            Author::Person { .. } | Author::BucketClient { .. } => panic!("an engine writes as one"),
        };
        EngineConfig { author, ..engine_config }
    }
}
