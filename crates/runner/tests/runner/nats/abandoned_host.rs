//! A host that the user has abandoned because it will not come back. Host `a` has started `first#1.1`; the tests run on host `b`.

use protocol::entry::{Author, FailureKind};
use protocol::run::{Absorbed, Ending, Fact, Request, Stale, absorb};
use protocol::steps::Verdict;
use runner::{AbandonedHost, EngineConfig, EngineError, EngineExit};
use serde_json::json;

use super::harness::Fixture;

/// Configures an engine to abandon `host`.
fn abandoning(mut engine_config: EngineConfig, host: &str) -> EngineConfig {
    let reason = Some("its disk died".to_owned());
    let by = Author::Person { name: "tester".to_owned(), host: engine_config.host().to_owned() };
    engine_config.overrides.abandoned = Some(AbandonedHost { host: host.to_owned(), by, reason });
    engine_config
}

#[tokio::test]
async fn attempts_of_an_abandoned_host_count_as_interrupted_and_are_retried_on_this_host() {
    let fixture = Fixture::with_started_step().await;
    let exit = fixture.drive(abandoning(fixture.host("b"), "a"), Request::Resume).await.unwrap();
    assert!(matches!(exit, EngineExit::Finished(_)), "{exit:?}");
    let end = fixture.end_of(&"first#1.1".parse().unwrap()).await.unwrap();
    assert!(matches!(&end.by, Author::Person { name, .. } if name == "tester"), "{:?}", end.by);
    let evidence = end.input.evidence().unwrap();
    assert_eq!(evidence.kind, Some(FailureKind::Interrupted));
    let expected = "Agent process was interrupted: tester abandoned its host `a`: its disk died";
    assert_eq!(evidence.error.as_deref(), Some(expected));
    // The interrupted attempt does not count, so the only one that does was made on this host.
    let second_attempt = fixture.end_of(&"first#1.2".parse().unwrap()).await.unwrap();
    assert_eq!(second_attempt.by.host(), "b");
}

#[tokio::test]
async fn a_late_report_from_an_abandoned_host_is_ignored() {
    let fixture = Fixture::with_started_step().await;
    let first_attempt = fixture.journal().await.state.run.live_attempts().next().unwrap().0;
    fixture.drive(abandoning(fixture.host("b"), "a"), Request::Resume).await.unwrap();
    let mut journal = fixture.journal().await;
    let late = Fact::Ended { attempt: first_attempt, ending: Ending::Reported(json!(Verdict::Done)) };
    let absorbed = absorb(&mut journal.state.run, late);
    assert!(matches!(absorbed, Absorbed::Ignored(Stale::NoTurn | Stale::Superseded)), "{absorbed:?}");
}

#[tokio::test]
async fn a_host_without_attempts_cannot_be_abandoned() {
    let fixture = Fixture::with_started_step().await;
    for (host, is_this_host) in [("c", false), ("b", true)] {
        let before = fixture.journal().await.position;
        let refused = fixture.drive(abandoning(fixture.host("b"), host), Request::Resume).await.unwrap_err();
        let expected = format!("no attempt of it is on `{host}`; `first#1.1` is on `a`");
        assert_eq!(refused.to_string(), expected);
        assert!(matches!(refused, EngineError::NothingToAbandon { here, .. } if here == is_this_host));
        assert_eq!(fixture.journal().await.position, before, "nothing was written");
        assert!(!fixture.is_locked().await);
    }
}

#[tokio::test]
async fn a_stopping_run_is_stopped_when_its_last_host_is_abandoned() {
    let fixture = Fixture::with_started_step().await;
    fixture.drive(fixture.host("b"), Request::Stop).await.unwrap();
    let exit = fixture.drive(abandoning(fixture.host("b"), "a"), Request::Stop).await.unwrap();
    assert!(matches!(exit, EngineExit::Stopped(_)), "{exit:?}");
}
