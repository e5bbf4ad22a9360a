//! A cycle, which is a run of the protocol `peer`, in its first phase: the planner is at work.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use protocol::peer::{Definition, Peer, Phase};
use protocol::run::{Change, Decision};
use protocol::{AttemptId, AttemptNo, KindOf, Protocol as _, StepId, StepKind, Turn};
use runner::{Clock, Journal};
use store::Store;

use super::{commit_decision, new_cycle, run_of, spec, test_author};
use crate::test_env::TempStore;

/// The journal of a run of the protocol `peer`.
pub type Cycle = Journal;

/// Opens a cycle and starts its planner.
pub async fn start_planning(temp_store: &TempStore) -> Cycle {
    start_planning_on(&*temp_store.store().await, temp_store.path()).await
}

/// Opens a cycle on any store and starts its planner.
pub async fn start_planning_on(store: &Arc<dyn Store>, directory: &Path) -> Cycle {
    let definition = Definition { max_attempts: NonZeroU32::MIN, ..new_cycle("peer:spec:login:cycle:1") };
    let run = run_of(&definition);
    let spec = spec(&definition, &run, directory, None);
    let opened = runner::open(store, &Clock::system(), KindOf::<Peer>::STATIC, test_author(), spec).await;
    let mut journal = opened.expect("a new cycle can be opened");
    let step = plan();
    if !journal.state.run.active_turns.contains_key(&step) {
        commit_changes(&mut journal, store.as_ref(), vec![Change::Queued { step, turn: Turn(1) }]).await;
    }
    start_attempt(&mut journal, store.as_ref(), 1).await;
    journal
}

fn plan() -> StepId {
    Peer::step_id(&Phase::Plan)
}

/// Starts the planner's attempt of that number.
pub async fn start_attempt(journal: &mut Cycle, store: &dyn Store, number: u32) {
    let attempt = AttemptId { step: plan(), turn: Turn(1), attempt_no: AttemptNo(number) };
    commit_changes(
        journal,
        store,
        vec![Change::Started { attempt, counted_attempt: number, kind: StepKind::Agent }],
    )
    .await;
}

/// Commits changes in the name of an engine.
pub async fn commit_changes(journal: &mut Cycle, store: &dyn Store, changes: Vec<Change>) {
    commit_decision(journal, store, "here", Decision { changes, actions: Vec::new() }).await;
}
