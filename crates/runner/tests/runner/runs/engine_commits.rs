//! What an engine commits, and what it does not.

use protocol::PROTOCOLS;
use protocol::entry::{Author, Entry, Input};
use protocol::run::{AttemptConsequence, Change, Request, RunStopCause};
use protocol::{AttemptId, Revision, StepKind};
use runner::{Clock, Engine, EngineError, EngineExit, EngineRequest, Journal};
use store::LockPurpose;
use supervisor::AttemptDir;
use testkit::TempStore;
use testkit::harness::peer_cycle::{commit_changes, start_planning};
use tokio::sync::mpsc;

use super::harness::{engine_config_without_adapter, engine_config_without_shim, open_run};

/// The engine exits before it can acknowledge anything, because no command is configured.
#[tokio::test]
async fn the_start_of_an_attempt_is_committed_with_its_action() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut observer = ();
    let engine =
        Engine::lock(&store, engine_config_without_adapter(&store), &run, LockPurpose::Engine, &mut observer)
            .await;
    let (_interrupt_sender, interrupts) = mpsc::unbounded_channel();
    let error = engine.unwrap().drive(EngineRequest::to_resume(None), interrupts).await.unwrap_err();
    assert!(matches!(error, EngineError::NoAdapter { .. }), "{error:?}");
    let journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    let actions: Vec<_> = journal.outbox.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(actions, ["start a#1.1"]);
}

#[tokio::test]
async fn a_partial_report_of_an_attempt_that_has_ended_is_not_applied() {
    let temp_store = TempStore::new();
    let mut cycle = start_planning(&temp_store).await;
    let store = temp_store.store().await;
    let mut config = engine_config_without_shim(&store);
    // The attempt was started on host `here`, and an engine adopts only the attempts of its own host.
    config.author = Author::Engine { host: "here".to_owned(), boot_id: config.boot_id.clone(), pid: 1 };
    let attempt: AttemptId = "plan#1.1".parse().unwrap();
    let dir = AttemptDir::new(&config.local_dir.join("attempts"), &cycle.run, &attempt);
    dir.create().unwrap();
    supervisor::partial::submit_partial(&dir, br#"{"draft": 1}"#).unwrap();
    let mut observer = ();
    let engine = Engine::lock(&store, config, &cycle.run, LockPurpose::Engine, &mut observer).await.unwrap();
    // The attempt ends after the engine has loaded the run. So the engine still watches it, and takes its partial report.
    let consequence = AttemptConsequence::Interrupted { interruptions: 1 };
    commit_changes(
        &mut cycle,
        store.as_ref(),
        vec![Change::Ended { attempt, consequence, kind: StepKind::Agent }],
    )
    .await;
    let (_interrupt_sender, interrupts) = mpsc::unbounded_channel();
    let request = EngineRequest { request: Request::Interrupt, by: None, reason: None };
    let exit = engine.drive(request, interrupts).await.unwrap();
    assert_eq!(exit, EngineExit::Stopped(RunStopCause::EngineInterrupted));
    assert_eq!(supervisor::partial::take_partial(&dir), None, "it was taken");
    let entries = store.entries(&cycle.run, Revision(0)).await.unwrap();
    let entries = entries.iter().map(|stored| Entry::decode(&stored.body).unwrap());
    assert!(entries.into_iter().all(|entry| !matches!(entry.input, Input::Edited { .. })));
}
