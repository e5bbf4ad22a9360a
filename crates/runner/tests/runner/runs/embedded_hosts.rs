//! The embedded store belongs to one machine, so its attempts are local even if the machine was renamed.

use protocol::PROTOCOLS;
use protocol::run::start_queued;
use runner::{Clock, Engine, EngineError, EngineRequest, Journal};
use store::{AnyStore, LockPurpose};
use testkit::TempStore;
use tokio::sync::mpsc;

use super::harness::{engine_config_without_adapter, open_run};

/// Commits the start of the run's step under another host name, as before a renaming. No agent is started.
async fn start_step(store: &AnyStore, run: &protocol::RunId) -> Journal {
    let mut journal = Journal::load(store, &Clock::system(), PROTOCOLS, run).await.unwrap().unwrap();
    let decision = start_queued(&mut journal.state.run.clone(), 1);
    testkit::harness::commit_decision(&mut journal, store.as_ref(), "another-name", decision).await;
    journal
}

#[tokio::test]
async fn a_renamed_machine_starts_its_committed_attempts() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    start_step(&store, &run).await;
    let mut observer = ();
    let engine =
        Engine::lock(&store, engine_config_without_adapter(&store), &run, LockPurpose::Engine, &mut observer)
            .await;
    let (_sender, interrupts) = mpsc::unbounded_channel();
    // No command is configured. This error comes only if the engine takes the attempt for one of its own host.
    let error = engine.unwrap().drive(EngineRequest::to_resume(None), interrupts).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::NoAdapter(missing) if missing[0].step.as_str() == "a"),
        "{error:?}"
    );
}
