//! The original's scenarios: its three snapshots of a loop-back, and its mutation events 1 to 5.

use protocol::StepId;
use protocol::run::{self, Ending, Fact};
use protocol::steps::{Request, Verdict};
use serde_json::{Value, json};

use super::journal::{Journal, attempt, ending_with, error_evidence, gate_failure_evidence, report_evidence};

const CODING: &str = "coding";
const REVIEW: &str = "code_review";

/// Asserts these fields of the document. The others may have any value.
#[track_caller]
fn assert_shows(journal: &Journal, expected: &Value) {
    let document: Value = serde_json::from_str(&journal.document().render()).unwrap();
    for (step, fields) in expected.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            assert_eq!(&document["steps"][step][field], value, "`{field}` of `{step}`");
        }
    }
}

fn done(journal: &mut Journal, step: &str, turn: u32) {
    journal.ended(attempt(step, turn, 1), ending_with(Verdict::Done), report_evidence(step, "COMPLETED"));
}

#[test]
fn a_loop_back_gives_the_three_specified_snapshots() {
    let mut journal =
        Journal::open(&[(CODING, &[], None), (REVIEW, &[CODING], Some(CODING)), ("docs", &[REVIEW], None)]);
    done(&mut journal, CODING, 1);
    let failed = ending_with(Verdict::GateFailed);
    journal.ended(attempt(REVIEW, 1, 1), failed, gate_failure_evidence(REVIEW, "found P0 issues"));
    assert_shows(
        &journal,
        &json!({
            "coding": {"status": "COMPLETED", "iteration_count": 0},
            "code_review": {"status": "COMPLETED", "iteration_count": 0, "last_error": "Gate failure: found P0 issues"},
            "docs": {"status": "PENDING", "iteration_count": 0, "blocked_by_loop": null},
        }),
    );

    // Without a slot, no step starts in the commit of the loop-back.
    journal.slots = 0;
    journal.proceed();
    let blank = json!({
        "status": "PENDING", "iteration_count": 1, "attempts": 0, "started_at": null, "ended_at": null,
        "last_error": null, "artifacts": [], "metrics": {}, "logs": [], "manual_input_path": null,
        "blocked_by_loop": null,
    });
    let mut blocked = blank.clone();
    blocked["blocked_by_loop"] = REVIEW.into();
    assert_shows(&journal, &json!({"coding": blank, "code_review": blank, "docs": blocked}));
    let report_path = "/repo/.agents/runs/f8c1a491/reports/f8c1a491__code_review.json";
    assert_shows(
        &journal,
        &json!({"code_review": {"report_path": report_path}, "docs": {"report_path": null}}),
    );

    journal.slots = 8;
    journal.proceed();
    assert_shows(&journal, &json!({"coding": {"status": "RUNNING", "attempts": 1, "iteration_count": 1}}));
    done(&mut journal, CODING, 2);
    done(&mut journal, REVIEW, 2);
    assert_shows(
        &journal,
        &json!({
            "coding": {"status": "COMPLETED", "iteration_count": 1},
            "code_review": {"status": "COMPLETED", "iteration_count": 1, "last_error": null},
            "docs": {"status": "RUNNING", "iteration_count": 1, "blocked_by_loop": null},
        }),
    );
}

/// Events 1 to 4; the fifth is the loop-back above. `attempts` counts at the start, as in the original's examples.
#[test]
fn the_document_follows_the_specified_mutation_events() {
    let mut journal = Journal::open_with(&[("planning", &[], None), (CODING, &["planning"], None)], 0);
    let pending = json!({
        "status": "PENDING", "attempts": 0, "iteration_count": 0, "report_path": null, "started_at": null,
        "ended_at": null, "last_error": null, "artifacts": [], "metrics": {}, "logs": [], "manual_input_path": null,
        "blocked_by_loop": null,
    });
    assert_shows(&journal, &json!({"planning": pending, "coding": pending}));

    journal.slots = 8;
    journal.proceed();
    let started = "1970-01-01T00:00:02.000000Z";
    assert_shows(
        &journal,
        &json!({
            "planning": {"status": "RUNNING", "attempts": 1, "started_at": started, "ended_at": null, "report_path": null},
            "coding": pending,
        }),
    );

    done(&mut journal, "planning", 1);
    assert_shows(
        &journal,
        &json!({
            "planning": {
                "status": "COMPLETED", "attempts": 1, "started_at": started, "ended_at": "1970-01-01T00:00:03.000000Z",
                "artifacts": ["PLAN.md"], "logs": ["did it"], "metrics": {"lines": "245"}, "last_error": null,
                "report_path": "/repo/.agents/runs/f8c1a491/reports/f8c1a491__planning.json",
            },
            "coding": {"status": "RUNNING", "attempts": 1},
        }),
    );

    let exited = "Agent process exited with code 1: SyntaxError in generated code";
    journal.ended(attempt(CODING, 1, 1), Ending::Failed, error_evidence(exited));
    assert_shows(&journal, &json!({"coding": {"status": "PENDING", "attempts": 1, "last_error": exited}}));
    journal.absorb(Fact::BackoffElapsed { attempt: attempt(CODING, 1, 1) }, None);
    assert_shows(
        &journal,
        &json!({"coding": {"status": "RUNNING", "attempts": 2, "last_error": exited, "ended_at": null}}),
    );
    journal.ended(attempt(CODING, 1, 2), Ending::Failed, error_evidence(exited));
    assert_shows(
        &journal,
        &json!({
            "coding": {
                "status": "FAILED", "attempts": 2, "last_error": exited,
                "started_at": "1970-01-01T00:00:05.000000Z", "ended_at": "1970-01-01T00:00:06.000000Z",
            },
        }),
    );
}

#[test]
fn a_gate_failure_beyond_the_limit_fails_the_gate() {
    let mut journal = Journal::open(&[(CODING, &[], None), (REVIEW, &[CODING], Some(CODING))]);
    for turn in 1..=4 {
        done(&mut journal, CODING, turn);
        let failed = ending_with(Verdict::GateFailed);
        journal.ended(attempt(REVIEW, turn, 1), failed, gate_failure_evidence(REVIEW, "found P0 issues"));
        let status = if turn < 4 { "COMPLETED" } else { "FAILED" };
        assert_shows(&journal, &json!({"code_review": {"status": status, "iteration_count": turn - 1}}));
        if turn < 4 {
            journal.proceed();
        }
    }
}

#[test]
fn a_run_that_starts_again_keeps_what_the_failed_gate_has_found() {
    let mut journal = Journal::open(&[(CODING, &[], None), (REVIEW, &[CODING], Some(CODING))]);
    for turn in 1..=4 {
        done(&mut journal, CODING, turn);
        let why = format!("found P0 issues in round {turn}");
        journal.ended(
            attempt(REVIEW, turn, 1),
            ending_with(Verdict::GateFailed),
            gate_failure_evidence(REVIEW, &why),
        );
        if turn < 4 {
            journal.proceed();
        }
    }
    let findings = |journal: &Journal| -> Vec<String> {
        let brief = journal.state.run.machine.brief(&StepId::new(CODING).unwrap(), 1);
        brief.findings.iter().map(|found| format!("{}: {}", found.from, found.report.logs[0])).collect()
    };
    let start_at = Request::StartAt(StepId::new(CODING).unwrap());
    journal.request(run::Request::Protocol(serde_json::to_value(&start_at).unwrap()));
    journal.proceed();
    assert_eq!(findings(&journal), ["code_review: found P0 issues in round 4"]);
    journal.request(run::Request::Protocol(serde_json::to_value(&start_at).unwrap()));
    journal.ended(attempt(CODING, 5, 1), Ending::Stopped, error_evidence("stopped"));
    journal.proceed();
    assert_eq!(findings(&journal).len(), 1, "the coding step has not addressed it yet");
    done(&mut journal, CODING, 6);
    assert_eq!(findings(&journal), Vec::<String>::new());
}
