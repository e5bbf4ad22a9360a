//! The document of `steps`: the original's examples, and the documents of runs entry by entry.

mod data_loops;
mod journal;
mod specified;

use journal::{Journal, attempt, ending_with, error_evidence, report_evidence};
use protocol::Timestamp;
use protocol::entry::{Entry, Input};
use protocol::run::{self, Absorbed, Ending, Fact, RunState};
use protocol::steps::{Document, Status, Verdict};

#[test]
fn the_originals_examples_are_read_and_written_unchanged() {
    for text in [
        include_str!("../../fixtures/steps/failed-step.json"),
        include_str!("../../fixtures/steps/human-in-the-loop.json"),
        include_str!("../../fixtures/steps/in-progress.json"),
        include_str!("../../fixtures/steps/loop-back-iteration.json"),
    ] {
        let document: Document = serde_json::from_str(text).unwrap();
        let before: serde_json::Value = serde_json::from_str(text).unwrap();
        let after: serde_json::Value = serde_json::from_str(&document.render()).unwrap();
        assert_eq!(after.to_string(), before.to_string(), "same fields in the same order");
    }
}

#[test]
fn unknown_fields_are_kept_and_written_back() {
    let mut value: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/steps/failed-step.json")).unwrap();
    value["colour"] = "green".into();
    value["steps"]["coding"]["loop_index"] = 3.into();
    let document: Document = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&document).unwrap(), value);
}

#[test]
fn the_document_follows_a_step_from_start_through_failure_to_completion() {
    // One step: its id, its `needs`, its `loop_back_to`.
    let mut journal = Journal::open(&[("a", &[], None)]);
    let a = journal.step("a");
    assert_eq!(
        (a.status, a.attempts, a.started_at.map(|at| at.stamp().as_micros())),
        (Status::Running, 1, Some(1_000_000))
    );

    journal.ended(attempt("a", 1, 1), Ending::Failed, error_evidence("Agent process exited with code 1"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts), (Status::Pending, 1));
    assert_eq!(a.last_error.as_deref(), Some("Agent process exited with code 1"));

    let fact = Fact::BackoffElapsed { attempt: attempt("a", 1, 1) };
    let Absorbed::Decided(decision) = run::absorb(&mut journal.state.run, fact.clone()) else {
        panic!("the fact should be absorbed");
    };
    journal.commit(Input::Fact { fact, evidence: None }, decision);
    assert_eq!((journal.step("a").status, journal.step("a").attempts), (Status::Running, 2));

    journal.ended(attempt("a", 1, 2), ending_with(Verdict::Done), report_evidence("a", "COMPLETED"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts, a.last_error.clone()), (Status::Completed, 2, None));
    assert_eq!(a.report_path.as_deref(), Some("/repo/.agents/runs/f8c1a491/reports/f8c1a491__a.json"));
    assert_eq!(
        (a.artifacts.clone(), a.logs.clone()),
        (vec!["PLAN.md".to_owned()], vec!["did it".to_owned()])
    );
    assert_eq!(a.metrics["lines"], "245");
    assert_eq!(journal.document().run_fields.updated_at.stamp().as_micros(), 4_000_000);
}

#[test]
fn a_stopped_attempt_does_not_count() {
    let mut journal = Journal::open(&[("a", &[], None), ("b", &[], None)]);
    journal.request(run::Request::Stop);
    journal.ended(attempt("a", 1, 1), Ending::Stopped, error_evidence("Agent process was stopped"));
    let a = journal.step("a");
    assert_eq!((a.status, a.attempts), (Status::Pending, 0));
    assert_eq!(a.last_error.as_deref(), Some("Agent process was stopped"));
}

#[test]
fn entries_fold_to_the_state_and_parts_assemble_to_the_document() {
    let mut journal = Journal::open(&[("a", &[], None), ("b", &[], None)]);
    journal.ended(attempt("b", 1, 1), Ending::Interrupted, error_evidence("shim killed"));
    journal.ended(attempt("a", 1, 1), ending_with(Verdict::Done), report_evidence("a", "OK"));
    // `blank` is the machine before the first entry.
    let mut state = RunState::empty(Box::new(journal.blank.clone()), Timestamp::from_micros(0));
    for entry in &journal.entries {
        let decoded = Entry::decode(&entry.encode()).unwrap();
        assert_eq!(&decoded, entry);
        state.fold(&decoded).unwrap();
    }
    assert_eq!(state, journal.state);
    let blank = Box::new(journal.blank.clone());
    assert_eq!(RunState::decode_snapshot(blank, &state.encode_snapshot()).unwrap(), state);
    let parts: Vec<_> = journal.parts.clone().into_iter().collect();
    let machine = &journal.state.run.machine;
    assert_eq!(machine.assemble(&parts), Some(machine.document()));
}
