//! A cycle in its first phase.

use std::num::NonZeroU32;
use std::path::Path;

use protocol::peer::{Definition, Peer, Phase};
use protocol::run::{Attempt, Change, ChangeOf, Decision};
use protocol::{AttemptNo, Turn};
use runner::{Clock, Journal};
use store::{AnyStore, Store};

use super::{decided, new_cycle, person, run_of, spec};
use crate::backing::Ground;

pub type Cycle<S = AnyStore> = Journal<Peer, S>;

/// Opens a cycle and lets its planner begin.
pub async fn planning(ground: &Ground) -> Cycle {
    planning_on(&ground.store().await, ground.path()).await
}

/// The same on a store of any kind.
pub async fn planning_on<S: Store>(store: &S, directory: &Path) -> Cycle<S> {
    let definition = Definition { max_attempts: NonZeroU32::MIN, ..new_cycle("peer:spec:login:cycle:1") };
    let run = run_of(&definition);
    let spec = spec::<Peer>(definition, &run, directory, None);
    let opened = runner::open(store, &Clock::system(), person(), spec).await;
    let mut journal = opened.expect("a new cycle can be opened");
    let step = Phase::Plan;
    if !journal.state.run.active_turns.contains_key(&step) {
        engine_writes(&mut journal, store, vec![Change::Queued { step, turn: Turn(1) }]).await;
    }
    began(&mut journal, store, 1).await;
    journal
}

/// The planner's try of that number begins.
pub async fn began<S: Store>(journal: &mut Cycle<S>, store: &S, number: u32) {
    let attempt = Attempt { step: Phase::Plan, turn: Turn(1), attempt_no: AttemptNo(number) };
    engine_writes(journal, store, vec![Change::Started { attempt, counted_attempt: number }]).await;
}

/// Commits what an engine would.
pub async fn engine_writes<S: Store>(journal: &mut Cycle<S>, store: &S, changes: Vec<ChangeOf<Peer>>) {
    decided(journal, store, "here", Decision { changes, actions: Vec::new() }).await;
}
