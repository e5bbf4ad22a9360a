//! A cycle on a real store, in its first phase.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input};
use protocol::peer::{Definition, Peer, Phase};
use protocol::run::{Attempt, Change, ChangeOf};
use protocol::{TryNo, Turn};
use runner::{Clock, Journal};
use store::{AnyStore, Store};
use testkit::Ground;
use testkit::stage::{self, person};

pub(crate) type Cycle<S = AnyStore> = Journal<Peer, S>;

/// Opens a cycle and lets its planner begin.
pub(crate) async fn planning(ground: &Ground) -> anyhow::Result<Cycle> {
    planning_on(&ground.store().await, ground.path()).await
}

/// The same on a store of any kind.
pub(crate) async fn planning_on<S: Store>(store: &S, directory: &Path) -> anyhow::Result<Cycle<S>> {
    let definition = Definition { tries: NonZeroU32::MIN, ..stage::new_cycle("peer:spec:login:cycle:1") };
    let run = stage::run_of(&definition);
    let frozen = stage::frozen::<Peer>(definition, &run, directory, None);
    let mut journal = runner::open(store, &Clock::system(), person(), frozen).await?;
    let seat = Phase::Plan;
    if !journal.folded.run.chairs.contains_key(&seat) {
        append(&mut journal, store, vec![Change::Called { seat, turn: Turn(1) }]).await?;
    }
    began(&mut journal, store, 1).await?;
    Ok(journal)
}

/// The planner's try of that number begins.
pub(crate) async fn began<S: Store>(journal: &mut Cycle<S>, store: &S, number: u32) -> anyhow::Result<()> {
    let attempt = Attempt { seat: Phase::Plan, turn: Turn(1), try_no: TryNo(number) };
    append(journal, store, vec![Change::Began { attempt, counted: number }]).await
}

/// Commits what an engine would.
pub(crate) async fn append<S: Store>(
    journal: &mut Cycle<S>,
    store: &S,
    changes: Vec<ChangeOf<Peer>>,
) -> anyhow::Result<()> {
    let by = Author::Engine { host: "here".to_owned(), boot_id: "none".to_owned(), pid: 1 };
    let at = Clock::system().now().max(journal.folded.at);
    let (actions, timers) = (Vec::new(), Vec::new());
    let entry = Entry::<Peer> { v: ENTRY_VERSION, at, by, input: Input::Due, changes, actions, timers };
    Ok(stage::append(journal, store, &entry).await?)
}
