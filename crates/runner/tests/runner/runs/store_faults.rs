//! Commits that the store does not answer, or answers wrongly.

use std::fs;
use std::num::NonZeroU32;
use std::sync::Arc;

use protocol::edit::Patch;
use protocol::run::{Request, RunStatus};
use protocol::steps::{Definition, Steps};
use protocol::{Outcome, PROTOCOLS, Revision, RunId, protocol_kind};
use runner::{Clock, EditError, Engine, EngineExit, EngineRequest, Journal, Notice, Observer, RequestError};
use store::{CommitError, LockPurpose, Store, Unavailable};
use testkit::TempStore;
use testkit::harness::peer_cycle::start_planning;
use testkit::harness::{self, CommitFault, FaultyStore};
use tokio::sync::mpsc;

use super::harness::{engine_config_without_shim, open_run_with, test_author};
use crate::peer_document;

async fn test_env() -> (TempStore, Arc<FaultyStore>, Journal) {
    let temp_store = TempStore::new();
    let (store, run) = open_run_with(&temp_store, &["a", "b"]).await.unwrap();
    let store = FaultyStore::new(store);
    let journal = store.journal(&run).await;
    (temp_store, store, journal)
}

async fn pause(journal: &mut Journal) -> Result<(), RequestError> {
    runner::request(journal, test_author(), Request::Pause, None).await
}

#[tokio::test]
async fn a_lost_write_is_retried() {
    let (_temp_store, store, mut journal) = test_env().await;
    store.set_faults(CommitFault::NoAnswer, 1);
    pause(&mut journal).await.unwrap();
    journal.reload().await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(2)));
}

/// Every refusal is recorded as an entry, so a repeated commit would add a second entry.
#[tokio::test]
async fn a_commit_without_an_answer_is_not_repeated() {
    let (_temp_store, store, mut journal) = test_env().await;
    store.set_faults(CommitFault::NoAnswerAfterCommit, 1);
    runner::record_refusal(&mut journal, test_author(), Request::Pause, "a#1.1".to_owned()).await.unwrap();
    assert_eq!(journal.position.revision, Revision(2));
    assert_eq!(store.newest_revision(&journal.run).await.unwrap(), Some(Revision(2)));
}

#[tokio::test]
async fn a_write_that_is_lost_repeatedly_is_an_outage() {
    let (_temp_store, store, mut journal) = test_env().await;
    store.set_faults(CommitFault::NoAnswer, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let lost =
        matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::WriteLost { .. })));
    assert!(lost, "{error:?}");
    assert_eq!(store.newest_revision(&journal.run).await.unwrap(), Some(Revision(1)));
}

#[tokio::test]
async fn a_conflict_without_another_writer_is_an_outage() {
    let (_temp_store, store, mut journal) = test_env().await;
    store.set_faults(CommitFault::Conflict, usize::from(u8::MAX));
    let error = pause(&mut journal).await.unwrap_err();
    let is_false_conflict =
        matches!(&error, RequestError::Commit(CommitError::Unavailable(Unavailable::FalseConflict { .. })));
    assert!(is_false_conflict, "{error:?}");
}

/// Regression: an engine that was no longer the engine of its run moved the answer of a person aside.
#[tokio::test]
async fn a_refused_commit_leaves_answer_files_where_they_are() {
    let temp_store = TempStore::new();
    let faulty = FaultyStore::new(temp_store.store().await);
    let store: Arc<dyn Store> = Arc::<FaultyStore>::clone(&faulty);
    let mut definition = harness::one_step("ship", NonZeroU32::MIN);
    definition.workflow.steps[0].agent = "person".to_owned();
    let run = RunId::new("trial").unwrap();
    let spec = harness::run_spec(Definition::from(definition), &run, temp_store.path(), None);
    let inputs = temp_store.path().join(".agents/runs/trial/manual_inputs");
    let answer = inputs.join("trial__ship.json");
    fs::create_dir_all(&inputs).unwrap();
    fs::write(&answer, r#"{"approved": true}"#).unwrap();
    let clock = Clock::system();
    let open = || runner::open(&store, &clock, protocol_kind::<Steps>(), test_author(), spec.clone());
    faulty.set_faults(CommitFault::TooLarge, 1);
    open().await.unwrap_err();
    assert!(answer.exists());
    let journal = open().await.unwrap();
    assert_eq!(journal.early_answers.len(), 1);
    assert!(!answer.exists() && inputs.join("trial__ship#early-1.json").exists());
}

/// Lets the commit after a start fail with a conflict, and counts the processes that are started.
struct ConflictAfterStart {
    store: Arc<FaultyStore>,
    processes: usize,
}

impl Observer for ConflictAfterStart {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Committed { entry, .. } if !entry.actions.is_empty() => {
                self.store.set_faults(CommitFault::Conflict, 1);
            }
            Notice::StartingOrAdopting { .. } => self.processes += 1,
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_end_of_an_attempt_is_committed_after_a_conflict() {
    let (_temp_store, store, Journal { run, .. }) = test_env().await;
    // The shim does not exist: every attempt fails at once.
    let config = engine_config_without_shim(&store.store);
    let mut observer = ConflictAfterStart { store: store.clone(), processes: 0 };
    let faulty: Arc<dyn Store> = store.clone();
    let engine = Engine::lock(&faulty, config, &run, LockPurpose::Engine, &mut observer).await.unwrap();
    let (_interrupt_sender, interrupts) = mpsc::unbounded_channel();
    let exit = engine.drive(EngineRequest::to_resume(None), interrupts);
    let exit = tokio::time::timeout(testkit::DEADLINE, exit).await.expect("the run ends");
    assert_eq!(exit.unwrap(), EngineExit::Finished(Outcome::Failed));
    assert!(!store.has_faults(), "there was a conflict");
    assert_eq!(observer.processes, 1, "the attempt was not started again");
    let read = Journal::load(&store.store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    assert_eq!(read.outbox, [], "performed actions are acknowledged");
}

#[tokio::test]
async fn a_run_that_changes_during_every_load_can_be_paused() {
    let (_temp_store, store, mut journal) = test_env().await;
    store.commit_during_loads();
    journal.reload().await.unwrap();
    pause(&mut journal).await.unwrap();
    assert_eq!((journal.state.run.status, journal.position.revision), (RunStatus::Paused, Revision(3)));
    // The state after catching up is the stored one.
    let read = Journal::load(&store.store, &Clock::system(), PROTOCOLS, &journal.run).await.unwrap().unwrap();
    assert_eq!((read.document(), read.state), (journal.document(), journal.state));
}

#[tokio::test]
async fn an_edit_conflict_without_another_writer_is_not_a_sequence_conflict() {
    let temp_store = TempStore::new();
    let cycle = start_planning(&temp_store).await;
    let store = FaultyStore::new(temp_store.store().await);
    let mut journal = store.journal(&cycle.run).await;
    store.set_faults(CommitFault::Conflict, usize::from(u8::MAX));
    let patch = Patch::Set(vec![("/phases/plan/output/draft".to_owned(), 1.into())]);
    let sequence = peer_document(&journal).sequence;
    let error = runner::edit(&mut journal, test_author(), None, sequence, &patch).await.unwrap_err();
    let is_false_conflict =
        matches!(&error, EditError::Commit(CommitError::Unavailable(Unavailable::FalseConflict { .. })));
    assert!(is_false_conflict, "{error:?}");
}
