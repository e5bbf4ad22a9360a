//! Runs, and configurations of engines, for tests that start no process.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::steps::{Definition, Steps};
use protocol::{RunId, protocol_kind};
use runner::{Clock, EngineConfig};
use store::AnyStore;
use testkit::{TempStore, harness};

pub(crate) use testkit::harness::test_author;

/// Opens a run of one step.
pub(crate) async fn open_run(temp_store: &TempStore) -> anyhow::Result<(AnyStore, RunId)> {
    open_run_with(temp_store, &["a"]).await
}

/// Opens a run of these steps, which do not depend on each other.
pub(crate) async fn open_run_with(
    temp_store: &TempStore,
    steps: &[&str],
) -> anyhow::Result<(AnyStore, RunId)> {
    let store = temp_store.store().await;
    let run = RunId::new("trial")?;
    let definition = Definition::from(harness::independent_steps(steps, NonZeroU32::MIN));
    let spec = harness::run_spec(&definition, &run, temp_store.path(), None);
    runner::open(&store, &Clock::system(), protocol_kind::<Steps>(), test_author(), spec).await?;
    Ok((store, run))
}

/// Returns a configuration without a command for any agent, so that no attempt can be started.
pub(crate) fn engine_config_without_adapter(store: &AnyStore) -> EngineConfig {
    harness::engine_config(store, Path::new("/bin/false"))
}

/// Returns a configuration with a command for every agent, but with a shim that does not exist: every attempt fails at once.
pub(crate) fn engine_config_without_shim(store: &AnyStore) -> EngineConfig {
    let mut engine_config = harness::engine_config(store, Path::new("/missing"));
    engine_config.overrides.profile = Some(harness::wrapper(Path::new("/bin/true")));
    engine_config
}
