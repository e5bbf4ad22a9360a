//! A run on a real store, for tests that need no process.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::RunId;
use protocol::steps::Steps;
use runner::{Clock, House};
use store::AnyStore;
use testkit::{Ground, stage};

pub(crate) use testkit::stage::person;

/// Opens a run of one step.
pub(crate) async fn opened(ground: &Ground) -> anyhow::Result<(AnyStore, RunId)> {
    opened_with(ground, &["a"]).await
}

/// The same with these steps, of which none needs another.
pub(crate) async fn opened_with(ground: &Ground, steps: &[&str]) -> anyhow::Result<(AnyStore, RunId)> {
    let store = ground.store().await;
    let run = RunId::new("trial")?;
    let definition = stage::side_by_side(steps, NonZeroU32::MIN).into();
    let frozen = stage::frozen::<Steps>(definition, &run, ground.path(), None);
    runner::open(&store, &Clock::system(), person(), frozen).await?;
    Ok((store, run))
}

/// A house in which nothing can be started: a test that gets so far ends, and not well.
pub(crate) fn house(store: &AnyStore) -> House {
    stage::house(store, Path::new("/bin/false"))
}
