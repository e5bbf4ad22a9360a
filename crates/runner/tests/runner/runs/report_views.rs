//! The view files of reports.

use std::fs;
use std::sync::Arc;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Input};
use protocol::report::{Report, ReportIdentity};
use protocol::run::{AttemptConsequence, Change, Decision, Ending, Fact};
use protocol::{AttemptId, PROTOCOLS, StepId, StepKind, Turn};
use runner::{Clock, Engine, Journal};
use serde_json::{Value, json};
use store::{LockPurpose, Store};
use testkit::TempStore;
use testkit::harness::{append, commit_decision};

use super::harness::{engine_config_without_adapter, open_run};

/// Its engine was killed before it wrote a view, or the run is taken over by another host, which has no views of it.
#[tokio::test]
async fn of_several_reports_of_a_step_the_view_that_is_written_again_shows_the_last() {
    let temp_store = TempStore::new();
    let (store, run) = open_run(&temp_store).await.unwrap();
    let mut journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap().unwrap();
    let step = StepId::new("a").unwrap();
    for turn in 1..=3 {
        let attempt: AttemptId = format!("a#{turn}.1").parse().unwrap();
        if turn > 1 {
            let queued = Change::Queued { step: step.clone(), turn: Turn(turn) };
            commit_changes(&mut journal, store.as_ref(), vec![queued]).await;
        }
        let started = Change::Started { attempt: attempt.clone(), counted_attempt: 1, kind: StepKind::Agent };
        commit_changes(&mut journal, store.as_ref(), vec![started]).await;
        let identity =
            ReportIdentity { run_id: run.clone(), step_id: step.clone(), agent: "coder".to_owned() };
        let Value::Object(fields) = json!({ "logs": [format!("of turn {turn}")] }) else { unreachable!() };
        let report = Report::completed(&identity, journal.state.at, fields);
        let evidence = Evidence { report: Some(report), ..Evidence::default() };
        let ending = Ending::Reported(json!("done"));
        let entry = Entry {
            v: ENTRY_VERSION,
            at: Clock::system().now().max(journal.state.at),
            by: Author::Engine { host: linux::host_name(), boot_id: "then".to_owned(), pid: 1 },
            input: Input::Fact {
                fact: Fact::Ended { attempt: attempt.clone(), ending },
                evidence: Some(Arc::new(evidence)),
            },
            changes: vec![Change::Ended {
                attempt,
                consequence: AttemptConsequence::Reported,
                kind: StepKind::Agent,
            }],
            actions: Vec::new(),
            timers: Vec::new(),
        };
        append(&mut journal, store.as_ref(), &entry).await.unwrap();
    }
    let path = journal.machine().report_view_path(&step).unwrap();
    // The first engine finds views without marks. The second finds all but one unchanged.
    for _ in 0..2 {
        let _ = fs::remove_file(&path);
        let mut observer = ();
        let config = engine_config_without_adapter(&store);
        let engine = Engine::lock(&store, config, &run, LockPurpose::OneShot, &mut observer).await.unwrap();
        engine.write_views().await.unwrap();
        let view = fs::read_to_string(&path).unwrap();
        assert!(view.contains("of turn 3"), "{view}");
    }
}

async fn commit_changes(journal: &mut Journal, store: &dyn Store, changes: Vec<Change>) {
    let decision = Decision { changes, actions: Vec::new() };
    commit_decision(journal, store, &linux::host_name(), decision).await;
}
