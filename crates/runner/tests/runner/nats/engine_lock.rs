//! Every exit of an engine releases its lock, so that other hosts do not wait for the lease.

use protocol::RunId;
use protocol::run::Request;
use runner::{Engine, EngineError, EngineExit, EngineRequest};
use serde_json::Value;
use store::LockPurpose;
use tokio::sync::mpsc;

use super::harness::Fixture;

impl Fixture {
    /// Returns whether the engine lock of the run, a lease on the server, is held. Asks the server, because this process knows of
    /// its own release before the server does.
    pub(crate) async fn is_locked(&self) -> bool {
        let client = async_nats::connect(self.server.address()).await.unwrap();
        let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
        let subject = format!("callboard.lease.{}", self.run);
        let last = leases.get_last_raw_message_by_subject(&subject).await.unwrap();
        serde_json::from_slice::<Value>(&last.payload).unwrap()["held"] == true
    }

    async fn engine<'o>(&self, run: &RunId, observer: &'o mut ()) -> Result<Engine<'o>, EngineError> {
        Engine::lock(&self.store, self.host("a"), run, LockPurpose::Engine, observer).await
    }
}

fn engine_request(request: Request) -> EngineRequest {
    EngineRequest { request, by: None, reason: None }
}

#[tokio::test]
async fn an_engine_that_exits_releases_the_lock() {
    let fixture = Fixture::open(&["a"]).await;
    let mut observer = ();
    let engine = fixture.engine(&fixture.run, &mut observer).await.unwrap();
    assert!(fixture.is_locked().await);
    let (_sender, interrupts) = mpsc::unbounded_channel();
    let exit = engine.drive(engine_request(Request::Stop), interrupts).await.unwrap();
    assert!(matches!(exit, EngineExit::Stopped(_)), "{exit:?}");
    assert!(!fixture.is_locked().await);
}

#[tokio::test]
async fn an_engine_that_is_refused_releases_the_lock() {
    let fixture = Fixture::open(&["a"]).await;
    let mut observer = ();
    let engine = fixture.engine(&fixture.run, &mut observer).await.unwrap();
    let (_sender, interrupts) = mpsc::unbounded_channel();
    let refused = engine.drive(engine_request(Request::Retry { step: None }), interrupts).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused(_)), "{refused:?}");
    assert!(!fixture.is_locked().await);
}

#[tokio::test]
async fn a_one_shot_request_releases_the_lock_granted_or_not() {
    let fixture = Fixture::open(&["a"]).await;
    for request in [Request::Pause, Request::Retry { step: None }] {
        let mut observer = ();
        let engine = fixture.engine(&fixture.run, &mut observer).await.unwrap();
        let handled = engine.handle(engine_request(request.clone())).await;
        assert_eq!(handled.is_ok(), request == Request::Pause, "{handled:?}");
        assert!(!fixture.is_locked().await);
    }
    let mut observer = ();
    fixture.engine(&fixture.run, &mut observer).await.unwrap().write_views().await.unwrap();
    assert!(!fixture.is_locked().await);
}

#[tokio::test]
async fn an_engine_that_cannot_load_its_run_releases_the_lock() {
    let fixture = Fixture::open(&["a"]).await;
    let another = RunId::new("another").unwrap();
    let mut observer = ();
    let error = fixture.engine(&another, &mut observer).await.unwrap_err();
    assert!(matches!(error, EngineError::NoSuchRun(_)), "{error:?}");
    let fixture = Fixture { run: another, ..fixture };
    assert!(!fixture.is_locked().await);
}
