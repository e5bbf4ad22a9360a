//! The sources of reports, and which reports are refused. The tests write the agent's files themselves.

use std::fs;
use std::os::unix::fs::symlink;

use protocol::report::{PLACEHOLDERS, Status};
use serde_json::{Value, json};
use supervisor::report::{Collected, MAX_REPORT_SIZE, Source, SubmitError, collect, submit};

use crate::fixture::Fixture;

fn report(status: &str) -> Value {
    json!({
        "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "review", "agent": "reviewer", "status": status,
        "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z",
    })
}

fn report_with(field: &str, value: Value) -> String {
    let mut report = report("COMPLETED");
    report[field] = value;
    report.to_string()
}

fn with_markers(report: &str) -> String {
    format!("thinking\n<<<RUN_REPORT_JSON\n{report}\nRUN_REPORT_JSON>>>\nbye\n")
}

fn collected(files: &[(&str, &str)]) -> Collected {
    let fixture = Fixture::script("");
    for (name, text) in files {
        fs::write(fixture.file(name), text).unwrap();
    }
    collect(&fixture.dir, &fixture.expected())
}

fn refusal(collected: Collected) -> String {
    match collected {
        Collected::Invalid(reason) => reason,
        other => panic!("accepted: {other:?}"),
    }
}

fn accepted(collected: Collected) -> (Status, Vec<Source>) {
    match collected {
        Collected::Valid(report, sources) => (report.status, sources),
        other => panic!("not valid: {other:?}"),
    }
}

#[test]
fn every_source_is_found() {
    let (done, ok) = (report("DONE").to_string(), with_markers(&report("ok").to_string()));
    assert_eq!(collected(&[]), Collected::Missing);
    assert_eq!(accepted(collected(&[("stdout.log", &ok)])), (Status::Completed, vec![Source::Markers]));
    let two = accepted(collected(&[("stdout.log", &ok), ("report.json", &done)])).1;
    assert_eq!(two, [Source::File, Source::Markers]);
    let all = [("stdout.log", ok.as_str()), ("report.json", &done), ("submitted.json", &done)];
    assert_eq!(accepted(collected(&all)).1, Source::ALL);
}

#[test]
fn sources_that_differ_in_their_status_are_contradictory() {
    let (done, failed) = (report("DONE").to_string(), report("FAILED").to_string());
    let text = refusal(collected(&[("report.json", &done), ("submitted.json", &failed)]));
    assert_eq!(text, "contradictory: the submitted report says FAILED, the report file says COMPLETED");
}

#[test]
fn an_invalid_report_is_not_replaced_by_a_less_trusted_one() {
    let done = report("DONE").to_string();
    let text = refusal(collected(&[("report.json", "{"), ("stdout.log", &with_markers(&done))]));
    assert!(text.starts_with("the report file: it is not JSON"), "{text}");
    refusal(collected(&[("submitted.json", "{}"), ("report.json", &done)]));
    // An invalid report of a less trusted source is ignored: agents print their instructions, with the example in them.
    let example = report_with("logs", json!([PLACEHOLDERS[3]]));
    assert_eq!(
        accepted(collected(&[("report.json", &done), ("stdout.log", &with_markers(&example))])).1,
        [Source::File]
    );
    let broken = accepted(collected(&[("submitted.json", &done), ("report.json", "{")])).1;
    assert_eq!(broken, [Source::Submitted]);
}

#[test]
fn every_kind_of_invalid_content_is_refused_with_its_reason() {
    for (text, expected) in [
        (String::new(), "it is not JSON: EOF while parsing a value at line 1, column 0"),
        ("{ \"schema\": ".to_owned(), "it is not JSON: EOF while parsing a value at line 1, column 12"),
        ("[]".to_owned(), "it is a list, not a JSON object"),
        ("{}".to_owned(), "the field `schema` is missing"),
        (report_with("ended_at", Value::Null), "the field `ended_at` is missing"),
        (report_with("ended_at", json!("")), "the field `ended_at` is empty"),
        (report_with("artifacts", json!("a.md")), "the field `artifacts` is a string, expected a list"),
        (report_with("run_id", json!("other")), "the field `run_id` is `other`, expected `f8c1a491`"),
        (report_with("schema", json!("v9")), "the schema is `v9`, expected `run_report@v0`"),
        (report_with("status", json!("MAYBE")), "the status is `MAYBE`, expected COMPLETED or FAILED"),
        (
            report_with("logs", json!([PLACEHOLDERS[3]])),
            "the field `logs` still contains `<one sentence about what you did>` from the instructions",
        ),
    ] {
        assert_eq!(refusal(collected(&[("report.json", &text)])), format!("the report file: {expected}"));
    }
}

#[test]
fn only_a_regular_file_of_bounded_size_is_a_report() {
    let fixture = Fixture::script("");
    let refused = || refusal(collect(&fixture.dir, &fixture.expected()));
    let path = fixture.dir.report();

    fs::write(fixture.file("target.json"), report("DONE").to_string()).unwrap();
    symlink(fixture.file("target.json"), &path).unwrap();
    assert_eq!(refused(), "the report file: it is a symbolic link");
    fs::remove_file(&path).unwrap();

    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(refused(), "the report file: it is not a regular file");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    assert_eq!(refused(), "the report file: it is not a regular file");
    fs::remove_dir(&path).unwrap();

    fs::File::create(&path).unwrap().set_len(MAX_REPORT_SIZE + 1).unwrap();
    assert!(refused().contains("the limit is 8388608"));
}

#[test]
fn markers_are_found_at_the_end_of_a_long_output() {
    let mut text = "x".repeat(9 * 1024 * 1024);
    text.push_str(&with_markers(&report("FAIL").to_string()));
    assert_eq!(accepted(collected(&[("stdout.log", &text)])), (Status::Failed, vec![Source::Markers]));
}

#[test]
fn a_submission_is_checked_at_once_and_a_later_one_replaces_what_it_states() {
    let fixture = Fixture::script("");
    let expected = fixture.expected();
    let submit_text = |text: &str| submit(&fixture.dir, &expected, text.as_bytes());
    assert!(matches!(submit_text(&report_with("agent", json!("other"))), Err(SubmitError::Invalid(_))));
    assert!(matches!(
        submit_text(&" ".repeat(MAX_REPORT_SIZE as usize + 1)),
        Err(SubmitError::TooLarge { .. })
    ));
    assert!(!fixture.dir.submitted().exists());
    let mut first = report("FAILED");
    first["gate_failure"] = json!(true);
    submit_text(&first.to_string()).unwrap();
    submit_text(&report("DONE").to_string()).unwrap();
    let Collected::Valid(report, sources) = collect(&fixture.dir, &expected) else { panic!("it is valid") };
    assert_eq!(
        (report.status, report.gate_failure, sources),
        (Status::Completed, true, vec![Source::Submitted])
    );
    submit_text(&report_with("gate_failure", json!(false))).unwrap();
    assert!(matches!(collect(&fixture.dir, &expected), Collected::Valid(report, _) if !report.gate_failure));
}

/// A report that is printed before a submission is older than it; one that is printed after it is newer.
#[test]
fn markers_and_submissions_are_merged_in_the_order_of_time() {
    let gate_report = |failed: bool| report_with("gate_failure", json!(failed));
    for (first, second) in [(true, false), (false, true)] {
        let fixture = Fixture::script("");
        let expected = fixture.expected();
        let submit = |failed| submit(&fixture.dir, &expected, gate_report(failed).as_bytes()).unwrap();
        let print =
            |failed| fs::write(fixture.file("stdout.log"), with_markers(&gate_report(failed))).unwrap();
        let gate_failed = || match collect(&fixture.dir, &expected) {
            Collected::Valid(report, _) => report.gate_failure,
            other => panic!("{other:?}"),
        };
        print(first);
        submit(second);
        assert_eq!(gate_failed(), second, "printed {first}, then submitted {second}");
        let printed = fixture.text("stdout.log");
        fs::write(fixture.file("stdout.log"), printed + &with_markers(&gate_report(first))).unwrap();
        assert_eq!(gate_failed(), first, "then printed {first}");
    }
}
