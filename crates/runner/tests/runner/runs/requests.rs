//! Requests that are committed between an engine's load and its first commit.

use protocol::PROTOCOLS;
use protocol::run::{Request, RunStatus, RunStopCause};
use runner::{Clock, Engine, EngineExit, EngineRequest, Journal};
use store::LockPurpose;
use testkit::TempStore;
use tokio::sync::mpsc;

use super::harness::{engine_config_without_adapter, open_run, test_author};

/// Commits a request after an engine has loaded the run, then drives the engine. Returns its exit and the run's
/// status.
async fn drive_after(request: Request) -> anyhow::Result<(Option<EngineExit>, RunStatus)> {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await?;
    let mut observer = ();
    let engine =
        Engine::lock(&store, engine_config_without_adapter(&store), &run, LockPurpose::Engine, &mut observer)
            .await?;
    let journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await?;
    let mut journal = journal.ok_or_else(|| anyhow::anyhow!("the run is gone"))?;
    runner::request(&mut journal, test_author(), request, None).await?;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // The engine of a paused run exits only when it is interrupted.
    let is_paused = journal.state.run.status == RunStatus::Paused;
    if is_paused {
        interrupt.send(())?;
    }
    let exit = engine.drive(EngineRequest::to_resume(None), interrupts).await;
    journal.reload().await?;
    let entries = store.entries(&run, protocol::Revision(0)).await?;
    assert!(entries.iter().all(|entry| !entry.body.contains("\"started\"")), "an attempt was started");
    Ok((exit.ok(), journal.state.run.status))
}

#[tokio::test]
async fn a_stop_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let cause = RunStopCause::Requested;
    assert_eq!(
        drive_after(Request::Stop).await.unwrap(),
        (Some(EngineExit::Stopped(cause)), RunStatus::Stopped(cause))
    );
}

#[tokio::test]
async fn a_pause_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let cause = RunStopCause::EngineInterrupted;
    assert_eq!(
        drive_after(Request::Pause).await.unwrap(),
        (Some(EngineExit::Stopped(cause)), RunStatus::Stopped(cause))
    );
}
