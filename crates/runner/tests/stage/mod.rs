//! A run on a real store, for tests that need no process.

#![allow(dead_code, reason = "no test needs all of it")]

use std::num::NonZeroU32;
use std::path::Path;

use protocol::RunId;
use protocol::steps::Steps;
use runner::{Clock, House};
use store::{Location, SqliteStore};
use testkit::stage;

pub(crate) use testkit::stage::person;

/// Opens a run of one step.
pub(crate) async fn opened(directory: &Path) -> anyhow::Result<(SqliteStore, RunId)> {
    let store = SqliteStore::open(&Location::find(directory, Some(directory.join("store")))?)?;
    let run = RunId::new("trial")?;
    let definition = stage::one_step("a", NonZeroU32::MIN).into();
    let frozen = stage::frozen::<Steps>(definition, &run, directory, None);
    runner::open(&store, &Clock::system(), person(), frozen).await?;
    Ok((store, run))
}

/// A house in which nothing can be started: a test that gets so far ends, and not well.
pub(crate) fn house(store: &SqliteStore) -> House {
    stage::house(store, Path::new("/bin/false"))
}
