//! Runs at past revisions.

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input, Timer};
use protocol::run::{AttemptConsequence, Change, Request, RunStatus, start_queued};
use protocol::steps::Steps;
use protocol::{AttemptId, AttemptNo, PROTOCOLS, Revision, StepId, StepKind, TypedMachine};
use runner::{Clock, History, Journal, ReadRevisionError, RunAtRevision};
use store::SNAPSHOT_EVERY;
use testkit::TempStore;
use testkit::harness::{append, commit_decision};

use super::harness::{open_run, test_author};

#[tokio::test]
async fn every_revision_is_shown_as_it_was_across_snapshots() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    // Each request is one entry: the run is paused at even revisions, running at odd ones. The last is after the second snapshot.
    for revision in 2..=2 * SNAPSHOT_EVERY + 3 {
        let request = if revision % 2 == 0 { Request::Pause } else { Request::Resume };
        runner::request(&mut journal, test_author(), request, Some(format!("for {revision}"))).await.unwrap();
        assert_eq!(journal.position.revision, Revision(revision));
    }
    let newest = journal.position.revision;
    for revision in
        [1, 2, SNAPSHOT_EVERY - 1, SNAPSHOT_EVERY, SNAPSHOT_EVERY + 1, 2 * SNAPSHOT_EVERY, newest.0]
    {
        let run_at = RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, Some(Revision(revision)))
            .await
            .unwrap()
            .unwrap();
        let status = if revision % 2 == 0 { RunStatus::Paused } else { RunStatus::Running };
        assert_eq!(
            (run_at.state.run.status, run_at.revision, run_at.newest),
            (status, Revision(revision), newest)
        );
        let entry = journal.entry(Revision(revision)).await.unwrap().unwrap();
        assert_eq!(
            (
                run_at.state.at,
                TypedMachine::<Steps>::of(run_at.machine()).unwrap().document.run_fields.updated_at
            ),
            (entry.at, entry.at.into()),
            "its time is the entry's"
        );
    }
    let history_at = |revision| History::read(store.as_ref(), &run, Revision(revision));
    let pause_request = history_at(2 * SNAPSHOT_EVERY + 2).await.unwrap().stopped_by.unwrap();
    assert_eq!(
        pause_request.reason,
        Some(format!("for {}", 2 * SNAPSHOT_EVERY + 2)),
        "the history is read in pages"
    );
    assert!(history_at(newest.0).await.unwrap().stopped_by.is_none());
    let run_at = RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, None).await.unwrap().unwrap();
    assert_eq!((run_at.machine().document(), run_at.state), (journal.document(), journal.state));
    assert!(store.snapshot_at(&run, newest).await.unwrap().is_some());
}

#[tokio::test]
async fn a_snapshot_keeps_a_pending_backoff() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    let start = start_queued(&mut journal.state.run.clone(), 1);
    commit_decision(&mut journal, store.as_ref(), "here", start).await;
    let attempt: AttemptId = "a#1.1".parse().unwrap();
    let consequence = AttemptConsequence::WillRetry { failures: 1, next: AttemptNo(2) };
    // The attempt has failed and is retried after a back-off, which the timer ends.
    let entry = Entry {
        v: ENTRY_VERSION,
        at: journal.state.at,
        by: test_author(),
        input: Input::Deferred,
        changes: vec![Change::Ended { attempt: attempt.clone(), consequence, kind: StepKind::Agent }],
        actions: Vec::new(),
        timers: vec![Timer { attempt: attempt.clone(), fires_at: journal.state.at, length_ms: 1 }],
    };
    append(&mut journal, store.as_ref(), &entry).await.unwrap();
    while journal.position.revision < Revision(SNAPSHOT_EVERY) {
        let is_paused = journal.state.run.status == RunStatus::Paused;
        let request = if is_paused { Request::Resume } else { Request::Pause };
        runner::request(&mut journal, test_author(), request, None).await.unwrap();
    }
    let reloaded = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    assert!(reloaded.state.timers.contains_key(&attempt), "{:?}", reloaded.state);
    assert_eq!(reloaded.state, journal.state);
}

#[tokio::test]
async fn a_revision_out_of_range_is_refused_with_the_range() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    for asked in [0, 2, u64::MAX] {
        match RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, Some(Revision(asked))).await {
            Err(error @ ReadRevisionError::OutOfRange { .. }) => {
                assert!(error.to_string().ends_with("it has 1 to 1"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    let missing = protocol::RunId::new("missing").unwrap();
    assert!(RunAtRevision::load(store.as_ref(), PROTOCOLS, &missing, None).await.unwrap().is_none());
}

#[tokio::test]
async fn the_history_shows_the_request_that_paused_the_run_and_the_waiting_steps() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    runner::request(&mut journal, test_author(), Request::Pause, Some("lunch".to_owned())).await.unwrap();
    let paused = History::read(store.as_ref(), &run, Revision(2)).await.unwrap();
    let pause_request = paused.stopped_by.unwrap();
    assert_eq!((pause_request.by, pause_request.reason.as_deref()), (test_author(), Some("lunch")));
    assert!(matches!(test_author(), Author::Person { .. }) && paused.engine.is_none());
    let opened_at = journal.entry(Revision(1)).await.unwrap().unwrap().at;
    assert_eq!(paused.idle_since.get(&StepId::new("a").unwrap()), Some(&opened_at));
    runner::request(&mut journal, test_author(), Request::Resume, None).await.unwrap();
    let resumed = History::read(store.as_ref(), &run, Revision(3)).await.unwrap();
    assert!(resumed.stopped_by.is_none());
    let before = History::read(store.as_ref(), &run, Revision(1)).await.unwrap();
    assert!(before.stopped_by.is_none(), "later entries are not read");
}

#[tokio::test]
async fn a_prompt_preview_changes_nothing() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let run_at = RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, None).await.unwrap().unwrap();
    let prompt = runner::preview_prompt(&run_at, &StepId::new("a").unwrap(), temp_store.path());
    assert_eq!(prompt.attempt.to_string(), "a#1.1");
    assert!(
        prompt.prompt.contains("Do it.") && !prompt.prompt.contains("This is attempt"),
        "{}",
        prompt.prompt
    );
    let context: serde_json::Value = serde_json::from_str(&prompt.context).unwrap();
    assert_eq!((&context["attempt"], &context["counted_attempt"]), (&"a#1.1".into(), &1.into()));
    let again = RunAtRevision::load(store.as_ref(), PROTOCOLS, &run, None).await.unwrap().unwrap();
    assert_eq!((again.machine().document(), again.revision), (run_at.machine().document(), run_at.revision));
}
