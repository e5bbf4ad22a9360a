//! Data loops, which run a step once for each item of a list: what is kept when the list is read again.

use protocol::entry::Evidence;
use protocol::run::{self, Ending};
use protocol::steps::{DataLoop, ItemsSource, Request, StepSpec, Verdict};
use serde_json::{Value, json};

use super::journal::{
    Journal, attempt, ending_with, error_evidence, gate_failure_evidence, report_evidence, step_id,
};

fn opened() -> Journal {
    opened_with_loop_back_to("code")
}

/// Opens a run of `plan`, then `code` for each item of a list, then the gate `review` for each item of `code`.
fn opened_with_loop_back_to(target: &str) -> Journal {
    let step = |id: &str, needs: &[&str]| StepSpec {
        needs: needs.iter().map(|need| step_id(need)).collect(),
        ..StepSpec::new(step_id(id), "coder", "p.md")
    };
    let source = ItemsSource::Artifact("items.json".to_owned());
    let steps = vec![
        step("plan", &[]),
        StepSpec { data_loop: Some(DataLoop::new(source)), ..step("code", &["plan"]) },
        StepSpec {
            data_loop: Some(DataLoop::new(ItemsSource::With(step_id("code")))),
            loop_back_to: Some(step_id(target)),
            ..step("review", &["code"])
        },
    ];
    Journal::open_steps(steps, 8)
}

fn done(journal: &mut Journal, step: &str, turn: u32) {
    journal.ended(attempt(step, turn, 1), ending_with(Verdict::Done), report_evidence(step, "COMPLETED"));
}

/// Ends the turn of `code` that reads the list of items.
fn report_items(journal: &mut Journal, turn: u32, items: &[&str]) {
    let mut evidence: Evidence = report_evidence("code", "COMPLETED");
    let listed: Vec<Value> = items.iter().map(|item| json!(item)).collect();
    evidence.report.as_mut().unwrap().extra_fields.insert("items".to_owned(), Value::Array(listed));
    let count = u32::try_from(items.len()).unwrap();
    journal.ended(attempt("code", turn, 1), ending_with(Verdict::Items(count)), evidence);
}

fn request_start_at(journal: &mut Journal, step: &str) {
    let request = Request::StartAt(step_id(step));
    journal.request(run::Request::Protocol(serde_json::to_value(&request).unwrap()));
}

fn findings(journal: &Journal, step: &str) -> Vec<String> {
    let brief = journal.state.run.machine.brief(&step_id(step), 1);
    brief.findings.iter().map(|found| format!("{}: {}", found.from, found.report.logs[0])).collect()
}

/// Regression: the finding of the gate was forgotten with the item before it reached the target.
#[test]
fn a_gate_in_a_data_loop_hands_its_findings_to_a_step_outside_of_it() {
    let mut journal = opened_with_loop_back_to("plan");
    done(&mut journal, "plan", 1);
    report_items(&mut journal, 1, &["login"]);
    done(&mut journal, "code.1", 1);
    let evidence = gate_failure_evidence("review.1", "the plan is wrong");
    journal.ended(attempt("review.1", 1, 1), ending_with(Verdict::GateFailed), evidence);
    journal.proceed();
    assert_eq!(findings(&journal, "plan"), ["review.1: the plan is wrong"]);
}

/// Regression: the findings were lost with the items when the list was read again.
#[test]
fn a_list_that_is_read_again_keeps_what_was_found_about_the_same_items() {
    let mut journal = opened();
    done(&mut journal, "plan", 1);
    report_items(&mut journal, 1, &["login", "logout"]);
    done(&mut journal, "code.1", 1);
    done(&mut journal, "review.1", 1);
    for turn in 1..=4 {
        done(&mut journal, "code.2", turn);
        let why = format!("round {turn}");
        journal.ended(
            attempt("review.2", turn, 1),
            ending_with(Verdict::GateFailed),
            gate_failure_evidence("review.2", &why),
        );
        if turn < 4 {
            journal.proceed();
        }
    }
    request_start_at(&mut journal, "plan");
    journal.proceed();
    done(&mut journal, "plan", 2);
    report_items(&mut journal, 2, &["logout", "profile"]);
    assert_eq!(findings(&journal, "code.1"), ["review.2: round 4"], "the item is now the first");
    assert_eq!(findings(&journal, "code.2"), Vec::<String>::new(), "another item");

    // The finding is not addressed yet, and the same item is in the list twice.
    request_start_at(&mut journal, "code");
    journal.ended(attempt("code.1", 2, 1), Ending::Stopped, error_evidence("stopped"));
    journal.proceed();
    report_items(&mut journal, 3, &["profile", "logout", "logout"]);
    assert_eq!(findings(&journal, "code.2"), ["review.2: round 4"]);
    for other in ["code.1", "code.3"] {
        assert_eq!(findings(&journal, other), Vec::<String>::new(), "{other}");
    }
}
