//! A run on a real store, for tests that need no process.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::RunId;
use protocol::steps::Steps;
use runner::{Clock, EngineConfig};
use store::AnyStore;
use testkit::{Ground, harness};

pub(crate) use testkit::harness::person;

/// Opens a run of one step.
pub(crate) async fn opened(ground: &Ground) -> anyhow::Result<(AnyStore, RunId)> {
    opened_with(ground, &["a"]).await
}

/// The same with these steps, of which none needs another.
pub(crate) async fn opened_with(ground: &Ground, steps: &[&str]) -> anyhow::Result<(AnyStore, RunId)> {
    let store = ground.store().await;
    let run = RunId::new("trial")?;
    let definition = harness::side_by_side(steps, NonZeroU32::MIN).into();
    let spec = harness::spec::<Steps>(definition, &run, ground.path(), None);
    runner::open(&store, &Clock::system(), person(), spec).await?;
    Ok((store, run))
}

/// A engine_config in which nothing can be started: a test that gets so far ends, and not well.
pub(crate) fn engine_config(store: &AnyStore) -> EngineConfig {
    harness::engine_config(store, Path::new("/bin/false"))
}
