//! `kill -9` at random moments, as a test. `scripts/torture` runs it long.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use protocol::peer::{Document, Peer};
use protocol::{Revision, RunId};
use runner::Moment;
use store::{Location, SqliteStore};
use testkit::Scene;
use testkit::torture::Torture;

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("CALLBOARD_TORTURE_* are numbers"))
}

/// The documents of a cycle's run, one for each revision.
fn documents(scene: &Scene, run: &str) -> Vec<Document> {
    let store = SqliteStore::open(&Location::find(scene.repo(), None).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = RunId::new(run).unwrap();
    let at = |revision| runtime.block_on(Moment::<Peer>::at(&store, &run, revision)).unwrap().unwrap();
    (1..=at(None).newest.0).map(|revision| at(Some(Revision(revision))).document).collect()
}

#[test]
fn nothing_is_lost_or_repeated_whatever_is_killed() {
    let torture = Torture {
        program: env!("CARGO_BIN_EXE_callboard").into(),
        documents,
        kills: u32::try_from(number("CALLBOARD_TORTURE_KILLS", 100)).unwrap(),
        seed: number("CALLBOARD_TORTURE_SEED", 1),
    };
    let tally = torture.run();
    println!("{tally}");
    assert!(tally.engine_kills > 0 && tally.adopted > 0, "it killed without effect: {tally}");
}
