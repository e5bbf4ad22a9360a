//! An engine in the test's own process, for what no flag can set: its clock, its timeouts. Shim and agent are real.

use std::num::NonZeroU32;
use std::time::Duration;

use protocol::entry::Entry;
use protocol::steps::{Definition, Steps};
use protocol::{KindOf, Revision, RunId};
use runner::{Clock, Engine, EngineConfig, EngineError, EngineExit, EngineRequest, Notice, Observer};
use store::{AnyStore, Tenure};
use testkit::{Scene, harness};
use tokio::sync::mpsc;

/// A run and the configuration of its engine.
pub(crate) struct Stand {
    pub(crate) store: AnyStore,
    pub(crate) run: RunId,
    pub(crate) engine_config: EngineConfig,
}

impl Stand {
    /// Opens a run of one step, `a`, with up to three attempts.
    pub(crate) async fn open(scene: &Scene, clock: Clock) -> Self {
        let definition = Definition::from(harness::one_step("a", NonZeroU32::new(3).unwrap()));
        Self::open_workflow(scene, clock, &definition).await
    }

    pub(crate) async fn open_workflow(scene: &Scene, clock: Clock, definition: &Definition) -> Self {
        let store = harness::open_store(scene.repo(), scene.backend().address().as_deref()).await;
        let run = RunId::new("trial").unwrap();
        let backoff = Duration::from_millis(20);
        let engine_config =
            EngineConfig { clock, backoff, ..harness::engine_config(&store, scene.program()) };
        let profile = harness::wrapper(&scene.agent());
        let spec = harness::spec(definition, &run, scene.repo(), Some(profile));
        runner::open(
            &store,
            &engine_config.clock,
            KindOf::<Steps>::STATIC,
            engine_config.author.clone(),
            spec,
        )
        .await
        .unwrap();
        Self { store, run, engine_config }
    }

    /// Drives the run until the engine exits. Notices go to `seen`.
    pub(crate) async fn play(&self, seen: impl FnMut(Notice<'_>)) -> Result<EngineExit, EngineError> {
        let mut observer = Seen(seen);
        let engine =
            Engine::lock(&self.store, self.engine_config.clone(), &self.run, Tenure::Engine, &mut observer)
                .await?;
        let (_keep, interrupts) = mpsc::unbounded_channel();
        tokio::time::timeout(testkit::DEADLINE, engine.drive(EngineRequest::to_resume(None), interrupts))
            .await
            .expect("the run comes to rest")
    }

    pub(crate) async fn journal(&self) -> Vec<Entry> {
        let entries = self.store.entries(&self.run, Revision(0)).await.unwrap();
        entries.iter().map(|entry| Entry::decode(&entry.body).unwrap()).collect()
    }
}

struct Seen<F>(F);

impl<F: FnMut(Notice<'_>)> Observer for Seen<F> {
    fn notice(&mut self, notice: Notice<'_>) {
        (self.0)(notice);
    }
}
