//! Engines of runs whose steps are effects, which need no process.

use std::fs;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::entry::Input;
use protocol::run::{Action, Decision, Fact, Request, RunStatus, RunStopCause, consider, start_queued};
use protocol::steps::{Definition, StepEffect, Steps};
use protocol::{Outcome, PROTOCOLS, RunId, StepId, protocol_kind};
use runner::{Clock, Engine, EngineConfig, EngineExit, EngineRequest, Journal, PendingEffect, PerformEffect};
use serde_json::{Map, Value};
use store::{AnyStore, LockPurpose, Store};
use testkit::TempStore;
use testkit::harness::{self, CommitFault, FaultyStore, commit_decision};
use tokio::sync::mpsc;

use super::harness::{engine_config_without_adapter, test_author};

/// Waits for a request to stop, for a while; then it has been performed.
#[derive(Debug)]
struct UntilStopped(Duration);

impl PerformEffect for UntilStopped {
    fn find(&self, _: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        Ok(None)
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let deadline = Instant::now() + self.0;
        while Instant::now() < deadline {
            if pending_effect.stop.is_requested() {
                return Err("it was stopped".to_owned());
            }
            std::thread::yield_now();
        }
        Ok(Map::new())
    }
}

fn config(store: &AnyStore, effect: UntilStopped) -> EngineConfig {
    let effects = runner::Effects::from([("fast-forward", Arc::new(effect) as Arc<dyn PerformEffect>)]);
    EngineConfig { effects, ..engine_config_without_adapter(store) }
}

/// Opens a run of effects, each after the one before.
async fn open_effects(store: &Arc<dyn Store>, temp_store: &TempStore, steps: &[&str]) -> Journal {
    let mut definition = harness::independent_steps(steps, NonZeroU32::MIN);
    let ids: Vec<_> = definition.workflow.steps.iter().map(|step| step.id.clone()).collect();
    for (number, step) in definition.workflow.steps.iter_mut().enumerate() {
        step.agent = "callboard".to_owned();
        step.effect = Some(StepEffect::FastForward);
        step.needs = ids[..number].last().cloned().into_iter().collect();
    }
    let run = RunId::new("trial").unwrap();
    let spec = harness::run_spec(Definition::from(definition), &run, temp_store.path(), None);
    runner::open(store, &Clock::system(), protocol_kind::<Steps>(), test_author(), spec).await.unwrap()
}

async fn drive(store: &Arc<dyn Store>, config: EngineConfig, run: &RunId, request: Request) -> EngineExit {
    let mut observer = ();
    let engine = Engine::lock(store, config, run, LockPurpose::Engine, &mut observer).await.unwrap();
    let (_interrupt_sender, interrupts) = mpsc::unbounded_channel();
    engine.drive(EngineRequest { request, by: None, reason: None }, interrupts).await.unwrap()
}

/// The engine before was killed after it had told the effect to stop and that was recorded: the outbox is empty.
#[tokio::test]
async fn an_effect_that_was_being_stopped_is_stopped_by_the_next_engine() {
    let temp_store = TempStore::new();
    let store = temp_store.store().await;
    let mut journal = open_effects(&store, &temp_store, &["ship"]).await;
    let host = linux::host_name();
    let start = start_queued(&mut journal.state.run.clone(), 1);
    commit_decision(&mut journal, store.as_ref(), &host, Decision { actions: Vec::new(), ..start }).await;
    let stop = consider(&mut journal.state.run.clone(), &Request::Stop).unwrap();
    assert!(matches!(stop.actions.as_slice(), [Action::Stop { .. }]), "{stop:?}");
    commit_decision(&mut journal, store.as_ref(), &host, Decision { actions: Vec::new(), ..stop }).await;
    let config = config(&store, UntilStopped(Duration::from_secs(5)));
    let exit = drive(&store, config, &journal.run, Request::Stop).await;
    assert_eq!(exit, EngineExit::Stopped(RunStopCause::Requested), "the effect was performed");
}

/// Without its mark, the next engine would take the file of the report for that of another program.
#[tokio::test]
async fn the_mark_of_a_view_survives_a_commit_that_met_a_conflict() {
    let temp_store = TempStore::new();
    let any_store = temp_store.store().await;
    let journal = open_effects(&any_store, &temp_store, &["a", "b"]).await;
    let mut conflicts = 1;
    let faulty = FaultyStore::with_fault_for_entry(any_store.clone(), move |entry| match &entry.input {
        Input::Fact { fact: Fact::Ended { attempt, .. }, .. }
            if attempt.step.as_str() == "b" && conflicts > 0 =>
        {
            conflicts -= 1;
            Some(CommitFault::Conflict)
        }
        _ => None,
    });
    let store: Arc<dyn Store> = faulty;
    let exit =
        drive(&store, config(&any_store, UntilStopped(Duration::ZERO)), &journal.run, Request::Resume).await;
    assert!(matches!(exit, EngineExit::Finished(_)), "{exit:?}");
    let read = Journal::load(&store, &Clock::system(), PROTOCOLS, &journal.run).await.unwrap().unwrap();
    for step in ["a", "b"] {
        let path = read.machine().report_view_path(&StepId::new(step).unwrap()).unwrap();
        assert!(fs::exists(&path).unwrap());
        assert!(read.views.iter().any(|mark| mark.path.ends_with(&path)), "{step}: {:?}", read.views);
    }
}

/// Without it, the engine would end as if the report had been committed.
#[tokio::test]
async fn a_report_that_is_too_large_for_a_commit_is_a_failure_in_the_journal() {
    let temp_store = TempStore::new();
    let any_store = temp_store.store().await;
    let journal = open_effects(&any_store, &temp_store, &["ship"]).await;
    let mut is_too_large = true;
    let store: Arc<dyn Store> = FaultyStore::with_fault_for_entry(any_store.clone(), move |entry| {
        let is_end = matches!(&entry.input, Input::Fact { fact: Fact::Ended { .. }, .. });
        (is_end && std::mem::take(&mut is_too_large)).then_some(CommitFault::TooLarge)
    });
    let exit =
        drive(&store, config(&any_store, UntilStopped(Duration::ZERO)), &journal.run, Request::Resume).await;
    let read = Journal::load(&store, &Clock::system(), PROTOCOLS, &journal.run).await.unwrap().unwrap();
    let failed = Outcome::Failed;
    assert_eq!((exit, read.state.run.status), (EngineExit::Finished(failed), RunStatus::Finished(failed)));
    let last = read.entry(read.position.revision).await.unwrap().unwrap();
    let error = last.input.evidence().unwrap().error.as_deref().unwrap_or_default();
    assert!(error.starts_with("Agent report is too large"), "{error}");
}
