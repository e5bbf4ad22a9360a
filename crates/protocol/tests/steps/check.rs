//! The rules of `run_state.json`. The original's examples violate none, and each rule has a document that violates
//! only it.

use protocol::steps::{Document, check, check_document};
use serde_json::{Value, json};

use crate::json_pointers::pointers;

const EXAMPLES: [&str; 4] = [
    include_str!("../fixtures/steps/failed-step.json"),
    include_str!("../fixtures/steps/human-in-the-loop.json"),
    include_str!("../fixtures/steps/in-progress.json"),
    include_str!("../fixtures/steps/loop-back-iteration.json"),
];

#[test]
fn the_specified_examples_violate_no_rule_and_are_written_unchanged() {
    for text in EXAMPLES {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(check(&value), []);
        let document: Document = serde_json::from_str(text).unwrap();
        assert_eq!(check_document(&document), []);
        assert_eq!(serde_json::to_string(&document).unwrap(), serde_json::to_string(&value).unwrap());
    }
}

/// A document with a step in every status, without violations.
fn document() -> Value {
    let step = |status: &str| {
        json!({
            "status": status,
            "attempts": 1,
            "iteration_count": 0,
            "report_path": "/repo/reports/r.json",
            "started_at": "2025-01-15T14:30:05.000000Z",
            "ended_at": "2025-01-15T14:32:18.000000Z",
            "last_error": "it broke",
            "artifacts": ["PLAN.md", "docs/../src/./lib.rs"],
            "metrics": {"lines": "245"},
            "logs": ["did it"],
            "manual_input_path": "/repo/manual_inputs/m.json",
            "blocked_by_loop": "review",
        })
    };
    json!({
        "run_id": "f8c1a491",
        "workflow_name": "workflow",
        "repo_dir": "/repo",
        "reports_dir": "/repo/reports",
        "manual_inputs_dir": "/repo/manual_inputs",
        "created_at": "2025-01-15T14:30:00.123456Z",
        "updated_at": "2025-01-15T14:35:22.789012Z",
        "steps": {
            "pending": step("PENDING"),
            "running": step("RUNNING"),
            "waiting": step("WAITING_ON_HUMAN"),
            "review": step("COMPLETED"),
            "failed": step("FAILED"),
            "skipped": step("SKIPPED"),
        },
    })
}

/// Returns the document with one value replaced or removed.
fn with(pointer: &str, value: Option<Value>) -> Value {
    let mut document = document();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(fields), Some(value)) => drop(fields.insert(key.to_owned(), value)),
        (Value::Object(fields), None) => drop(fields.shift_remove(key).unwrap()),
        (parent, Some(value)) => parent[key.parse::<usize>().unwrap()] = value,
        (_, None) => panic!("`{pointer}` is not in an object"),
    }
    document
}

/// Renders violations as `pointer [rule] message (repair)`, one per line.
fn violation_lines(document: &Value) -> String {
    let lines = check(document)
        .into_iter()
        .map(|found| format!("{} [{}] {} ({})", found.pointer, found.rule, found.message, found.repair));
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_violation(pointer: &str, value: impl Into<Option<Value>>, expected: &str) {
    assert_eq!(violation_lines(&with(pointer, value.into())), expected);
}

#[test]
fn the_document_of_these_tests_violates_no_rule() {
    assert_eq!(violation_lines(&document()), "");
    serde_json::from_value::<Document>(document()).unwrap();
}

#[test]
fn each_of_the_twenty_fields_is_required() {
    let document = document();
    let head = document.as_object().unwrap().keys().map(|key| ("", key));
    let step = document["steps"]["pending"].as_object().unwrap().keys().map(|key| ("/steps/pending", key));
    let fields: Vec<_> = head.chain(step).collect();
    assert_eq!(fields.len(), 20);
    for (parent, field) in fields {
        let found = check(&with(&format!("{parent}/{field}"), None));
        let [found] = &found[..] else { panic!("{field}: {found:?}") };
        assert_eq!((found.rule, found.pointer.as_str()), ("missing-field", parent), "{field}");
        let owner = if parent.is_empty() { "the document" } else { "step `pending`" };
        assert_eq!(found.message, format!("{owner} has no `{field}`"));
    }
}

#[test]
fn a_misspelt_field_is_recognised() {
    let mut document = with("/steps/pending/attempts", None);
    document["steps"]["pending"]["atempts"] = 1.into();
    assert_eq!(
        violation_lines(&document),
        "/steps/pending [missing-field] step `pending` has no `attempts` (rename `atempts` to `attempts`)"
    );
}

#[test]
fn each_field_has_its_type() {
    let document = document();
    for (parent, value) in [("", &document), ("/steps/pending", &document["steps"]["pending"])] {
        for field in value.as_object().unwrap().keys() {
            let pointer = format!("{parent}/{field}");
            let found = check(&with(&pointer, Some(json!(true))));
            assert_eq!(found.len(), 1, "{pointer}: {found:?}");
            assert_eq!((found[0].rule, found[0].pointer.as_str()), ("wrong-type", pointer.as_str()));
        }
    }
    assert_violation(
        "/steps/pending/logs/0",
        json!(3),
        "/steps/pending/logs/0 [wrong-type] entry 1 in `logs` of step `pending` is a number where a string is expected \
         (put it in quotes)",
    );
    assert_violation(
        "/steps/pending",
        json!([]),
        "/steps/pending [wrong-type] step `pending` is a list where an object is expected \
         (give it the twelve fields of a step)",
    );
    assert_violation(
        "/steps/pending/report_path",
        json!(3),
        "/steps/pending/report_path [wrong-type] `report_path` of step `pending` is a number where a string or null is \
         expected (write `\"/…\"`)",
    );
    assert_eq!(
        violation_lines(&json!([])),
        " [wrong-type] the document is a list where an object is expected (begin it with `{\"run_id\": …`)"
    );
}

#[test]
fn only_the_six_fields_that_may_be_null_may_be_null() {
    let document = document();
    let nullable =
        ["report_path", "started_at", "ended_at", "last_error", "manual_input_path", "blocked_by_loop"];
    for (parent, value) in [("", &document), ("/steps/pending", &document["steps"]["pending"])] {
        for field in value.as_object().unwrap().keys() {
            let found = check(&with(&format!("{parent}/{field}"), Some(Value::Null)));
            assert_eq!(found.is_empty(), nullable.contains(&field.as_str()), "{field}: {found:?}");
        }
    }
}

#[test]
fn a_status_is_one_of_six() {
    assert_violation(
        "/steps/pending/status",
        json!("pending"),
        "/steps/pending/status [unknown-status] `status` of step `pending` is `pending`, which is not a status \
         (did you mean `PENDING`?)",
    );
    assert_violation(
        "/steps/pending/status",
        json!("DONE"),
        "/steps/pending/status [unknown-status] `status` of step `pending` is `DONE`, which is not a status \
         (use one of PENDING, RUNNING, WAITING_ON_HUMAN, COMPLETED, FAILED, SKIPPED)",
    );
}

#[test]
fn a_time_is_utc_with_microseconds_and_z() {
    for time in [
        "2025-01-15T14:30:05Z",
        "2025-01-15T14:30:05.000Z",
        "2025-01-15T14:30:05.000000",
        "2025-01-15T14:30:05.000000+00:00",
        "2025-01-15 14:30:05.000000Z",
        "2025-02-30T14:30:05.000000Z",
        "2025-01-15T14:30:05.000000z",
        "2025-01-15T14:30:05.0000000Z",
        "",
    ] {
        assert_violation(
            "/steps/pending/started_at",
            json!(time),
            &format!(
                "/steps/pending/started_at [bad-time] `started_at` of step `pending` is `{time}`, which is not a time in \
                 UTC with microseconds (write it as `\"2025-01-15T14:30:00.123456Z\"`)"
            ),
        );
    }
    for pointer in ["/created_at", "/updated_at", "/steps/pending/ended_at"] {
        assert_eq!(check(&with(pointer, Some(json!("yesterday"))))[0].rule, "bad-time", "{pointer}");
    }
}

#[test]
fn counters_are_whole_and_not_negative() {
    for field in ["attempts", "iteration_count"] {
        for number in [json!(-1), json!(1.5), json!(1.0), json!(u64::MAX)] {
            assert_violation(
                &format!("/steps/pending/{field}"),
                number.clone(),
                &format!(
                    "/steps/pending/{field} [bad-count] `{field}` of step `pending` is {number}; it must be a whole number \
                     from 0 to 4294967295 (write how often it happened, such as `0`)"
                ),
            );
        }
    }
}

#[test]
fn metrics_are_texts() {
    assert_violation(
        "/steps/pending/metrics/lines",
        json!(245),
        "/steps/pending/metrics/lines [metric-not-text] `lines` in `metrics` of step `pending` is a number; metrics are \
         texts, even where they are numbers (put it in quotes: `\"245\"`)",
    );
    assert_violation(
        "/steps/pending/metrics/lines",
        Value::Null,
        "/steps/pending/metrics/lines [metric-not-text] `lines` in `metrics` of step `pending` is null; metrics are texts, \
         even where they are numbers (write it as a string)",
    );
}

#[test]
fn artifacts_are_inside_the_repository() {
    for (path, fault) in [
        ("/etc/passwd", "is absolute"),
        ("../secret", "leaves the repository"),
        ("a/../../b", "leaves the repository"),
        ("a/../..", "leaves the repository"),
        ("", "is empty"),
    ] {
        assert_violation(
            "/steps/pending/artifacts/1",
            json!(path),
            &format!(
                "/steps/pending/artifacts/1 [artifact-not-relative] entry 2 in `artifacts` of step `pending` {fault}: \
                 `{path}` (write the path from the repository's top)"
            ),
        );
    }
    for path in ["a/../b", "./a", "..a", "a..", "a//b"] {
        assert_violation("/steps/pending/artifacts/1", json!(path), "");
    }
}

#[test]
fn all_other_paths_are_absolute() {
    for pointer in ["/repo_dir", "/reports_dir", "/manual_inputs_dir"] {
        let found = check(&with(pointer, Some(json!("repo/reports"))));
        assert_eq!(
            (found.len(), found[0].rule, found[0].pointer.as_str()),
            (1, "path-not-absolute", pointer)
        );
    }
    for field in ["report_path", "manual_input_path"] {
        assert_violation(
            &format!("/steps/pending/{field}"),
            json!("r.json"),
            &format!(
                "/steps/pending/{field} [path-not-absolute] `{field}` of step `pending` is `r.json`, which is not an \
                 absolute path (write the whole path, from `/`)"
            ),
        );
    }
}

#[test]
fn a_status_requires_other_fields() {
    for (step, status, field, rule, repair) in [
        ("running", "RUNNING", "started_at", "running-without-start", "write when it started"),
        (
            "waiting",
            "WAITING_ON_HUMAN",
            "manual_input_path",
            "waiting-without-input-path",
            "write where the answer is expected",
        ),
        ("review", "COMPLETED", "ended_at", "ended-without-end", "write when it ended"),
        ("failed", "FAILED", "ended_at", "ended-without-end", "write when it ended"),
        ("failed", "FAILED", "last_error", "failed-without-error", "write what went wrong"),
    ] {
        assert_violation(
            &format!("/steps/{step}/{field}"),
            Value::Null,
            &format!(
                "/steps/{step}/{field} [{rule}] step `{step}` is {status}, but its `{field}` is null ({repair})"
            ),
        );
    }
}

#[test]
fn blocked_by_loop_names_a_step() {
    assert_violation(
        "/steps/pending/blocked_by_loop",
        json!("reviw"),
        "/steps/pending/blocked_by_loop [unknown-step] `blocked_by_loop` of step `pending` is `reviw`, but no step has \
         this id (did you mean `review`?)",
    );
    assert_violation(
        "/steps/pending/blocked_by_loop",
        json!("qa"),
        "/steps/pending/blocked_by_loop [unknown-step] `blocked_by_loop` of step `pending` is `qa`, but no step has this \
         id (name a step of this document, or write null)",
    );
}

#[test]
fn unknown_fields_are_allowed() {
    let mut document = document();
    document["colour"] = "green".into();
    document["steps"]["pending"]["loop_index"] = 3.into();
    assert_eq!(violation_lines(&document), "");
}

#[test]
fn all_violations_are_found_at_once_and_ids_are_escaped_in_pointers() {
    let mut document = with("/run_id", None);
    document["steps"]["a/b~"] = json!({"status": "RUNING"});
    let found: Vec<_> = check(&document).into_iter().map(|found| (found.pointer, found.rule)).collect();
    assert_eq!(found[0], (String::new(), "missing-field"));
    assert_eq!(found[1], ("/steps/a~1b~0/status".to_owned(), "unknown-status"));
    assert_eq!(found.len(), 2 + 11);
}

/// `import` relies on this: it checks a document before it reads it.
#[test]
fn every_document_without_violations_can_be_read() {
    let mut valid = 0;
    for pointer in pointers(&document()).iter().filter(|pointer| !pointer.is_empty()) {
        for value in [
            json!(null),
            json!(true),
            json!(7),
            json!(-7),
            json!(1e9),
            json!("/x"),
            json!("x"),
            json!([]),
            json!({}),
        ] {
            let document = with(pointer, Some(value));
            if check(&document).is_empty() {
                let read: Document = serde_json::from_value(document.clone()).expect(pointer);
                assert_eq!(serde_json::to_value(&read).unwrap(), document);
                valid += 1;
            }
        }
    }
    assert!(valid > 50, "{valid}");
}
