//! A peer cycle in its first phase: the planner is at work.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use protocol::peer::{Definition, Peer, Phase};
use protocol::run::{Change, Decision};
use protocol::{AttemptId, AttemptNo, Protocol as _, StepId, StepKind, Turn, protocol_kind};
use runner::{Clock, Journal};
use store::Store;

use super::{commit_decision, new_peer_cycle, run_of, run_spec, test_author};
use crate::test_env::TempStore;

/// Opens a peer cycle and starts its planner.
pub async fn start_planning(temp_store: &TempStore) -> Journal {
    start_planning_on(&*temp_store.store().await, temp_store.path()).await
}

/// Opens a peer cycle on any store and starts its planner.
pub async fn start_planning_on(store: &Arc<dyn Store>, directory: &Path) -> Journal {
    let definition =
        Definition { max_attempts: NonZeroU32::MIN, ..new_peer_cycle("peer:spec:login:cycle:1") };
    let run = run_of(&definition);
    let spec = run_spec(&definition, &run, directory, None);
    let opened = runner::open(store, &Clock::system(), protocol_kind::<Peer>(), test_author(), spec).await;
    let mut journal = opened.expect("a new peer cycle can be opened");
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
pub async fn start_attempt(journal: &mut Journal, store: &dyn Store, number: u32) {
    let attempt = AttemptId { step: plan(), turn: Turn(1), attempt_no: AttemptNo(number) };
    commit_changes(
        journal,
        store,
        vec![Change::Started { attempt, counted_attempt: number, kind: StepKind::Agent }],
    )
    .await;
}

/// Commits changes in the name of an engine.
pub async fn commit_changes(journal: &mut Journal, store: &dyn Store, changes: Vec<Change>) {
    commit_decision(journal, store, "here", Decision { changes, actions: Vec::new() }).await;
}
