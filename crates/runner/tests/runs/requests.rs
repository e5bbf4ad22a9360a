//! Requests that are committed between two steps of an engine, on a real store.

use protocol::StepId;
use protocol::run::{Request, RunStatus, StopCause};
use protocol::steps::Steps;
use runner::{Asked, Clock, Engine, Journal, Rest};
use store::{Store as _, Tenure};
use testkit::Ground;
use tokio::sync::mpsc;

use crate::stage::{house, opened, person};

/// What a request by somebody else between an engine's load and its first commit comes to.
async fn overtaken_by(request: Request<StepId>) -> anyhow::Result<(Option<Rest>, RunStatus)> {
    let ground = Ground::new();
    let (store, run) = opened(&ground).await?;
    let mut nobody = ();
    let engine = Engine::<Steps, _>::lead(&store, house(&store), &run, Tenure::Engine, &mut nobody).await?;
    let journal = Journal::<Steps, _>::load(&store, &Clock::system(), &run).await?;
    let mut journal = journal.ok_or_else(|| anyhow::anyhow!("the run is gone"))?;
    runner::request(&mut journal, person(), request, None).await?;
    let (interrupt, interrupts) = mpsc::unbounded_channel();
    // A paused engine stays until it is told to go.
    let paused = journal.folded.run.status == RunStatus::Paused;
    if paused {
        interrupt.send(())?;
    }
    let rest = engine.play(Asked::to_resume(None), interrupts).await;
    journal.reload().await?;
    let entries = store.entries(&run, protocol::Revision(0)).await?;
    assert!(entries.iter().all(|entry| !entry.body.contains("\"began\"")), "something was started");
    Ok((rest.ok(), journal.folded.run.status))
}

#[tokio::test]
async fn a_stop_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = StopCause::Requested;
    assert_eq!(
        overtaken_by(Request::Stop).await.unwrap(),
        (Some(Rest::Halted(halted)), RunStatus::Stopped(halted))
    );
}

#[tokio::test]
async fn a_pause_between_an_engines_load_and_its_first_commit_is_not_undone() {
    let halted = StopCause::Interrupted;
    assert_eq!(
        overtaken_by(Request::Pause).await.unwrap(),
        (Some(Rest::Halted(halted)), RunStatus::Stopped(halted))
    );
}
