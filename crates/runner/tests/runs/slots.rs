//! On a store that no other machine can have, an attempt is here, whatever this machine was called when it began.

use protocol::run::start_queued;
use protocol::steps::Steps;
use runner::{Clock, Engine, EngineError, EngineRequest, Journal};
use store::{AnyStore, Tenure};
use testkit::{Ground, embedded_only};
use tokio::sync::mpsc;

use crate::harness::{engine_config, opened};

/// A run whose step was begun on this machine while it had another name.
async fn begun(store: &AnyStore, run: &protocol::RunId) -> Journal<Steps, AnyStore> {
    let mut journal = Journal::load(store, &Clock::system(), run).await.unwrap().unwrap();
    let decision = start_queued::<Steps>(&journal.spec.definition, &mut journal.state.run.clone(), 1);
    testkit::harness::decided(&mut journal, store, "another-name", decision).await;
    journal
}

#[tokio::test]
async fn a_machine_that_was_renamed_takes_up_its_attempts() {
    embedded_only!("on a shared store another name is another machine");
    let ground = Ground::new();
    let (store, run) = opened(&ground).await.unwrap();
    begun(&store, &run).await;
    let mut nobody = ();
    let engine =
        Engine::<Steps, _>::lock(&store, engine_config(&store), &run, Tenure::Engine, &mut nobody).await;
    let (_keep, interrupts) = mpsc::unbounded_channel();
    // Nobody plays here; that it was asked for shows that the attempt was to be started.
    let error = engine.unwrap().drive(EngineRequest::to_resume(None), interrupts).await.unwrap_err();
    assert!(matches!(&error, EngineError::NoProfile { step, .. } if step == "a"), "{error:?}");
}
