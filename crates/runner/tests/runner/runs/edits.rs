//! Edits of a peer cycle's document, with other clients that write at the same time.

use protocol::PROTOCOLS;
use protocol::edit::{EditRefusal, Patch};
use runner::{Clock, EditError, Edited, Journal, edit};
use serde_json::{Value, json};
use store::AnyStore;
use testkit::TempStore;
use testkit::harness::peer_cycle::{commit_changes, start_attempt, start_planning};

use super::harness::{open_run, test_author};
use crate::peer_document;

fn set(pointer: &str, value: Value) -> Patch {
    Patch::Set(vec![(pointer.to_owned(), value)])
}

/// Opens a peer cycle in a new store and starts its planner.
async fn test_env() -> (TempStore, AnyStore, Journal) {
    let temp_store = TempStore::new();
    let cycle = start_planning(&temp_store).await;
    let store = temp_store.store().await;
    (temp_store, store, cycle)
}

/// Loads the cycle as another process would.
async fn load_again(store: &AnyStore, cycle: &Journal) -> Journal {
    Journal::load(store, &Clock::system(), PROTOCOLS, &cycle.run).await.unwrap().unwrap()
}

async fn write(cycle: &mut Journal, expected: u64, patch: &Patch) -> Result<Edited, EditError> {
    edit(cycle, test_author(), None, expected, patch).await
}

#[tokio::test]
async fn an_edit_is_one_commit_and_an_edit_without_a_change_is_no_commit() {
    let (_temp_store, store, mut cycle) = test_env().await;
    let (sequence, revision) = (peer_document(&cycle).sequence, cycle.position.revision);
    let patch = set("/phases/plan/output/draft", json!(1));
    let edited = write(&mut cycle, sequence, &patch).await.unwrap();
    assert_eq!(edited, Edited { sequence: sequence + 1, revision: revision.next(), written: true });
    let again = write(&mut load_again(&store, &cycle).await, sequence, &patch).await.unwrap();
    assert_eq!(again, Edited { written: false, ..edited }, "the document contains the patch already");
    let read = load_again(&store, &cycle).await;
    assert_eq!(read.document(), cycle.document(), "memory and store agree");
    assert_eq!(peer_document(&read).history.last().unwrap().unknown["by"], "tester");
}

#[tokio::test]
async fn an_edit_is_retried_if_other_clients_changed_other_fields() {
    let (_temp_store, store, mut cycle) = test_env().await;
    let mut stale = load_again(&store, &cycle).await;
    let sequence = peer_document(&cycle).sequence;
    write(&mut cycle, sequence, &set("/note", json!("theirs"))).await.unwrap();
    let edited = write(&mut stale, sequence, &set("/phases/plan/output/draft", json!(1))).await.unwrap();
    assert_eq!((edited.sequence, edited.written), (sequence + 2, true));
    assert_eq!(peer_document(&stale).unknown["note"], "theirs", "the other write is kept");
}

#[tokio::test]
async fn a_conflict_names_both_sequences_both_revisions_and_the_last_change() {
    let (_temp_store, store, mut cycle) = test_env().await;
    let mut stale = load_again(&store, &cycle).await;
    let (sequence, revision) = (peer_document(&cycle).sequence, cycle.position.revision);
    write(&mut cycle, sequence, &set("/phases/plan/output/draft", json!(1))).await.unwrap();
    let error = write(&mut stale, sequence, &set("/phases/plan/output/draft", json!(2))).await.unwrap_err();
    let EditError::Conflict(conflict) = error else { panic!("{error}") };
    assert_eq!((conflict.expected, conflict.found), (sequence, sequence + 1));
    assert_eq!((conflict.expected_revision, conflict.found_revision), (Some(revision), revision.next()));
    // Once on the document in memory, which was stale, and once on the newest one.
    assert_eq!(conflict.tries, 2);
    let last = conflict.last.unwrap();
    assert_eq!(
        (&last["event"], &last["phase"], &last["by"]),
        (&json!("progress"), &json!("plan"), &json!("tester"))
    );
}

#[tokio::test]
async fn an_unknown_sequence_is_a_conflict_and_an_old_one_is_found() {
    let (_temp_store, store, mut cycle) = test_env().await;
    let first = peer_document(&cycle).sequence;
    for number in 0..20 {
        let sequence = peer_document(&cycle).sequence;
        write(&mut cycle, sequence, &set("/phases/plan/output/draft", json!(number))).await.unwrap();
        // The engine commits entries that do not change the document as well.
        for _ in 0..(number * number) % 7 {
            commit_changes(&mut cycle, store.as_ref(), Vec::new()).await;
        }
    }
    for sequence in [0, peer_document(&cycle).sequence + 1, u64::MAX] {
        let error = write(&mut cycle, sequence, &set("/note", json!(1))).await.unwrap_err();
        let EditError::Conflict(conflict) = error else { panic!("{error}") };
        assert_eq!((conflict.expected, conflict.expected_revision), (sequence, None));
    }
    for sequence in first..=first + 20 {
        let mut cycle = load_again(&store, &cycle).await;
        let result = write(&mut cycle, sequence, &set("/phases/plan/output/draft", json!("other"))).await;
        match result {
            Err(EditError::Conflict(conflict)) => {
                let revision = conflict.expected_revision.unwrap();
                let read = cycle.document_at(revision).await.unwrap().unwrap();
                assert_eq!(read.sequence(), Some(sequence));
                let next = cycle.document_at(revision.next()).await.unwrap().unwrap();
                assert_eq!(
                    next.sequence(),
                    Some(sequence + 1),
                    "it is the newest revision with that sequence"
                );
            }
            edited => assert!(sequence == first + 20 && edited.unwrap().written, "{sequence}"),
        }
    }
}

#[tokio::test]
async fn only_the_live_attempt_of_a_step_may_edit() {
    let (_temp_store, store, mut cycle) = test_env().await;
    let patch = set("/phases/plan/output/draft", json!(1));
    let sequence = peer_document(&cycle).sequence;
    let from = |id: &str| Some(id.parse().unwrap());
    let edited = edit(&mut cycle, test_author(), from("plan#1.1"), sequence, &patch).await.unwrap();
    assert_eq!(peer_document(&cycle).history.last().unwrap().unknown["by"], "plan#1.1");
    start_attempt(&mut cycle, store.as_ref(), 2).await;
    for not_live in ["plan#1.1", "plan#2.1", "execute#1.1"] {
        let patch = set("/phases/plan/output/draft", json!(2));
        let refused =
            edit(&mut cycle, test_author(), from(not_live), edited.sequence, &patch).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("attempt `{not_live}` is not running any more; `plan#1.2` is")
        );
    }
}

#[tokio::test]
async fn a_document_that_only_the_engine_writes_cannot_be_edited() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    let refused = edit(&mut journal, test_author(), None, 1, &set("/note", json!(1))).await.unwrap_err();
    assert!(matches!(refused, EditError::Refused(EditRefusal::DocumentNotEditable)), "{refused}");
}

#[tokio::test]
async fn concurrent_edits_of_different_fields_succeed_or_report_a_conflict() {
    let (_temp_store, store, cycle) = test_env().await;
    let sequence = peer_document(&cycle).sequence;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(load_again(&store, &cycle).await);
    }
    let mut writers = tokio::task::JoinSet::new();
    for (number, mut client) in clients.into_iter().enumerate() {
        writers.spawn(async move {
            write(&mut client, sequence, &set(&format!("/note-{number}"), json!(number))).await
        });
    }
    let (mut written, mut conflicts) = (0, 0);
    while let Some(ended) = writers.join_next().await {
        match ended.unwrap() {
            Ok(edited) => written += u64::from(edited.written),
            Err(EditError::Conflict(conflict)) => {
                assert_eq!((conflict.tries, conflict.why.as_str()), (4, "other clients kept writing"));
                conflicts += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(written + conflicts, 8);
    let read = load_again(&store, &cycle).await;
    let document = peer_document(&read);
    assert_eq!(document.sequence, sequence + written);
    assert_eq!(document.unknown.len() as u64, written);
}
