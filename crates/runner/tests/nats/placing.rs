//! Attempts on another host are neither adopted nor started nor counted as vanished; everything else goes on.

use protocol::run::{Request, RunStatus, StopCause};
use runner::EngineExit;

use crate::harness::Scene;

const ON_A: (&str, &str) = ("first#1.1", "a");

fn are(placed: &[(String, String)]) -> Vec<(&str, &str)> {
    placed.iter().map(|(attempt, host)| (attempt.as_str(), host.as_str())).collect()
}

#[tokio::test]
async fn an_attempt_is_placed_on_the_host_of_the_engine_that_began_it() {
    let scene = Scene::begun().await;
    scene.begin("b").await;
    assert_eq!(are(&scene.placed().await), [ON_A, ("second#1.1", "b")]);
}

/// There is one place on `b`, and the attempt on `a` does not take it.
#[tokio::test]
async fn an_engine_goes_on_with_all_that_is_not_on_another_host_and_then_leaves() {
    let scene = Scene::begun().await;
    assert_eq!(scene.play(scene.host("b"), Request::Resume).await.unwrap(), EngineExit::Remote);
    assert_eq!(are(&scene.placed().await), [ON_A], "nobody has touched it");
    assert!(scene.over(&"second#1.1".parse().unwrap()).await.is_some(), "it was played on `b`");
    assert!(!scene.is_led().await);
    let journal = scene.journal().await;
    let left: Vec<_> = journal.outbox.iter().map(|item| item.id.as_str()).collect();
    // The failure on `b` has ended the run.
    assert_eq!(left, ["start first#1.1", "end first#1.1"], "what is to be done there is left to `a`");
}

#[tokio::test]
async fn an_engine_that_comes_back_takes_up_what_is_on_its_host() {
    let scene = Scene::begun().await;
    scene.play(scene.host("b"), Request::Resume).await.unwrap();
    // The step on `b` has failed, so the run ends with the one on `a`.
    let rest = scene.play(scene.host("a"), Request::Resume).await.unwrap();
    assert!(matches!(rest, EngineExit::Finished(_)), "{rest:?}");
    let over = scene.over(&"first#1.1".parse().unwrap()).await.unwrap();
    assert_eq!(over.by.host(), "a");
}

#[tokio::test]
async fn a_run_that_is_stopped_goes_on_halting_while_an_attempt_is_on_another_host() {
    let scene = Scene::begun().await;
    assert_eq!(scene.play(scene.host("b"), Request::Stop).await.unwrap(), EngineExit::Remote);
    assert_eq!(scene.journal().await.state.run.status, RunStatus::Stopping(StopCause::Requested));
    assert_eq!(are(&scene.placed().await), [ON_A]);
    // What it was to be told is told by whoever can.
    assert_eq!(
        scene.play(scene.host("a"), Request::Stop).await.unwrap(),
        EngineExit::Stopped(StopCause::Requested)
    );
    assert_eq!(are(&scene.placed().await), []);
}

#[tokio::test]
async fn a_paused_run_whose_attempt_is_on_another_host_is_left_to_it() {
    let scene = Scene::begun().await;
    assert_eq!(scene.play(scene.host("b"), Request::Pause).await.unwrap(), EngineExit::Remote);
    assert!(!scene.is_led().await);
}
