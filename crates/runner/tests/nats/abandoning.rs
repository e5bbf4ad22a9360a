//! A person says that a host does not come back.

use protocol::entry::{Author, FailureKind};
use protocol::run::{Absorbed, Ending, Fact, Request, Stale, absorb};
use protocol::steps::Verdict;
use runner::{Abandoned, EngineConfig, EngineError, EngineExit};

use crate::harness::Scene;

/// A host on which another one is given up.
fn giving_up(mut engine_config: EngineConfig, host: &str) -> EngineConfig {
    let reason = Some("its disk died".to_owned());
    let by = Author::Person { name: "tester".to_owned(), host: engine_config.host().to_owned() };
    engine_config.overrides.abandoned = Some(Abandoned { host: host.to_owned(), by, reason });
    engine_config
}

#[tokio::test]
async fn what_was_on_it_counts_as_interrupted_and_is_tried_again_here() {
    let scene = Scene::begun().await;
    let rest = scene.play(giving_up(scene.host("b"), "a"), Request::Resume).await.unwrap();
    assert!(matches!(rest, EngineExit::Finished(_)), "{rest:?}");
    let over = scene.over(&"first#1.1".parse().unwrap()).await.unwrap();
    assert!(matches!(&over.by, Author::Person { name, .. } if name == "tester"), "{:?}", over.by);
    let evidence = over.input.evidence().unwrap();
    assert_eq!(evidence.kind, Some(FailureKind::Interrupted));
    let told = "Agent process was interrupted: tester gave up its host `a`: its disk died";
    assert_eq!(evidence.error.as_deref(), Some(told));
    // It cost no attempt: there is only one, and it was played here.
    let again = scene.over(&"first#1.2".parse().unwrap()).await.unwrap();
    assert_eq!(again.by.host(), "b");
}

#[tokio::test]
async fn a_late_report_of_it_is_a_stragglers() {
    let scene = Scene::begun().await;
    let first = scene.journal().await.state.run.live_attempts().next().unwrap().0;
    scene.play(giving_up(scene.host("b"), "a"), Request::Resume).await.unwrap();
    let mut journal = scene.journal().await;
    let late = Fact::Ended { attempt: first, ending: Ending::Reported(Verdict::Done) };
    let absorbed = absorb(&journal.spec.definition, &mut journal.state.run, late);
    assert!(matches!(absorbed, Absorbed::Ignored(Stale::NoTurn | Stale::Superseded)), "{absorbed:?}");
}

#[tokio::test]
async fn a_host_that_has_nothing_cannot_be_given_up() {
    let scene = Scene::begun().await;
    for (host, is_here) in [("c", false), ("b", true)] {
        let before = scene.journal().await.position;
        let refused = scene.play(giving_up(scene.host("b"), host), Request::Resume).await.unwrap_err();
        let told = format!("no attempt of it is on `{host}`; `first#1.1` is on `a`");
        assert_eq!(refused.to_string(), told);
        assert!(matches!(refused, EngineError::NothingToAbandon { here, .. } if here == is_here));
        assert_eq!(scene.journal().await.position, before, "nothing was written");
        assert!(!scene.is_led().await);
    }
}

#[tokio::test]
async fn a_run_that_halts_has_halted_when_the_host_is_given_up() {
    let scene = Scene::begun().await;
    scene.play(scene.host("b"), Request::Stop).await.unwrap();
    let rest = scene.play(giving_up(scene.host("b"), "a"), Request::Stop).await.unwrap();
    assert!(matches!(rest, EngineExit::Stopped(_)), "{rest:?}");
}
