//! Refused writes and their messages, and the writes that `walk.rs` does not make. The matrix is the table "Transitions" in
//! `docs/peer.md`; S1 and F8 are rules of the same page.

use protocol::peer::change::{self, ChangeError, ErrorDetail, ReviewFields, UnknownFields};
use protocol::peer::transition::{check_write, recognise};
use protocol::peer::{
    Document, Event, HistoryEntry, Phase, PhaseStatus, Transition, WriteRefusal, check_document,
};
use serde_json::{Value, json};

use super::{new_cycle, opened, output, second};

fn message(result: Result<Document, ChangeError>) -> String {
    result.unwrap_err().to_string()
}

/// A cycle whose phases up to this one are completed.
fn completed(until: Phase) -> Document {
    let mut document = opened();
    for phase in Phase::ALL.into_iter().filter(|phase| *phase <= until) {
        document = change::start(&document, phase, second(1)).unwrap();
        document = change::complete(&document, phase, output(phase), second(2)).unwrap();
    }
    document
}

fn error() -> ErrorDetail {
    ErrorDetail { kind: "crash".to_owned(), message: "it broke".to_owned() }
}

#[test]
fn a_change_outside_the_matrix_is_refused_with_cycle_and_both_statuses() {
    let planned = completed(Phase::Plan);
    assert_eq!(
        message(change::start(&planned, Phase::Express, second(3))),
        "cycle `peer:spec:login:cycle:2` cannot go from plan completed to express in_progress"
    );
    assert_eq!(
        message(change::complete_cycle(&planned, second(3))),
        "cycle `peer:spec:login:cycle:2` cannot go from plan completed to completed"
    );
    let failed = change::fail(&planned, Phase::Execute, error(), second(3)).unwrap();
    assert_eq!(
        message(change::start(&failed, Phase::Execute, second(4))),
        "cycle `peer:spec:login:cycle:2` cannot go from execute failed to execute in_progress"
    );
    assert_eq!(failed.phases.execute.started_at, None, "it failed before it started");
    let reviewed = completed(Phase::Review);
    assert!(change::fail(&reviewed, Phase::Review, error(), second(3)).is_err(), "all phases are completed");
}

#[test]
fn a_phase_is_not_completed_without_a_valid_output() {
    let started = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    let error = change::complete(&started, Phase::Plan, json!({"phases": []}), second(2)).unwrap_err();
    let ChangeError::Output { violations, .. } = error else { panic!("{error}") };
    let pointers: Vec<_> = violations.iter().map(|found| found.pointer.as_str()).collect();
    assert_eq!(pointers, ["/phases/plan/output", "/phases/plan/output/phases"]);
    let reviewing = change::start(&completed(Phase::Express), Phase::Review, second(3)).unwrap();
    let fields = ReviewFields { insights: Some(json!({"learnings": 7})), ..ReviewFields::default() };
    let error = change::complete_review(&reviewing, output(Phase::Review), fields, second(4)).unwrap_err();
    assert!(error.to_string().contains("`/learnings` of `insights`"), "{error}");
}

#[test]
fn the_time_of_a_write_never_goes_back() {
    let started = change::start(&opened(), Phase::Plan, second(10)).unwrap();
    let progressed = change::progress(&started, Phase::Plan, json!({}), second(5)).unwrap();
    assert_eq!(progressed.metadata.updated_at, second(10));
    let failed_once = change::fail_attempt(&progressed, Phase::Plan, error(), second(5)).unwrap();
    assert_eq!(failed_once.phases.plan.errors()[0].timestamp, second(10));
    let mut earlier = failed_once.clone();
    earlier.sequence += 1;
    earlier.metadata.updated_at = second(9);
    assert!(recognise(Some(&failed_once), &earlier).is_err());
}

#[test]
fn a_phase_is_reused_only_from_the_cycle_that_is_continued() {
    let failed = change::fail(&completed(Phase::Plan), Phase::Execute, error(), second(3)).unwrap();
    let reuse = |continues: Option<&str>| {
        let next = change::initialise(new_cycle("peer:spec:login:cycle:3", continues), second(4));
        let mut started = change::start(&next, Phase::Plan, second(5)).unwrap();
        started.phases.plan.reused_from = Some(failed.cycle_id.clone());
        recognise(Some(&next), &started)
    };
    assert_eq!(reuse(Some("peer:spec:login:cycle:2")), Ok(Transition::Started(Phase::Plan)));
    assert_eq!(reuse(None).unwrap_err().violations[0].pointer, "/phases/plan/reused_from");
}

#[test]
fn a_recovery_continues_from_the_highest_sequence() {
    let good = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    let newer = change::progress(&good, Phase::Plan, json!({"a": 1}), second(2)).unwrap();
    let recovered = change::recover(&good, newer.sequence + 4, 2, 7, second(9));
    assert_eq!((recovered.sequence, check_document(&recovered).violations), (8, vec![]));
    assert_eq!(recovered.history.last().unwrap().unknown["bad_revision"], 7);
    assert_eq!(recognise(Some(&newer), &recovered), Ok(Transition::Recovered));
    let other = Document { cycle_id: "peer:spec:login:cycle:9".parse().unwrap(), ..recovered.clone() };
    assert!(recognise(Some(&newer), &other).is_err(), "another cycle");
    let rewritten =
        change::recover(&change::start(&opened(), Phase::Plan, second(0)).unwrap(), 6, 2, 7, second(9));
    assert!(recognise(Some(&newer), &rewritten).is_err(), "another history");
    // The cycle continues from there.
    let done = change::complete(&recovered, Phase::Plan, output(Phase::Plan), second(10)).unwrap();
    assert_eq!(recognise(Some(&recovered), &done), Ok(Transition::Completed(Phase::Plan)));
}

#[test]
fn the_history_of_a_migrated_cycle_is_numbered_from_1() {
    let mut migrated = completed(Phase::Plan);
    let mut entry = migrated.history.last().unwrap().clone();
    (entry.phase, entry.event, entry.sequence) = (None, Event::Migrated, 4);
    migrated.history.push(entry);
    migrated.sequence = 4;
    assert_eq!(recognise(None, &migrated), Ok(Transition::Migrated));
    migrated.sequence = 5;
    assert_eq!(recognise(None, &migrated).unwrap_err().violations[0].rule, "S1");
    let refusal = recognise(None, &completed(Phase::Plan)).unwrap_err();
    assert!(
        refusal.to_string().starts_with("cycle `peer:spec:login:cycle:2` cannot begin as plan completed")
    );
}

#[test]
fn progress_may_come_without_an_entry_and_with_unknown_fields() {
    let started = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    let mut without_entry = change::progress(&started, Phase::Plan, json!({"a": 1}), second(2)).unwrap();
    without_entry.history.pop();
    let plain = Transition::Progress { phase: Phase::Plan, unknown_fields: false };
    assert_eq!(recognise(Some(&started), &without_entry), Ok(plain));
    assert_eq!(
        check_document(&without_entry).warnings.len(),
        1,
        "a gap in the numbers, which docs/peer.md calls only a warning"
    );
    without_entry.context.unknown.insert("x".to_owned(), json!(1));
    let both = Transition::Progress { phase: Phase::Plan, unknown_fields: true };
    assert_eq!(recognise(Some(&started), &without_entry), Ok(both));
    let mut only_unknown_fields =
        change::set_unknown_fields(&started, UnknownFields::of(&without_entry), second(2));
    only_unknown_fields.history.pop();
    assert_eq!(recognise(Some(&started), &only_unknown_fields), Ok(Transition::UnknownFields));
}

#[test]
fn each_forbidden_change_is_reported_with_rule_and_pointer() {
    let started = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    let done = change::complete(&started, Phase::Plan, output(Phase::Plan), second(2)).unwrap();
    let refusal_after = |change: &dyn Fn(&mut Value)| {
        let mut value = done.to_value();
        change(&mut value);
        match check_write(Some(&started), &value).unwrap_err() {
            WriteRefusal::Invalid(invalid) => {
                let found =
                    invalid.violations.iter().map(|found| format!("{} {}", found.rule, found.pointer));
                found.collect::<Vec<_>>().join(", ")
            }
            WriteRefusal::Violations(violations) => format!("{violations:?}"),
        }
    };
    assert_eq!(refusal_after(&|value| value["sequence"] = json!(9)), "S1 /sequence");
    assert_eq!(refusal_after(&|value| value["x_owner"] = json!("me")), "F8 /x_owner");
    assert_eq!(
        refusal_after(&|value| value["phases"]["review"]["x_new"] = json!(1)),
        "F8 /phases/review/x_new"
    );
    assert_eq!(
        refusal_after(&|value| value["context"]["user_requirements"] = json!("else")),
        "matrix /context/user_requirements"
    );
    assert_eq!(refusal_after(&|value| value["history"][0]["by"] = json!("me")), "matrix /history/0/by");
    assert_eq!(
        refusal_after(&|value| value["phases"]["execute"]["output"] = json!({"a": 1})),
        "matrix /phases/execute/output"
    );
    let mut skips_a_number = done.clone();
    skips_a_number.sequence += 1;
    let refusal = recognise(Some(&started), &skips_a_number).unwrap_err();
    assert_eq!(refusal.violations[0].rule, "S1");
    assert_eq!(check_write(Some(&started), &json!({})).unwrap_err().kind(), "schema_validation_failed");
}

#[test]
fn progress_cannot_remove_the_errors_of_failed_attempts() {
    let started = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    let failed_once = change::fail_attempt(&started, Phase::Plan, error(), second(2)).unwrap();
    let mut cleared = change::progress(&failed_once, Phase::Plan, json!({"a": 1}), second(3)).unwrap();
    cleared.phases.plan.errors = Some(Vec::new());
    assert_eq!(
        recognise(Some(&failed_once), &cleared).unwrap_err().violations[0].pointer,
        "/phases/plan/errors/0"
    );
    let again = change::fail_attempt(&failed_once, Phase::Plan, error(), second(4)).unwrap();
    assert_eq!(again.phases.plan.errors().len(), 2);
    assert_eq!(again.phases.plan.status, PhaseStatus::InProgress);
}

/// An imported document may have such an entry, but no write adds one.
#[test]
fn a_write_that_compacts_the_history_is_refused() {
    let mut document = change::start(&opened(), Phase::Plan, second(1)).unwrap();
    for number in 0..3 {
        document = change::progress(&document, Phase::Plan, json!(number), second(2)).unwrap();
    }
    let mut compacted = document.clone();
    compacted.sequence += 1;
    let entry = HistoryEntry::new(second(2), None, Event::Compacted, compacted.sequence);
    compacted.history.splice(2..4, []);
    compacted.history.push(entry);
    let last = &mut compacted.history.last_mut().unwrap().unknown;
    last.extend([("from".to_owned(), json!(3)), ("to".to_owned(), json!(4))]);
    assert_eq!(check_document(&compacted), protocol::peer::RuleViolations::default());
    assert_eq!(
        recognise(Some(&document), &compacted).unwrap_err().violations,
        [],
        "no transition has this entry"
    );
}
