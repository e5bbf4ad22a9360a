//! Attempts on another host are not adopted, started or failed; everything else continues.
//!
//! There are no agents: an attempt that is started by [`Fixture::drive`] fails at once, and the run fails with it. An engine
//! exits with [`EngineExit::Remote`] when all attempts that may be alive are on other hosts.

use protocol::run::{Request, RunStatus, RunStopCause};
use runner::EngineExit;

use super::harness::Fixture;

/// The attempt of [`Fixture::with_started_step`], and its host.
const ON_A: (&str, &str) = ("first#1.1", "a");

fn as_strs(attempt_hosts: &[(String, String)]) -> Vec<(&str, &str)> {
    attempt_hosts.iter().map(|(attempt, host)| (attempt.as_str(), host.as_str())).collect()
}

#[tokio::test]
async fn an_attempt_is_on_the_host_of_the_engine_that_started_it() {
    let fixture = Fixture::with_started_step().await;
    fixture.start_next("b").await;
    assert_eq!(as_strs(&fixture.attempt_hosts().await), [ON_A, ("second#1.1", "b")]);
}

/// The one slot on `b` is free, because the attempt on `a` does not take it.
#[tokio::test]
async fn an_engine_runs_all_local_steps_and_then_exits() {
    let fixture = Fixture::with_started_step().await;
    assert_eq!(fixture.drive(fixture.host("b"), Request::Resume).await.unwrap(), EngineExit::Remote);
    assert_eq!(as_strs(&fixture.attempt_hosts().await), [ON_A], "it is unchanged");
    assert!(fixture.end_of(&"second#1.1".parse().unwrap()).await.is_some(), "it ran on `b`");
    assert!(!fixture.is_locked().await);
    let journal = fixture.journal().await;
    let left: Vec<_> = journal.outbox.iter().map(|item| item.id.as_str()).collect();
    // The failure on `b` makes the run fail, so the attempt on `a` is to be stopped.
    assert_eq!(left, ["start first#1.1", "stop first#1.1"], "the actions for `a` stay in the outbox");
}

#[tokio::test]
async fn an_engine_that_returns_adopts_the_attempts_of_its_host() {
    let fixture = Fixture::with_started_step().await;
    fixture.drive(fixture.host("b"), Request::Resume).await.unwrap();
    // The run has failed with the step on `b`, and finishes when the attempt on `a` has ended.
    let exit = fixture.drive(fixture.host("a"), Request::Resume).await.unwrap();
    assert!(matches!(exit, EngineExit::Finished(_)), "{exit:?}");
    let end = fixture.end_of(&"first#1.1".parse().unwrap()).await.unwrap();
    assert_eq!(end.by.host(), "a");
}

#[tokio::test]
async fn a_run_is_stopping_as_long_as_an_attempt_is_on_another_host() {
    let fixture = Fixture::with_started_step().await;
    assert_eq!(fixture.drive(fixture.host("b"), Request::Stop).await.unwrap(), EngineExit::Remote);
    assert_eq!(fixture.journal().await.state.run.status, RunStatus::Stopping(RunStopCause::Requested));
    assert_eq!(as_strs(&fixture.attempt_hosts().await), [ON_A]);
    // Only the host of the attempt can stop it.
    assert_eq!(
        fixture.drive(fixture.host("a"), Request::Stop).await.unwrap(),
        EngineExit::Stopped(RunStopCause::Requested)
    );
    assert_eq!(as_strs(&fixture.attempt_hosts().await), []);
}

#[tokio::test]
async fn an_engine_does_not_wait_in_a_paused_run_with_remote_attempts_only() {
    let fixture = Fixture::with_started_step().await;
    assert_eq!(fixture.drive(fixture.host("b"), Request::Pause).await.unwrap(), EngineExit::Remote);
    assert!(!fixture.is_locked().await);
}
