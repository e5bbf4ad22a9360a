//! What becomes of a commit that the store does not answer, or answers wrongly.

use protocol::Revision;
use protocol::edit::Patch;
use protocol::peer::Peer;
use protocol::run::{Request, RunStatus};
use protocol::steps::Steps;
use runner::{Clock, EditError, Journal, RequestError};
use store::{CommitError, Store as _, Unavailable};
use testkit::Ground;
use testkit::harness::cycle::planning;

use crate::harness::{opened_with, person};
use crate::troubled::{Answer, Troubled};

async fn scene() -> (Ground, Troubled, Journal<Steps, Troubled>) {
    let ground = Ground::new();
    let (store, run) = opened_with(&ground, &["a", "b"]).await.unwrap();
    let store = Troubled::new(store);
    let journal = Journal::load(&store, &Clock::system(), &run).await.unwrap().unwrap();
    (ground, store, journal)
}

async fn pause(journal: &mut Journal<Steps, Troubled>) -> Result<(), RequestError> {
    runner::request(journal, person(), Request::Pause, None).await
}

#[tokio::test]
async fn a_write_that_is_known_to_be_lost_is_made_again() {
    let (_ground, store, mut journal) = scene().await;
    store.answers(Answer::Nothing, 1);
    pause(&mut journal).await.unwrap();
    journal.reload().await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(2)));
}

#[tokio::test]
async fn a_write_that_is_lost_again_and_again_is_an_outage_and_not_unknown() {
    let (_ground, store, mut journal) = scene().await;
    store.answers(Answer::Nothing, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let lost = matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::Lost { .. })));
    assert!(lost, "{error:?}");
    assert_eq!(store.newest(&journal.run).await.unwrap(), Some(Revision(1)));
}

#[tokio::test]
async fn a_conflict_with_nobody_is_an_outage_and_not_a_lost_race() {
    let (_ground, store, mut journal) = scene().await;
    store.answers(Answer::Conflict, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let unmoved =
        matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::Unmoved { .. })));
    assert!(unmoved, "{error:?}");
}

#[tokio::test]
async fn a_run_that_went_on_while_all_of_it_was_read_could_not_be_paused() {
    let (_ground, store, mut journal) = scene().await;
    store.is_busy();
    journal.reload().await.unwrap();
    pause(&mut journal).await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(3)));
    // What it has caught up with is what everybody reads.
    let read =
        Journal::<Steps, _>::load(&store.store, &Clock::system(), &journal.run).await.unwrap().unwrap();
    assert_eq!((read.state, read.document), (journal.state, journal.document));
}

#[tokio::test]
async fn an_edit_that_conflicts_with_nobody_is_no_sequence_conflict() {
    let ground = Ground::new();
    let cycle = planning(&ground).await;
    let store = Troubled::new(ground.store().await);
    let mut journal = Journal::<Peer, _>::load(&store, &Clock::system(), &cycle.run).await.unwrap().unwrap();
    store.answers(Answer::Conflict, usize::from(u8::MAX));
    let patch = Patch::Set(vec![("/phases/plan/output/draft".to_owned(), 1.into())]);
    let sequence = journal.document.sequence;
    let error = runner::edit(&mut journal, person(), None, sequence, &patch).await.unwrap_err();
    let unmoved = matches!(&error, EditError::Commit(CommitError::Unavailable(Unavailable::Unmoved { .. })));
    assert!(unmoved, "{error:?}");
}
