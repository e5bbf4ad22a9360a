//! What is a valid report, and what is not.

use serde_json::json;

use super::instructions::{ARTIFACT, ENDED_AT, LOG, STARTED_AT};
use super::*;

fn expected() -> ReportIdentity {
    ReportIdentity {
        run_id: RunId::new("f8c1a491").unwrap(),
        step_id: StepId::new("review").unwrap(),
        agent: "code reviewer".to_owned(),
    }
}

fn minimal() -> Value {
    json!({
        "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "code reviewer",
        "status": "COMPLETED", "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z",
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut report = minimal();
    report[field] = value;
    report
}

fn read(value: &Value) -> Result<Report, InvalidReport> {
    parse(value.to_string().as_bytes(), &expected())
}

#[test]
fn the_required_fields_are_enough() {
    let report = read(&minimal()).unwrap();
    assert_eq!((report.status, report.gate_failure), (Status::Completed, false));
    assert!(report.artifacts.is_empty() && report.metrics.is_empty() && report.memory_updates.is_empty());
}

#[test]
fn each_required_field_must_be_a_text_that_is_not_empty() {
    for field in ["schema", "run_id", "step_id", "agent", "status", "started_at", "ended_at"] {
        let mut report = minimal();
        report.as_object_mut().unwrap().remove(field);
        assert_eq!(read(&report), Err(InvalidReport::Missing(field)));
        assert_eq!(read(&with(field, Value::Null)), Err(InvalidReport::Missing(field)));
        assert_eq!(read(&with(field, json!(" "))), Err(InvalidReport::Empty(field)));
        let error = read(&with(field, json!(7))).unwrap_err().to_string();
        assert_eq!(error, format!("the field `{field}` is a number, expected a string"));
    }
}

#[test]
fn status_words_and_their_aliases_are_read_and_nothing_else() {
    for word in ["COMPLETED", "completed", "Success", "ok", "DONE", "passed"] {
        assert_eq!(read(&with("status", json!(word))).unwrap().status, Status::Completed, "{word}");
    }
    for word in ["FAILED", "fail", "Error"] {
        assert_eq!(read(&with("status", json!(word))).unwrap().status, Status::Failed, "{word}");
    }
    for word in ["RUNNING", "PARTIAL", "not ok", "COMPLETED?"] {
        assert_eq!(read(&with("status", json!(word))), Err(InvalidReport::UnknownStatus(word.to_owned())));
    }
}

#[test]
fn optional_fields_may_be_absent_empty_or_null() {
    let lists = ["artifacts", "logs", "next_suggested_steps", "memory_updates"];
    for (field, empty) in lists.map(|f| (f, json!([]))).into_iter().chain([("metrics", json!({}))]) {
        assert_eq!(read(&with(field, Value::Null)), read(&minimal()), "{field} null");
        assert_eq!(read(&with(field, empty)), read(&minimal()), "{field} empty");
        assert!(
            matches!(read(&with(field, json!("x"))), Err(InvalidReport::WrongType { .. })),
            "{field} text"
        );
    }
    assert_eq!(read(&with("gate_failure", Value::Null)), read(&minimal()));
    assert!(matches!(read(&with("gate_failure", json!("false"))), Err(InvalidReport::WrongType { .. })));
    let error = read(&with("logs", json!(["a", 2]))).unwrap_err().to_string();
    assert_eq!(error, "the field `logs[1]` is a number, expected a string");
}

#[test]
fn metrics_become_text_and_unknown_fields_are_kept() {
    let mut report =
        with("metrics", json!({ "cost_usd": 0.25, "ok": true, "model": "m", "by": { "a": [1, 2] } }));
    report["mood"] = json!({ "today": "fine" });
    let read = read(&report).unwrap();
    let metrics: Vec<_> = read.metrics.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(metrics, [("cost_usd", "0.25"), ("ok", "true"), ("model", "m"), ("by", r#"{"a":[1,2]}"#)]);
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written["mood"], json!({ "today": "fine" }));
    assert_eq!(serde_json::from_value::<Report>(written).unwrap(), read);
}

#[test]
fn memory_updates_have_defaults() {
    let read = read(&with("memory_updates", json!([{ "entry": "use just" }]))).unwrap();
    let first = &read.memory_updates[0];
    assert_eq!(
        (first.scope.as_str(), first.section.as_str(), first.entry.as_str()),
        (".", "Notes", "use just")
    );
}

#[test]
fn what_is_not_a_json_object_is_refused_with_its_position() {
    let error = parse(b"{\n  \"schema\": tru", &expected()).unwrap_err();
    assert!(matches!(error, InvalidReport::NotJson { line: 2, .. }), "{error}");
    assert_eq!(error.to_string().matches("line 2").count(), 1, "{error}");
    assert!(matches!(parse(b"", &expected()), Err(InvalidReport::NotJson { .. })));
    assert!(matches!(parse(b"\xff{}", &expected()), Err(InvalidReport::NotJson { .. })));
    assert_eq!(parse(b"[]", &expected()), Err(InvalidReport::NotAnObject("a list")));
    assert_eq!(parse(b"null", &expected()), Err(InvalidReport::NotAnObject("null")));
}

#[test]
fn a_report_of_another_run_step_or_agent_is_refused() {
    for field in ["run_id", "step_id", "agent"] {
        let refused = read(&with(field, json!("another"))).unwrap_err();
        assert!(matches!(&refused, InvalidReport::WrongId { field: f, .. } if *f == field), "{refused}");
    }
    assert_eq!(read(&with("schema", json!("v1"))), Err(InvalidReport::UnknownSchema("v1".to_owned())));
}

#[test]
fn the_example_of_the_instructions_is_refused() {
    let text = instructions(&expected(), &ReportForm::Plain, "/runs/a b/report.json");
    let start = text.find("{\n").unwrap();
    let end = text.find("\n}").unwrap() + 2;
    let copied = &text[start..end];
    assert!(matches!(parse(copied.as_bytes(), &expected()), Err(InvalidReport::Placeholder { .. })));
    assert!(text.contains("`/runs/a b/report.json`"));

    // Filled in, the same example is valid.
    let mut filled = copied.to_owned();
    for placeholder in PLACEHOLDERS {
        assert!(filled.contains(placeholder), "{placeholder} is not in the example");
        filled = filled.replace(placeholder, "2026-01-01");
    }
    assert!(parse(filled.as_bytes(), &expected()).is_ok());

    for (field, value) in [
        ("started_at", json!(STARTED_AT)),
        ("ended_at", json!(format!("x {ENDED_AT}"))),
        ("artifacts", json!(["a.md", ARTIFACT])),
        ("logs", json!([LOG.to_uppercase()])),
    ] {
        let refused = read(&with(field, value)).unwrap_err();
        assert!(matches!(&refused, InvalidReport::Placeholder { field: f, .. } if *f == field), "{refused}");
    }
}

#[test]
fn a_form_with_output_asks_for_output_and_not_for_gate_failure() {
    let text = instructions(&expected(), &ReportForm::WithOutput, "/report.json");
    assert!(text.contains("\"output\": \"<the object that was described above>\""), "{text}");
    assert!(!text.contains("gate_failure"), "{text}");
    assert!(!instructions(&expected(), &ReportForm::Plain, "/report.json").contains("output\""));
}

#[test]
fn the_complete_blocks_between_markers_are_found() {
    let find = between_markers;
    assert!(find("nothing").is_empty());
    assert_eq!(find("<<<RUN_REPORT_JSON\n{\"a\":1}\nRUN_REPORT_JSON>>>\n"), ["{\"a\":1}"]);
    let blocks = |one: &str, other: &str| format!("<<<RUN_REPORT_JSON {one}\n<<<RUN_REPORT_JSON {other}\n");
    assert_eq!(find(&blocks("1 RUN_REPORT_JSON>>>", "2 RUN_REPORT_JSON>>>")), ["1", "2"]);
    assert_eq!(find(&blocks("1 RUN_REPORT_JSON>>>", "cut")), ["1"]);
    assert_eq!(find(&blocks("torn", "2 RUN_REPORT_JSON>>>")), ["2"]);
    assert_eq!(find("<<<RUN_REPORT_JSON 1 RUN_REPORT_JSON>>>\nthen RUN_REPORT_JSON>>>"), ["1"]);
    assert!(find("RUN_REPORT_JSON>>>\n<<<RUN_REPORT_JSON").is_empty());
    assert_eq!(find("<<<RUN_REPORT_JSON é RUN_REPORT_JSON>>>"), ["é"]);
}

#[test]
fn markers_inside_a_line_are_ignored() {
    let output = format!(
        "{MARKER_OPEN}\n{{}}\n{MARKER_CLOSE}\nI printed it between `{MARKER_OPEN}` and `{MARKER_CLOSE}`."
    );
    assert_eq!(between_markers(&output), ["{}"]);
    let expected = ReportIdentity {
        run_id: RunId::new("r").unwrap(),
        step_id: StepId::new("s").unwrap(),
        agent: "a".to_owned(),
    };
    assert!(between_markers(&instructions(&expected, &ReportForm::Plain, "/report.json")).is_empty());
    assert_eq!(between_markers(&format!("  {MARKER_OPEN} {{}} {MARKER_CLOSE}  \n")), ["{}"]);
}

mod merging {
    use super::*;
    use Source::{File, Markers, Submitted};

    fn statement(source: Source, fields: Value) -> Statement {
        let mut report = minimal();
        for (field, value) in fields.as_object().unwrap() {
            report[field] = value.clone();
        }
        Statement { source, content: Ok(report.to_string().into_bytes()) }
    }

    fn merged(statements: &[(Source, Value)]) -> Result<Merged, String> {
        let statements: Vec<_> =
            statements.iter().map(|(source, fields)| statement(*source, fields.clone())).collect();
        merge(&statements, &expected()).map(|merged| merged.unwrap()).map_err(|error| error.to_string())
    }

    /// For every pair of sources, also twice the same: one fails the gate, and a later one says nothing, or `false`.
    #[test]
    fn a_gate_failure_counts_unless_a_later_submitted_or_printed_report_withdraws_it() {
        for failed in Source::ALL {
            for later in Source::ALL {
                let gate_fails = |later_fields| {
                    let reports = [(failed, json!({"gate_failure": true})), (later, later_fields)];
                    merged(&reports).unwrap().report.gate_failure
                };
                assert!(gate_fails(json!({})), "{failed} fails the gate, {later} says nothing");
                assert_eq!(
                    gate_fails(json!({"gate_failure": false})),
                    later == File,
                    "{failed} true, {later} false"
                );
                assert!(
                    gate_fails(json!({"gate_failure": null})) && gate_fails(json!({"gate_failure": true}))
                );
                // An earlier `false` does not withdraw a later failure.
                let before =
                    [(later, json!({"gate_failure": false})), (failed, json!({"gate_failure": true}))];
                assert!(merged(&before).unwrap().report.gate_failure, "{later} false, then {failed} true");
            }
        }
    }

    #[test]
    fn a_schema_of_the_user_sees_what_was_stated_and_nothing_else() {
        let stated = |fields: Value| {
            let stated = merge_as_stated(&[statement(File, fields)], &expected()).unwrap().unwrap();
            Value::Object(stated)
        };
        assert_eq!(stated(json!({})), minimal());
        assert_eq!(stated(json!({"gate_failure": false}))["gate_failure"], false);
        assert_eq!(stated(json!({"metrics": {"tests": 3}}))["metrics"]["tests"], 3);
    }

    #[test]
    fn a_later_report_replaces_only_what_it_states() {
        let agent =
            json!({"artifacts": ["a.md"], "logs": ["agent"], "metrics": {"tests": 3, "lines": 1}, "mood": 1});
        let wrapper =
            json!({"artifacts": [], "logs": ["wrapper"], "metrics": {"lines": 2}, "ended_at": "later"});
        for (first, second) in [(Submitted, File), (File, File), (Markers, File), (File, Submitted)] {
            let Merged { report, sources } =
                merged(&[(first, agent.clone()), (second, wrapper.clone())]).unwrap();
            assert_eq!(
                (report.artifacts, report.logs),
                (vec!["a.md".to_owned()], vec!["wrapper".to_owned()])
            );
            let metrics: Vec<_> = report.metrics.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(metrics, [("tests", "3"), ("lines", "2")]);
            assert_eq!((report.ended_at.as_str(), &report.extra_fields["mood"]), ("later", &json!(1)));
            assert_eq!(sources.len(), if first == second { 1 } else { 2 });
        }
    }

    #[test]
    fn an_empty_list_is_stated_and_replaces_nothing() {
        let none = json!({"tasks": []});
        let some = json!({"tasks": ["a"]});
        assert_eq!(merged(&[(File, none.clone())]).unwrap().report.extra_fields["tasks"], json!([]));
        assert_eq!(merged(&[(File, some), (File, none)]).unwrap().report.extra_fields["tasks"], json!(["a"]));
    }

    #[test]
    fn the_findings_stay_with_the_gate_failure() {
        let said = [
            (Markers, json!({"gate_failure": true, "logs": ["no tests"]})),
            (File, json!({"logs": ["exit 0"]})),
        ];
        assert_eq!(merged(&said).unwrap().report.logs, ["exit 0", "no tests"]);
    }

    #[test]
    fn different_statuses_are_contradictory() {
        let (done, failed) = (json!({"status": "DONE"}), json!({"status": "FAILED"}));
        for (one, other) in [(Submitted, File), (Submitted, Markers), (File, Markers)] {
            for said in [
                [(one, done.clone()), (other, failed.clone())],
                [(other, failed.clone()), (one, done.clone())],
            ] {
                let expected = format!("contradictory: {one} says COMPLETED, {other} says FAILED");
                assert_eq!(merged(&said).unwrap_err(), expected);
            }
            assert!(merged(&[(one, done.clone()), (other, json!({"status": "ok"}))]).is_ok());
        }
        // A wrapper that overwrites its agent's file does not turn a failure into a success.
        let file = merged(&[(File, failed.clone()), (File, done.clone())]);
        assert_eq!(
            file.unwrap_err(),
            "contradictory: the report file says COMPLETED, an earlier version of the report file says FAILED"
        );
        for corrected in [Submitted, Markers] {
            let said = [(corrected, failed.clone()), (corrected, done.clone())];
            assert_eq!(merged(&said).unwrap().report.status, Status::Completed);
        }
    }

    #[test]
    fn a_replaced_invalid_file_contributes_only_its_gate_failure() {
        let broken =
            json!({"agent": "another", "gate_failure": true, "logs": ["broken"], "status": "FAILED"});
        let report = merged(&[(File, broken.clone()), (File, json!({"logs": ["mine"]}))]).unwrap().report;
        assert_eq!((report.gate_failure, report.logs), (true, vec!["mine".to_owned()]));
        // Agents print the reports of others, too.
        assert!(!merged(&[(Markers, broken.clone()), (File, json!({}))]).unwrap().report.gate_failure);
        let refused = merged(&[(File, json!({})), (File, broken)]).unwrap_err();
        assert_eq!(refused, "the report file: the field `agent` is `another`, expected `code reviewer`");
    }
}
