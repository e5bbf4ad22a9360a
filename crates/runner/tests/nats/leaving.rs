//! However an engine ends, other hosts need not wait for its lease.

use protocol::run::Request;
use protocol::steps::Steps;
use protocol::{RunId, StepId};
use runner::{Engine, EngineError, EngineExit, EngineRequest};
use serde_json::Value;
use store::{NatsStore, Tenure};
use tokio::sync::mpsc;

use crate::harness::Scene;

impl Scene {
    /// Whether the server says that somebody leads. In the process that led, only the server's word can be believed.
    pub(crate) async fn is_led(&self) -> bool {
        let client = async_nats::connect(self.server.address()).await.unwrap();
        let leases = async_nats::jetstream::new(client).get_stream("callboard-leases").await.unwrap();
        let subject = format!("callboard.lease.{}", self.run);
        let last = leases.get_last_raw_message_by_subject(&subject).await.unwrap();
        serde_json::from_slice::<Value>(&last.payload).unwrap()["held"] == true
    }

    async fn engine<'o>(
        &self,
        run: &RunId,
        nobody: &'o mut (),
    ) -> Result<Engine<'o, Steps, NatsStore>, EngineError> {
        Engine::lock(&self.store, self.host("a"), run, Tenure::Engine, nobody).await
    }
}

fn asked(request: Request<StepId>) -> EngineRequest<StepId> {
    EngineRequest { request, by: None, reason: None }
}

#[tokio::test]
async fn an_engine_that_rests_has_given_the_lead_back() {
    let scene = Scene::open(&["a"]).await;
    let mut nobody = ();
    let engine = scene.engine(&scene.run, &mut nobody).await.unwrap();
    assert!(scene.is_led().await);
    let (_keep, interrupts) = mpsc::unbounded_channel();
    let rest = engine.drive(asked(Request::Stop), interrupts).await.unwrap();
    assert!(matches!(rest, EngineExit::Stopped(_)), "{rest:?}");
    assert!(!scene.is_led().await);
}

#[tokio::test]
async fn an_engine_that_is_refused_has_given_the_lead_back() {
    let scene = Scene::open(&["a"]).await;
    let mut nobody = ();
    let engine = scene.engine(&scene.run, &mut nobody).await.unwrap();
    let (_keep, interrupts) = mpsc::unbounded_channel();
    let refused = engine.drive(asked(Request::Retry { step: None }), interrupts).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused(_)), "{refused:?}");
    assert!(!scene.is_led().await);
}

#[tokio::test]
async fn an_errand_has_given_the_lead_back_granted_or_not() {
    let scene = Scene::open(&["a"]).await;
    for request in [Request::Pause, Request::Retry { step: None }] {
        let mut nobody = ();
        let engine = scene.engine(&scene.run, &mut nobody).await.unwrap();
        let obliged = engine.handle(asked(request.clone())).await;
        assert_eq!(obliged.is_ok(), request == Request::Pause, "{obliged:?}");
        assert!(!scene.is_led().await);
    }
    let mut nobody = ();
    scene.engine(&scene.run, &mut nobody).await.unwrap().show_all().await.unwrap();
    assert!(!scene.is_led().await);
}

#[tokio::test]
async fn an_engine_that_cannot_load_its_run_has_given_the_lead_back() {
    let scene = Scene::open(&["a"]).await;
    let another = RunId::new("another").unwrap();
    let mut nobody = ();
    let error = scene.engine(&another, &mut nobody).await.unwrap_err();
    assert!(matches!(error, EngineError::NoSuchRun(_)), "{error:?}");
    let scene = Scene { run: another, ..scene };
    assert!(!scene.is_led().await);
}
