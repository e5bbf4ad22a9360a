//! Requests that are committed between two steps of an engine, on a real store.

use protocol::StepId;
use protocol::run::{Request, RunStatus, StopCause};
use protocol::steps::Steps;
use runner::{Clock, Engine, EngineExit, EngineRequest, Journal};
use store::{Store as _, Tenure};
use testkit::Ground;
use tokio::sync::mpsc;

use crate::harness::{engine_config, opened, person};

/// What a request by somebody else between an engine's load and its first commit comes to.
async fn overtaken_by(request: Request<StepId>) -> anyhow::Result<(Option<EngineExit>, RunStatus)> {
    let ground = Ground::new();
    let (store, run) = opened(&ground).await?;
    let mut nobody = ();
    let engine =
        Engine::<Steps, _>::lock(&store, engine_config(&store), &run, Tenure::Engine, &mut nobody).await?;
    let journal = Journal::<Steps, _>::load(&store, &Clock::system(), &run).await?;
    let mut journal = journal.ok_or_else(|| anyhow::anyhow!("the run is gone"))?;
    runner::request(&mut journal, person(), request, None).await?;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // A paused engine stays until it is told to go.
    let paused = journal.state.run.status == RunStatus::Paused;
    if paused {
        interrupt.send(())?;
    }
    let rest = engine.drive(EngineRequest::to_resume(None), interrupts).await;
    journal.reload().await?;
    let entries = store.entries(&run, protocol::Revision(0)).await?;
    assert!(entries.iter().all(|entry| !entry.body.contains("\"began\"")), "something was started");
    Ok((rest.ok(), journal.state.run.status))
}

#[tokio::test]
async fn a_stop_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = StopCause::Requested;
    assert_eq!(
        overtaken_by(Request::Stop).await.unwrap(),
        (Some(EngineExit::Stopped(halted)), RunStatus::Stopped(halted))
    );
}

#[tokio::test]
async fn a_pause_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = StopCause::Interrupted;
    assert_eq!(
        overtaken_by(Request::Pause).await.unwrap(),
        (Some(EngineExit::Stopped(halted)), RunStatus::Stopped(halted))
    );
}
