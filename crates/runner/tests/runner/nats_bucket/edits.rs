//! Concurrent edits of one document, and edits whose answer is lost.

use std::time::Duration;

use protocol::PROTOCOLS;
use protocol::edit::Patch;
use runner::{Clock, EditError, Journal, edit};
use serde_json::json;
use store::{CommitError, NatsSettings, NatsStore};
use testkit::harness::peer_cycle::start_planning_on;
use testkit::harness::test_author;
use testkit::nats::{self, Proxy, Server};

use super::Fixture;
use crate::peer_document;

/// Returns a patch that sets a field of the planner's output.
fn draft(text: impl serde::Serialize) -> Patch {
    Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!(text))])
}

#[tokio::test]
async fn of_eight_updates_with_one_expected_sequence_exactly_one_wins() {
    let fixture = Fixture::new().await;
    one_of_eight_wins(&fixture.settings(), &fixture.cycle).await;
}

/// A cluster reports most of the conflicts with another error code.
#[tokio::test]
async fn of_eight_updates_with_one_expected_sequence_exactly_one_wins_on_three_servers() {
    let (servers, directory) = (Server::start_cluster(), tempfile::tempdir().unwrap());
    let addresses = servers.each_ref().map(Server::address).join(",");
    let settings = NatsSettings { replicas: 3, ..nats::settings(&addresses) };
    let store = NatsStore::new(settings.clone());
    let cycle = start_planning_on(&nats::any_store(store.clone()), directory.path()).await;
    assert_eq!(store.open().await.unwrap(), [], "no warning: everything has three replicas");
    one_of_eight_wins(&settings, &cycle).await;
}

async fn one_of_eight_wins(settings: &NatsSettings, cycle: &Journal) {
    let expected = peer_document(cycle).sequence;
    for round in 0..5 {
        let expected = expected + round;
        // Each writer has a connection of its own, as in its own process. All have read before the first one writes.
        let mut cycles = Vec::new();
        for _ in 0..8 {
            cycles.push(load(NatsStore::new(settings.clone()), cycle).await);
        }
        let mut writers = tokio::task::JoinSet::new();
        for (number, mut cycle) in cycles.into_iter().enumerate() {
            let patch = draft(format!("{round} {number}"));
            writers.spawn(async move { edit(&mut cycle, test_author(), None, expected, &patch).await });
        }
        let (won, lost): (Vec<_>, Vec<_>) = writers.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        assert_eq!(won[0].as_ref().unwrap().sequence, expected + 1);
        for error in lost {
            let Err(EditError::Conflict(conflict)) = error else { panic!("{error:?}") };
            assert_eq!((conflict.expected, conflict.found), (expected, expected + 1));
        }
    }
    let document = peer_document(&load(NatsStore::new(settings.clone()), cycle).await);
    assert_eq!((document.sequence, document.history.len() as u64), (expected + 5, document.sequence));
}

#[tokio::test]
async fn a_write_that_landed_without_an_answer_is_in_the_history_once() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to(&fixture.server).await;
    // The outage timeout is so long that the store waits for the answer.
    let mut cycle = load_through(&fixture, proxy.store(Duration::from_secs(60))).await;
    let document = peer_document(&cycle);
    let (expected, entries) = (document.sequence, document.history.len());
    let (stored, _) = fixture.client.get().await;
    proxy.drop_answers_after_bucket_write();
    let writing =
        tokio::spawn(async move { edit(&mut cycle, test_author(), None, expected, &draft("once")).await });
    while fixture.client.get().await.0 == stored {}
    // The write has landed. The store finds out as soon as the server answers.
    proxy.cut();
    assert_eq!(writing.await.unwrap().unwrap().sequence, expected + 1);
    let (_, entry) = fixture.client.get().await;
    assert_eq!(
        (&entry["sequence"], entry["history"].as_array().unwrap().len()),
        (&json!(expected + 1), entries + 1)
    );
    assert_eq!(peer_document(&fixture.load_again().await).history.len(), entries + 1);
}

#[tokio::test]
async fn an_edit_repeated_after_an_unknown_outcome_is_made_once() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::to(&fixture.server).await;
    // The outage timeout ends the wait for the answer.
    let mut cycle = load_through(&fixture, proxy.store(Duration::from_millis(300))).await;
    let document = peer_document(&cycle);
    let (expected, entries) = (document.sequence, document.history.len());
    proxy.drop_answers_after_bucket_write();
    let unknown = edit(&mut cycle, test_author(), None, expected, &draft("once")).await;
    assert!(matches!(unknown, Err(EditError::Commit(CommitError::OutcomeUnknown { .. }))), "{unknown:?}");
    let mut cycle = fixture.load_again().await;
    let again = edit(&mut cycle, test_author(), None, expected, &draft("once")).await.unwrap();
    assert_eq!((again.sequence, again.written), (expected + 1, false));
    assert_eq!(peer_document(&cycle).history.len(), entries + 1);
}

/// Loads the cycle through a store behind a proxy.
async fn load_through(fixture: &Fixture, store: NatsStore) -> Journal {
    load(store, &fixture.cycle).await
}

async fn load(store: NatsStore, cycle: &Journal) -> Journal {
    Journal::load(&nats::any_store(store), &Clock::system(), PROTOCOLS, &cycle.run).await.unwrap().unwrap()
}
