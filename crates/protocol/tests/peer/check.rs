//! The rules of a cycle's document (F: fields, P: phases, S: sequence numbers; `docs/peer.md` lists them). The
//! original's example keeps every rule. For each rule there are documents that break only this one.

use protocol::check::Violation;
use protocol::peer::{Document, check, check_document};
use serde_json::{Value, json};

use crate::json_pointers::pointers;

fn example() -> Value {
    serde_json::from_str(include_str!("../fixtures/peer/cycle.json")).unwrap()
}

/// The example with this value at the pointer, or without the field.
fn with(pointer: &str, value: Option<Value>) -> Value {
    let mut document = example();
    put(&mut document, pointer, value);
    document
}

/// Sets the value at the pointer, appends it if the pointer ends with `/-`, or removes the field.
fn put(document: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match (document.pointer_mut(parent).unwrap(), value) {
        (Value::Object(fields), Some(value)) => {
            fields.insert(key.to_owned(), value);
        }
        (Value::Object(fields), None) => {
            fields.shift_remove(key).unwrap();
        }
        (Value::Array(items), Some(value)) => match key.parse::<usize>() {
            Ok(index) => items[index] = value,
            Err(_) => items.push(value),
        },
        (Value::Array(items), None) => {
            items.remove(key.parse::<usize>().unwrap());
        }
        (other, _) => panic!("{other} has no members"),
    }
}

fn line(violation: &Violation) -> String {
    let Violation { rule, pointer, message, repair } = violation;
    format!("{pointer} [{rule}] {message} ({repair})")
}

fn shown(document: &Value) -> String {
    check(document).violations.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Asserts that the document breaks this rule at this pointer, and no other.
fn assert_breaks(rule: &str, pointer: &str, document: &Value) {
    let found = check(document).violations;
    let found: Vec<_> = found.iter().map(|found| (found.rule, found.pointer.as_str())).collect();
    assert_eq!(found, [(rule, pointer)], "{}", shown(document));
}

/// Asserts that the example breaks this rule if it has this value at the pointer.
fn assert_breaks_with(rule: &str, pointer: &str, value: Value) {
    assert_breaks(rule, pointer, &with(pointer, Some(value)));
}

/// Asserts that the example breaks this rule without the field at the pointer.
fn assert_breaks_without(rule: &str, pointer: &str) {
    let (parent, _) = pointer.rsplit_once('/').unwrap();
    assert_breaks(rule, parent, &with(pointer, None));
}

#[test]
fn the_originals_example_keeps_every_rule_and_its_gaps_are_warnings() {
    let checked = check(&example());
    assert_eq!(checked.violations, []);
    insta::assert_snapshot!(checked.warnings.iter().map(line).collect::<Vec<_>>().join("\n"), @"
    /history/0/sequence [S3] the history has no entry for the writes 1 to 9 (allowed if no start, completion or failure is missing; Callboard itself leaves no gaps)
    /history/1/sequence [S3] the history has no entry for the writes 11 to 14 (allowed if no start, completion or failure is missing; Callboard itself leaves no gaps)
    /sequence [S3] the history has no entry for the writes 17 to 42 (allowed if no start, completion or failure is missing; Callboard itself leaves no gaps)
    ");
    let document: Document = serde_json::from_value(example()).unwrap();
    assert_eq!(check_document(&document), checked);
}

#[test]
fn f1_another_version_needs_migration_and_is_not_checked_further() {
    for version in
        [json!(1), json!(1.1), json!("1.0"), json!("1.1"), json!(0), json!(null), json!("2"), json!(2.0)]
    {
        let mut document = with("/version", Some(version));
        document["phases"] = json!([]);
        assert_breaks("F1", "/version", &document);
        assert!(shown(&document).contains("needs migration"), "{}", shown(&document));
        assert!(shown(&document).contains("`callboard import --peer`"));
    }
    assert_breaks_without("F1", "/version");
    assert_breaks_with("F1", "/version", json!(3));
    assert!(shown(&with("/version", Some(json!(3)))).contains("later Callboard"));
}

#[test]
fn f2_the_cycle_id_has_its_form_and_agrees_with_the_metadata() {
    assert_breaks_without("F2", "/cycle_id");
    for id in [
        "peer:spec:feature-name",
        "peer:spec:feature-name:cycle:0",
        "spec:x:cycle:1",
        "peer:spec:e\u{301}:cycle:1",
    ] {
        assert_breaks_with("F2", "/cycle_id", json!(id));
    }
    assert_breaks_with("F2", "/cycle_id", json!(7));
    assert_breaks_with("F2", "/metadata/key_prefix", json!("peer:spec:other"));
    assert_breaks_with("F2", "/metadata/key_prefix", json!("spec:other"));
    assert_breaks_with("F2", "/metadata/cycle_number", json!(2));
    assert_breaks_with("F2", "/metadata/spec_name", json!("other"));
    assert_breaks_with("F2", "/context/spec_aware", json!(false));
    let mut global = example();
    global["cycle_id"] = json!("peer:global:cycle:1");
    global["metadata"]["key_prefix"] = json!("peer:global");
    global["context"]["spec_aware"] = json!(false);
    assert_breaks("F2", "/metadata/spec_name", &global);
    put(&mut global, "/metadata/spec_name", None);
    assert_eq!(shown(&global), "");
}

#[test]
fn f3_the_sequence_is_a_whole_number_from_one() {
    for sequence in [json!(0), json!(-1), json!(42.5), json!("42"), json!(9_007_199_254_740_992_u64)] {
        assert_breaks_with("F3", "/sequence", sequence);
    }
    assert_breaks_without("F3", "/sequence");
    assert_eq!(shown(&with("/sequence", Some(json!(9_007_199_254_740_991_u64)))), "");
}

#[test]
fn f4_the_status_is_one_of_four_words() {
    for status in [json!("running"), json!("In_Progress"), json!("COMPLETED"), json!(1), json!(null)] {
        assert_breaks_with("F4", "/metadata/status", status);
    }
    assert_breaks_without("F4", "/metadata/status");
    assert!(
        shown(&with("/metadata/status", Some(json!("in-progress")))).contains("did you mean `in_progress`?")
    );
}

#[test]
fn f5_the_other_fields_are_required() {
    for field in [
        "instruction",
        "key_prefix",
        "cycle_number",
        "created_at",
        "updated_at",
        "current_phase",
        "spec_name",
    ] {
        assert_breaks_without("F5", &format!("/metadata/{field}"));
    }
    for field in ["peer_mode", "spec_aware", "instruction_args", "user_requirements"] {
        assert_breaks_without("F5", &format!("/context/{field}"));
    }
    assert_breaks_with("F5", "/metadata/instruction", json!(" "));
    assert_breaks_with("F5", "/metadata/current_phase", json!("planning"));
    assert_breaks_with("F5", "/metadata/cycle_number", json!(0));
    assert_breaks_with("F5", "/context/peer_mode", json!("resume"));
    assert_breaks_with("F5", "/context/spec_aware", json!("yes"));
    assert_breaks_with("F5", "/context/user_requirements", json!(null));
    assert_breaks_with("F5", "/context/continues", json!("cycle 1"));
    assert_breaks_with("F5", "/phases/deploy", json!({"status": "pending"}));
    assert_breaks_with("F5", "/phases/review", json!("pending"));
    assert_breaks_without("F5", "/phases/review");
    for field in ["timestamp", "phase", "event"] {
        assert_breaks_without("F5", &format!("/history/1/{field}"));
    }
    assert_breaks_with("F5", "/history/1/phase", json!("planing"));
    assert_breaks("F5", "/history/3", &with("/history/-", Some(json!("started"))));
    for document in [json!([]), json!(null), json!("x")] {
        assert_breaks("F5", "", &document);
    }
    let mut misspelt = with("/phases/review", None);
    misspelt["phases"]["reviw"] = json!({"status": "pending"});
    assert_eq!(
        shown(&misspelt),
        "/phases [F5] `phases` of the document has no `review` (rename `reviw` to `review`)"
    );
}

#[test]
fn f6_a_phase_has_the_fields_of_its_status() {
    assert_breaks_with("F6", "/phases/express/status", json!("waiting"));
    assert_breaks_without("F6", "/phases/express/status");
    assert_breaks_without("F6", "/phases/execute/started_at");
    assert_breaks_without("F6", "/phases/plan/completed_at");
    assert_breaks_without("F6", "/phases/plan/output");
    assert_breaks_with("F6", "/phases/express/started_at", json!("2025-08-05T10:06:00Z"));
    assert_breaks_with("F6", "/phases/execute/completed_at", json!("2025-08-05T10:06:00Z"));
    assert_breaks_with("F6", "/phases/express/started_at", json!(null));
    assert_breaks_with("F6", "/phases/execute/sequence_at_start", json!(0));
    assert_breaks_with("F6", "/phases/execute/errors", json!("it broke"));
    assert_breaks(
        "F6",
        "/phases/execute/errors/0",
        &with("/phases/execute/errors", Some(json!(["it broke"]))),
    );
    assert_breaks(
        "F6",
        "/phases/execute/errors/0",
        &with("/phases/execute/errors", Some(json!([{"kind": "x", "timestamp": "2025-08-05T10:06:00Z"}]))),
    );
    assert_eq!(
        shown(&with("/phases/plan/output", Some(json!({})))),
        "/phases/plan/output [F6] the output of `plan`: `phases` is missing (add it)\n\
         /phases/plan/output [F6] the output of `plan`: `success_criteria` is missing (add it)"
    );
    assert_breaks_with("F6", "/phases/plan/output/phases", json!("none"));
    assert_breaks_without("F6", "/phases/plan/output/success_criteria");
    assert_breaks_with("F6", "/phases/plan/reused_from", json!("cycle 1"));
    // In progress, any output is valid.
    for output in [json!({}), json!(null), json!([1]), json!("half way")] {
        assert_eq!(shown(&with("/phases/execute/output", Some(output))), "");
    }
    assert_eq!(shown(&with("/phases/execute/output", None)), "");
}

#[test]
fn f7_times_are_seconds_in_utc_and_in_order() {
    for pointer in [
        "/metadata/created_at",
        "/phases/plan/started_at",
        "/phases/plan/completed_at",
        "/history/0/timestamp",
    ] {
        for time in ["2025-08-05T10:00:00.000Z", "2025-08-05T12:00:00+02:00", "2025-08-05 10:00", "soon"] {
            assert_breaks_with("F7", pointer, json!(time));
        }
    }
    assert_breaks_with("F7", "/metadata/updated_at", json!("2025-08-05T09:59:59Z"));
    assert_breaks_with("F7", "/phases/plan/completed_at", json!("2025-08-05T09:59:59Z"));
    assert_eq!(
        shown(&with("/phases/plan/completed_at", Some(json!("2025-08-05T10:00:00Z")))),
        "",
        "equal is allowed"
    );
}

#[test]
fn f8_unknown_fields_are_no_violation() {
    let mut document = example();
    for pointer in ["", "/metadata", "/context", "/phases/plan", "/phases/express", "/history/0"] {
        document.pointer_mut(pointer).unwrap()["x"] = json!({"y": null});
    }
    assert_eq!(shown(&document), "");
}

/// The example, but all four phases are completed, one after the other.
fn reviewed() -> Value {
    let mut document = example();
    let mut sequence = 17;
    document["sequence"] = json!(23);
    document["metadata"]["current_phase"] = json!("review");
    for (phase, starts) in [("execute", false), ("express", true), ("review", true)] {
        let fields = &mut document["phases"][phase];
        fields["status"] = json!("completed");
        fields["completed_at"] = json!("2025-08-05T10:15:00Z");
        fields["output"] = json!({"quality_score": 80});
        let mut events = vec!["completed"];
        if starts {
            fields["started_at"] = json!("2025-08-05T10:10:00Z");
            events.insert(0, "started");
        }
        for event in events {
            let field = if event == "started" { "sequence_at_start" } else { "sequence_at_complete" };
            document["phases"][phase][field] = json!(sequence);
            let entry = json!({"timestamp": "2025-08-05T10:15:00Z", "phase": phase, "event": event, "sequence": sequence});
            document["history"].as_array_mut().unwrap().push(entry);
            sequence += 1;
        }
    }
    document
}

fn completed() -> Value {
    let mut document = reviewed();
    document["metadata"]["status"] = json!("completed");
    let entry =
        json!({"timestamp": "2025-08-05T10:15:00Z", "phase": null, "event": "completed", "sequence": 23});
    document["history"].as_array_mut().unwrap().push(entry);
    document
}

/// The example, but its execution failed.
fn failed() -> Value {
    let mut document = example();
    document["metadata"]["status"] = json!("failed");
    document["phases"]["execute"]["status"] = json!("failed");
    let entry =
        json!({"timestamp": "2025-08-05T10:15:00Z", "phase": "execute", "event": "failed", "sequence": 42});
    document["history"].as_array_mut().unwrap().push(entry);
    document
}

#[test]
fn finished_cycles_and_cycles_between_phases_keep_the_rules() {
    for document in [reviewed(), completed(), failed()] {
        assert_eq!(shown(&document), "");
    }
    let mut initialized = example();
    initialized["metadata"]["status"] = json!("initialized");
    initialized["metadata"]["current_phase"] = json!("plan");
    for phase in ["plan", "execute"] {
        initialized["phases"][phase] = json!({"status": "pending"});
    }
    initialized["history"] = json!([]);
    assert_eq!(shown(&initialized), "");
    // A phase may fail before it starts; the cycle was last in the one before.
    let mut unstarted = failed();
    unstarted["phases"]["execute"] = json!({"status": "failed", "errors": []});
    unstarted["metadata"]["current_phase"] = json!("plan");
    put(&mut unstarted, "/history/2", None);
    assert_eq!(shown(&unstarted), "");
}

#[test]
fn p1_to_p3_one_phase_completes_before_the_next_starts() {
    for (rule, before, after) in
        [("P1", "plan", "execute"), ("P2", "execute", "express"), ("P3", "express", "review")]
    {
        let mut document = completed();
        let complete = document["phases"][before]["sequence_at_complete"].as_u64().unwrap();
        // The entries are swapped, and their numbers still increase.
        let history = document["history"].as_array_mut().unwrap();
        let index = history.iter().position(|entry| entry["sequence"] == complete).unwrap();
        history.swap(index, index + 1);
        history[index]["sequence"] = json!(complete);
        history[index + 1]["sequence"] = json!(complete + 1);
        document["phases"][before]["sequence_at_complete"] = json!(complete + 1);
        document["phases"][after]["sequence_at_start"] = json!(complete);
        assert_breaks(rule, &format!("/phases/{after}/sequence_at_start"), &document);
    }
    let mut document = example();
    document["phases"]["plan"] = json!({"status": "pending"});
    document["history"].as_array_mut().unwrap().drain(..2);
    assert_breaks("P1", "/phases/execute/status", &document);
}

#[test]
fn p4_one_phase_is_in_progress_and_the_metadata_names_it() {
    assert_breaks_with("P4", "/metadata/current_phase", json!("plan"));
    assert_breaks_with("P4", "/metadata/current_phase", json!("express"));
    let mut between = reviewed();
    between["metadata"]["current_phase"] = json!("plan");
    assert_breaks("P4", "/metadata/current_phase", &between);
    // Two at once always break the order, too.
    let mut two = example();
    two["phases"]["express"] =
        json!({"status": "in_progress", "started_at": "2025-08-05T10:06:00Z", "sequence_at_start": 17});
    let entry =
        json!({"timestamp": "2025-08-05T10:06:00Z", "phase": "express", "event": "started", "sequence": 17});
    two["history"].as_array_mut().unwrap().push(entry);
    let rules: Vec<_> = check(&two).violations.into_iter().map(|found| found.rule).collect();
    assert_eq!(rules, ["P2", "P4"]);
}

#[test]
fn p5_the_cycles_status_agrees_with_its_phases() {
    assert_breaks_with("P5", "/metadata/status", json!("initialized"));
    assert_breaks_with("P5", "/metadata/status", json!("failed"));
    let mut document = failed();
    document["metadata"]["status"] = json!("in_progress");
    assert_breaks("P5", "/metadata/status", &document);
    let mut document = completed();
    document["phases"]["review"] = json!({"status": "pending"});
    document["metadata"]["current_phase"] = json!("express");
    document["history"].as_array_mut().unwrap().drain(6..8);
    assert_breaks("P5", "/metadata/status", &document);
}

#[test]
fn s1_numbers_grow_and_do_not_pass_the_documents() {
    assert_breaks_with("S1", "/sequence", json!(15));
    let entry = |sequence: u64| json!({"timestamp": "2025-08-05T10:06:00Z", "phase": "execute", "event": "progress", "sequence": sequence});
    assert_breaks("S1", "/history/3/sequence", &with("/history/-", Some(entry(16))));
    assert_breaks("S1", "/history/3/sequence", &with("/history/-", Some(entry(12))));
    assert_eq!(shown(&with("/history/-", Some(entry(30)))), "", "further entries are allowed");
    let mut compacted = entry(30);
    compacted["event"] = json!("compacted");
    (compacted["from"], compacted["to"]) = (json!(20), json!(18));
    assert_breaks("S1", "/history/3/to", &with("/history/-", Some(compacted)));
}

#[test]
fn s2_the_numbers_of_phases_are_those_of_the_history() {
    assert_breaks_with("S2", "/phases/plan/sequence_at_start", json!(9));
    assert_breaks_with("S2", "/phases/plan/sequence_at_complete", json!(14));
    assert_breaks_with("S2", "/phases/execute/sequence_at_start", json!(17));
    let entry = |phase: &str, event: &str| json!({"timestamp": "2025-08-05T10:06:00Z", "phase": phase, "event": event, "sequence": 20});
    assert_breaks("S2", "/history/3", &with("/history/-", Some(entry("express", "started"))));
    assert_breaks("S2", "/history/3", &with("/history/-", Some(entry("execute", "completed"))));
    assert_breaks("S2", "/history/3", &with("/history/-", Some(entry("execute", "started"))));
}

#[test]
fn s3_no_transition_is_missing() {
    for (entry, pointer) in [
        (0, "/phases/plan/sequence_at_start"),
        (1, "/phases/plan/sequence_at_complete"),
        (2, "/phases/execute/sequence_at_start"),
    ] {
        assert_breaks("S3", pointer, &with(&format!("/history/{entry}"), None));
    }
    let mut document = failed();
    put(&mut document, "/history/3", None);
    assert_breaks("S3", "/phases/execute", &document);
    let mut document = completed();
    let last = document["history"].as_array().unwrap().len() - 1;
    put(&mut document, &format!("/history/{last}"), None);
    assert_breaks("S3", "/metadata/status", &document);
    let entry_of = |phase: Value, event: &str| json!({"timestamp": "2025-08-05T10:06:00Z", "phase": phase, "event": event, "sequence": 20});
    assert_breaks("S3", "/history/3", &with("/history/-", Some(entry_of(json!("execute"), "failed"))));
    assert_breaks("S3", "/history/3", &with("/history/-", Some(entry_of(json!(null), "completed"))));
}

#[test]
fn s4_an_entry_carries_the_number_after_the_increment_which_is_never_zero() {
    let mut document = example();
    let entry =
        json!({"timestamp": "2025-08-05T10:00:00Z", "phase": null, "event": "initialized", "sequence": 0});
    document["history"].as_array_mut().unwrap().insert(0, entry);
    assert_breaks("S4", "/history/0/sequence", &document);
}

#[test]
fn gaps_and_unknown_events_are_only_warnings_and_compacted_entries_leave_none() {
    let mut document = completed();
    document["history"].as_array_mut().unwrap().insert(
        0,
        json!({"timestamp": "2025-08-05T10:00:00Z", "phase": null, "event": "initialized", "sequence": 1}),
    );
    document["sequence"] = json!(25);
    for entry in [
        json!({"event": "compacted", "sequence": 24, "from": 2, "to": 9}),
        json!({"event": "annotated", "sequence": 25}),
    ] {
        let mut whole = json!({"timestamp": "2025-08-05T10:20:00Z", "phase": null});
        whole.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        document["history"].as_array_mut().unwrap().push(whole);
    }
    let checked = check(&document);
    assert_eq!(checked.violations, []);
    insta::assert_snapshot!(checked.warnings.iter().map(line).collect::<Vec<_>>().join("\n"), @"
    /history/11/event [S3] `event` of entry 12 in `history` of the document is `annotated`, an unknown event (unknown events are kept and ignored)
    /history/2/sequence [S3] the history has no entry for the writes 11 to 14 (allowed if no start, completion or failure is missing; Callboard itself leaves no gaps)
    /history/9/sequence [S3] the history has no entry for write 22 (allowed if no start, completion or failure is missing; Callboard itself leaves no gaps)
    ");
}

/// An import relies on this: it checks a document before it parses it.
#[test]
fn every_valid_document_can_be_parsed() {
    let mut valid = 0;
    for document in [example(), completed(), failed()] {
        for pointer in pointers(&document).iter().filter(|pointer| !pointer.is_empty()) {
            let values = [
                Some(json!(null)),
                Some(json!(true)),
                Some(json!(7)),
                Some(json!(-7)),
                Some(json!(1e9)),
                Some(json!("x")),
                Some(json!("completed")),
                Some(json!("2025-08-05T10:05:00Z")),
                Some(json!("peer:global:cycle:3")),
                Some(json!([])),
                Some(json!({})),
                None,
            ];
            for value in values {
                let mut document = document.clone();
                put(&mut document, pointer, value);
                if check(&document).violations.is_empty() {
                    let read: Document = serde_json::from_value(document.clone()).expect(pointer);
                    assert_eq!(read.to_value(), document);
                    valid += 1;
                }
            }
        }
    }
    assert!(valid > 150, "{valid}");
}
