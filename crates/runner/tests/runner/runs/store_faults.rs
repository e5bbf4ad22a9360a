//! Commits that the store does not answer, or answers wrongly.

use std::sync::Arc;

use protocol::edit::Patch;
use protocol::run::{Request, RunStatus};
use protocol::{KINDS, Revision};
use runner::{Clock, EditError, Journal, RequestError};
use store::{CommitError, Store as _, Unavailable};
use testkit::TempStore;
use testkit::harness::cycle::start_planning;

use super::faulty_store::{Answer, FaultyStore};
use super::harness::{opened_with, person};
use crate::cycle_document;

async fn scene() -> (TempStore, Arc<FaultyStore>, Journal) {
    let temp_store = TempStore::new();
    let (store, run) = opened_with(&temp_store, &["a", "b"]).await.unwrap();
    let store = FaultyStore::new(store);
    let journal = store.journal(&run).await;
    (temp_store, store, journal)
}

async fn pause(journal: &mut Journal) -> Result<(), RequestError> {
    runner::request(journal, person(), Request::Pause, None).await
}

#[tokio::test]
async fn a_lost_write_is_retried() {
    let (_temp_store, store, mut journal) = scene().await;
    store.answers(Answer::Nothing, 1);
    pause(&mut journal).await.unwrap();
    journal.reload().await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(2)));
}

#[tokio::test]
async fn a_write_that_is_lost_repeatedly_is_an_outage() {
    let (_temp_store, store, mut journal) = scene().await;
    store.answers(Answer::Nothing, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let lost = matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::Lost { .. })));
    assert!(lost, "{error:?}");
    assert_eq!(store.newest(&journal.run).await.unwrap(), Some(Revision(1)));
}

#[tokio::test]
async fn a_conflict_without_another_writer_is_an_outage() {
    let (_temp_store, store, mut journal) = scene().await;
    store.answers(Answer::Conflict, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let unmoved =
        matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::Unmoved { .. })));
    assert!(unmoved, "{error:?}");
}

#[tokio::test]
async fn a_run_that_moves_during_every_load_can_be_paused() {
    let (_temp_store, store, mut journal) = scene().await;
    store.commit_during_loads();
    journal.reload().await.unwrap();
    pause(&mut journal).await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(3)));
    // The state after catching up is the stored one.
    let read = Journal::load(&store.store, &Clock::system(), KINDS, &journal.run).await.unwrap().unwrap();
    assert_eq!((read.document(), read.state), (journal.document(), journal.state));
}

#[tokio::test]
async fn an_edit_conflict_without_another_writer_is_not_a_sequence_conflict() {
    let temp_store = TempStore::new();
    let cycle = start_planning(&temp_store).await;
    let store = FaultyStore::new(temp_store.store().await);
    let mut journal = store.journal(&cycle.run).await;
    store.answers(Answer::Conflict, usize::from(u8::MAX));
    let patch = Patch::Set(vec![("/phases/plan/output/draft".to_owned(), 1.into())]);
    let sequence = cycle_document(&journal).sequence;
    let error = runner::edit(&mut journal, person(), None, sequence, &patch).await.unwrap_err();
    let unmoved = matches!(&error, EditError::Commit(CommitError::Unavailable(Unavailable::Unmoved { .. })));
    assert!(unmoved, "{error:?}");
}
