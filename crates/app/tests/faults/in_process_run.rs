//! An engine in the test's own process, for settings without a flag: its clock, its timeouts. Shim and agent are real.

use std::num::NonZeroU32;
use std::time::Duration;

use protocol::entry::Entry;
use protocol::steps::{Definition, Steps};
use protocol::{Revision, RunId, protocol_kind};
use runner::{Clock, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Notice, Observer};
use store::{AnyStore, LockPurpose};
use testkit::{TestEnv, harness};
use tokio::sync::mpsc;

/// A run whose engine is driven in the test's own process.
pub(crate) struct InProcessRun {
    pub(crate) store: AnyStore,
    pub(crate) run: RunId,
    pub(crate) engine_config: EngineConfig,
}

impl InProcessRun {
    /// Opens a run of one step, `a`, with up to three attempts.
    pub(crate) async fn open(test_env: &TestEnv, clock: Clock) -> Self {
        let definition = Definition::from(harness::one_step("a", NonZeroU32::new(3).unwrap()));
        Self::open_workflow(test_env, clock, &definition).await
    }

    pub(crate) async fn open_workflow(test_env: &TestEnv, clock: Clock, definition: &Definition) -> Self {
        let store = harness::open_store(test_env.repo(), test_env.backend().address().as_deref()).await;
        let run = RunId::new("trial").unwrap();
        let backoff = Duration::from_millis(20);
        let engine_config =
            EngineConfig { clock, backoff, ..harness::engine_config(&store, test_env.program()) };
        let profile = harness::wrapper(&test_env.agent_path());
        let spec = harness::run_spec(definition, &run, test_env.repo(), Some(profile));
        runner::open(
            &store,
            &engine_config.clock,
            protocol_kind::<Steps>(),
            engine_config.author.clone(),
            spec,
        )
        .await
        .unwrap();
        Self { store, run, engine_config }
    }

    /// Drives the run until the engine exits. Each notice is passed to `on_notice`.
    pub(crate) async fn drive(&self, on_notice: impl FnMut(Notice<'_>)) -> Result<EngineExit, EngineError> {
        let mut observer = NoticeCallback(on_notice);
        let engine = Engine::lock(
            &self.store,
            self.engine_config.clone(),
            &self.run,
            LockPurpose::Engine,
            &mut observer,
        )
        .await?;
        let (_keep, interrupts) = mpsc::unbounded_channel();
        tokio::time::timeout(testkit::DEADLINE, engine.drive(EngineRequest::to_resume(None), interrupts))
            .await
            .expect("the engine exits")
    }

    pub(crate) async fn journal(&self) -> Vec<Entry> {
        let entries = self.store.entries(&self.run, Revision(0)).await.unwrap();
        entries.iter().map(|entry| Entry::decode(&entry.body).unwrap()).collect()
    }
}

/// Passes each notice to a closure.
struct NoticeCallback<F>(F);

impl<F: FnMut(Notice<'_>)> Observer for NoticeCallback<F> {
    fn notice(&mut self, notice: Notice<'_>) {
        (self.0)(notice);
    }
}
