//! Whole cycles: the feedback that the next iteration gets, and the four ways to end (success, iteration limit, failure, stop).
//!
//! The phases are `ra` (requirements), `ep` (exploration and plan), `cd` (code) and `vas` (validation).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use protocol::cycle::document::{AgentStatus, BlockerStatus, DecisionStatus, FeedbackKind, TaskStatus};
use protocol::cycle::{DecisionMode, Definition, MergeMode, Overlap, Phase, Status};
use protocol::entry::Evidence;
use protocol::present::StatusKind;
use protocol::run::{Ending, Fact, Refusal, Request, RunStatus, consider};
use protocol::{Answer, Outcome};
use serde_json::json;

use super::{Driver, coded, plan, status};

/// Returns the feedback log: source, target, kind and content of each entry.
fn feedback(driver: &Driver) -> Vec<(String, String, FeedbackKind, String)> {
    let log = driver.master_file().coordination.feedback_log;
    log.into_iter().map(|entry| (entry.source, entry.target, entry.kind, entry.content)).collect()
}

fn feedback_entry(
    source: &str,
    target: &str,
    kind: FeedbackKind,
    content: &str,
) -> (String, String, FeedbackKind, String) {
    (source.to_owned(), target.to_owned(), kind, content.to_owned())
}

#[test]
fn a_clean_cycle_succeeds_after_one_iteration() {
    let mut driver = Driver::start(Definition::new("Add login"));
    assert_eq!(driver.live_steps(), ["ra"]);
    assert_eq!(
        (driver.master_file().status, driver.master_file().current_phase),
        (Status::Running, Phase::Requirements)
    );
    assert_eq!(driver.master_file().agents.ra.status, AgentStatus::Running);
    driver.report("ra", json!({ "specification": "FR-001" }));
    assert_eq!(
        (driver.live_steps(), driver.master_file().current_phase),
        (vec!["ep".to_owned()], Phase::Planning)
    );
    driver.report("ep", plan());
    assert_eq!(driver.master_file().plan.unwrap().tasks[0].status, TaskStatus::Pending);
    driver.report("cd", coded());
    let state = driver.master_file();
    let task = &state.plan.as_ref().unwrap().tasks[0];
    assert_eq!((task.status, task.assigned_to.as_deref()), (TaskStatus::Completed, Some("cd")));
    assert_eq!(state.changes.unwrap().iteration_markers.keys().collect::<Vec<_>>(), ["1"]);
    driver.report("vas", json!({ "total_tests": 4 }));
    let state = driver.master_file();
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Succeeded));
    assert_eq!((state.status, state.current_phase), (Status::Completed, Phase::Complete));
    assert_eq!(state.completed_phases, ["ra", "ep", "cd", "vas"]);
    assert!(state.iterations[0].resolved && state.iterations[0].completed_at.is_some());
}

#[test]
fn feedback_about_a_failure_goes_to_the_agent_that_can_fix_it() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", json!({ "issues": ["what is a user?"] }));
    driver.report("vas", json!({ "failed_tests": ["login times out"], "total_tests": 4 }));
    assert_eq!(driver.master_file().current_iteration, 2);
    assert_eq!(
        feedback(&driver),
        [
            feedback_entry("vas", "cd", FeedbackKind::BugReport, "login times out"),
            feedback_entry("cd", "ra", FeedbackKind::Clarification, "what is a user?"),
            feedback_entry("cd", "ep", FeedbackKind::IssueFix, "TASK-001 is not completed: do it"),
        ]
    );
    assert!(
        driver.prompt("ra").contains("what is a user?") && !driver.prompt("ra").contains("login times out")
    );
    driver.report("ra", json!({ "unchanged": true, "summary": "still right" }));
    let requirements = driver.master_file().requirements.unwrap();
    assert_eq!((requirements.version.as_str(), requirements.specification.as_str()), ("1.1.0", "FR-001"));
    assert!(driver.prompt("ep").contains("TASK-001 is not completed"));
    driver.report("ep", json!({ "unchanged": true }));
    assert_eq!(driver.master_file().plan.unwrap().version, "1.1.0");
    assert!(driver.prompt("cd").contains("login times out"));
    driver.report("cd", coded());
    driver.report("vas", json!({ "total_tests": 4 }));
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Succeeded));
    let timeline = driver.file("coordination/timeline.md");
    assert_eq!(timeline.matches("## Iteration").count(), 2);
}

#[test]
fn at_the_limit_a_cycle_ends_incomplete_and_lists_what_is_open() {
    let mut driver = Driver::start(Definition { max_iterations: 1, ..Definition::new("Add login") });
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", coded());
    driver.report("vas", json!({ "failed_tests": ["login times out"] }));
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Incomplete));
    let state = driver.master_file();
    assert_eq!((state.status, state.failure_reason), (Status::Completed, None));
    assert_eq!(state.iterations[0].issues_found, ["login times out"]);
    assert!(!state.iterations[0].resolved);
    assert_eq!(
        driver.extend("more", None),
        Err(refused("iteration_limit", "it has used its limit of 1 iterations"))
    );
    driver.extend("more", Some(2)).unwrap();
    assert_eq!((driver.master_file().max_iterations, driver.master_file().current_iteration), (2, 2));
    assert!(driver.master_file().completed_at.is_none());
}

fn refused(code: &'static str, message: &str) -> Refusal {
    Refusal::Protocol(protocol::RequestRefusal { code, message: message.to_owned() })
}

#[test]
fn attempts_that_run_out_fail_the_cycle_with_a_phase_error() {
    let definition = Definition { max_attempts: NonZeroU32::MIN, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.fail("ep", "exited with code 1");
    let state = driver.master_file();
    assert_eq!((status(&driver.run), state.status), (RunStatus::Finished(Outcome::Failed), Status::Failed));
    assert_eq!(state.failure_reason.as_deref(), Some("`ep` failed: exited with code 1"));
    assert_eq!(
        (state.phase_errors[0].phase.as_str(), state.phase_errors[0].error.as_str()),
        ("ep", "exited with code 1")
    );
    assert_eq!(state.agents.ep.status, AgentStatus::Failed);
    driver.request(Request::Retry { step: None }).unwrap();
    assert_eq!((driver.live_steps(), driver.master_file().status), (vec!["ep".to_owned()], Status::Running));
    assert_eq!(driver.document().engine.reopened.len(), 1, "the old reason is kept");
}

#[test]
fn a_stop_is_a_failure_with_its_own_reason_and_can_be_retried() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.request(Request::Stop).unwrap();
    assert_eq!(driver.master_file().failure_reason.as_deref(), Some("manually stopped by user"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Failed));
    driver.request(Request::Retry { step: None }).unwrap();
    assert_eq!(driver.live_steps(), ["ep"], "a report that came in time counts");
}

#[test]
fn an_extension_opens_an_iteration_as_the_format_says() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    driver.extend("Also add logout", None).unwrap();
    let state = driver.master_file();
    assert_eq!(state.description, "Add login\n\n--- ITERATION 2 ---\nAlso add logout");
    assert_eq!(state.task_history, ["Add login", "Also add logout"]);
    assert_eq!((state.status, state.current_iteration), (Status::Running, 2));
    assert_eq!(state.iterations[1].extension.as_deref(), Some("Also add logout"));
    assert_eq!(state.agents.ra.status, AgentStatus::Running);
    assert_eq!((state.agents.ep.status, state.agents.ep.iterations_completed), (AgentStatus::Idle, 1));
    assert_eq!(
        feedback(&driver),
        [feedback_entry("user", "ra", FeedbackKind::RequirementUpdate, "Also add logout")]
    );
    assert_eq!(state.coordination.feedback_log[0].timestamp, state.iterations[1].started_at);
    assert!(driver.prompt("ra").contains("Add login\n\n--- ITERATION 2 ---\nAlso add logout"));
}

#[test]
fn feedback_that_an_agent_has_not_received_reaches_it_in_a_later_iteration() {
    let definition =
        Definition { max_attempts: NonZeroU32::MIN, parallel: 2, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", coded());
    driver.report("vas", json!({ "failed_tests": ["login times out"], "total_tests": 4 }));
    driver.fail("ra", "exited with code 1");
    driver.extend("Also add logout", None).unwrap();
    assert_eq!(driver.master_file().current_iteration, 3);
    driver.report("ra", json!({ "unchanged": true }));
    let mut more = plan();
    more["tasks"].as_array_mut().unwrap().extend([json!({ "id": "A" }), json!({ "id": "B" })]);
    driver.report("ep", more);
    assert_eq!(driver.live_steps(), ["cd"], "one step fixes the bugs");
    assert!(driver.prompt("cd").contains("login times out"));
}

#[test]
fn every_iteration_is_a_row_of_the_table() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", json!({ "phase_status": "partial", "summary": "half" }));
    driver.extend("Also add logout", None).unwrap();
    driver.report("vas", json!({ "total_tests": 4 }));
    let rows = driver.run.machine.step_table().unwrap().rows;
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.name.as_str(), row.cells.iter().flatten().count(), row.note.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        shown,
        [
            ("iteration 1", 0, "✓ ra  ✓ ep  ! cd partial  ✓ vas, 1 open issue"),
            ("iteration 2", 4, "extension: Also add logout"),
        ]
    );
}

#[test]
fn an_extension_of_a_running_cycle_waits_for_the_end_of_its_iteration() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.extend("Also add logout", None).unwrap();
    driver.request(Request::Pause).unwrap();
    driver.extend("Also add a picture", None).unwrap();
    assert_eq!((driver.master_file().status, driver.master_file().current_iteration), (Status::Paused, 1));
    driver.request(Request::Resume).unwrap();
    driver.good_iteration();
    assert_eq!(driver.master_file().iterations[1].extension.as_deref(), Some("Also add logout"));
    driver.good_iteration();
    assert_eq!(driver.master_file().iterations[2].extension.as_deref(), Some("Also add a picture"));
    driver.good_iteration();
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn a_decision_blocks_the_phase_that_needs_it() {
    let mut driver = Driver::start(Definition::new("Add login"));
    let decision = json!({ "description": "Which database?", "options": ["SQLite", "Postgres"], "recommended": "SQLite" });
    driver.report("ra", json!({ "specification": "FR-001", "decisions": [decision] }));
    assert_eq!(driver.live_steps(), Vec::<String>::new());
    assert_eq!(driver.master_file().agents.ep.status, AgentStatus::Waiting);
    let question = driver.run.machine.question(&protocol::StepId::new("decision.D1").unwrap()).unwrap();
    assert_eq!(
        (question.text.as_str(), question.options.len()),
        ("Which database? (recommended: SQLite)", 2)
    );
    driver.answer("decision.D1", Answer::Choose { option: "Postgres".to_owned(), reason: None });
    let made = driver.master_file().coordination.pending_decisions[0].clone();
    assert_eq!((made.status, made.made_by.as_deref()), (DecisionStatus::Made, Some("ada")));
    assert!(driver.prompt("ep").contains("D1: Which database? → Postgres"));
    driver.report("ep", plan());
    assert_eq!(driver.master_file().coordination.pending_decisions[0].status, DecisionStatus::Implemented);
}

#[test]
fn decision_mode_auto_takes_the_recommended_option_and_says_so() {
    let definition = Definition { decisions: DecisionMode::Auto, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    let decision = json!({ "description": "Which database?", "options": ["SQLite", "Postgres"], "recommended": "Postgres" });
    driver.report("ra", json!({ "specification": "FR-001", "decisions": [decision] }));
    assert_eq!(driver.live_steps(), ["ep"]);
    let made = driver.master_file().coordination.pending_decisions[0].clone();
    assert_eq!((made.chosen_option.as_deref(), made.made_by.as_deref()), (Some("Postgres"), Some("auto")));
    assert!(driver.prompt("ep").contains("D1: Which database? → Postgres"));
    let decision = driver.run.machine.step_summary(&protocol::StepId::new("decision.D1").unwrap());
    assert_eq!(decision.kind, StatusKind::Succeeded, "it has no turn, and does not wait");
}

/// Regression: a blocked agent needed a complete report. It made one up, or used up its attempts, and the blocker was
/// lost.
#[test]
fn a_blocked_agent_reports_its_blocker_alone() {
    for status in ["COMPLETED", "FAILED"] {
        let mut driver = Driver::start(Definition::new("Add login"));
        for number in 1..=2 {
            driver.report("ra", json!({ "status": status, "blockers": [{ "description": "no access" }] }));
            assert_eq!(driver.live_steps(), Vec::<String>::new(), "{status}");
            driver.answer(&format!("blocker.B{number}"), Answer::Resolve { text: None });
            assert_eq!(driver.live_steps(), ["ra"], "it is asked again");
        }
        assert_eq!(driver.master_file().requirements, None, "nothing was specified");
        driver.good_iteration();
    }
}

/// Regression: `cd` and `vas` without other fields counted as coded and validated at the second blocker, and
/// `test-results.json` had a pass rate of 100.
#[test]
fn a_blocked_developer_or_validator_has_done_nothing_yet() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    let mut number = 0;
    for (step, good_report) in [("cd", coded()), ("vas", json!({ "total_tests": 4 }))] {
        for _ in 1..=2 {
            number += 1;
            driver.report(step, json!({ "blockers": [{ "description": "no access" }] }));
            assert_eq!(driver.live_steps(), Vec::<String>::new());
            driver.answer(&format!("blocker.B{number}"), Answer::Resolve { text: None });
            assert_eq!(driver.live_steps(), [step], "it is asked again");
        }
        assert_eq!(
            (
                driver.master_file().test_results,
                driver.master_file().completed_phases.contains(&step.to_owned())
            ),
            (None, false)
        );
        driver.report(step, good_report);
    }
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn a_blocker_asks_its_agent_again_after_the_answer() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001", "blockers": [{ "description": "no access" }] }));
    assert_eq!(driver.live_steps(), Vec::<String>::new());
    driver.answer("blocker.B1", Answer::Workaround { text: "use a fake".to_owned() });
    let blocker = driver.master_file().coordination.blockers[0].clone();
    assert_eq!(
        (blocker.status, blocker.resolution.as_deref()),
        (BlockerStatus::Workaround, Some("use a fake"))
    );
    assert_eq!(driver.live_steps(), ["ra"]);
    assert!(driver.prompt("ra").contains("use a fake"));
    driver.report("ra", json!({ "specification": "FR-001, with a fake" }));
    let requirements = driver.master_file().requirements.unwrap();
    assert_eq!(requirements.version, "1.0.1", "a rewrite inside an iteration");
    assert!(driver.file("ra/history/requirements-v1.0.0.md").contains("FR-001"));
    assert_eq!(driver.live_steps(), ["ep"]);
}

/// Findings, answers and extensions reach an agent through an entry of the feedback log that is for it. The extensions are also in
/// the task, which every agent is given.
#[test]
fn nothing_reaches_a_prompt_without_an_entry_of_the_feedback_log() {
    const SENTINELS: [&str; 6] = ["S-issue", "S-test", "S-option", "S-workaround", "S-gap", "S-extension"];
    let mut driver = Driver::start(Definition::new("Add login"));
    let mut seen = BTreeSet::new();
    let mut check = |driver: &Driver| {
        let log = driver.master_file().coordination.feedback_log;
        for step in ["ra", "ep", "cd", "vas"] {
            let prompt = driver.prompt(step);
            for sentinel in SENTINELS.into_iter().filter(|sentinel| prompt.contains(sentinel)) {
                let is_for = |target: &str| target == step || sentinel == "S-extension";
                let is_logged =
                    log.iter().any(|entry| entry.content.contains(sentinel) && is_for(&entry.target));
                assert!(is_logged, "`{sentinel}` is in the prompt of `{step}`, not in the log");
                seen.insert(sentinel);
            }
        }
    };
    let decision = json!({ "description": "Which?", "options": ["S-option", "x"] });
    driver.report("ra", json!({ "specification": "FR", "decisions": [decision] }));
    check(&driver);
    driver.answer("decision.D1", Answer::Choose { option: "S-option".to_owned(), reason: None });
    check(&driver);
    driver.report("ep", json!({ "tasks": [{ "id": "T" }], "phase_status": "partial", "summary": "S-gap" }));
    driver.report("cd", json!({ "issues": ["S-issue"], "blockers": ["odd"] }));
    check(&driver);
    driver.answer("blocker.B1", Answer::Workaround { text: "S-workaround".to_owned() });
    check(&driver);
    driver.report("cd", json!({ "tasks_completed": ["T"], "issues": ["S-issue"] }));
    check(&driver);
    driver.extend("S-extension", None).unwrap();
    driver.report("vas", json!({ "failed_tests": ["S-test"] }));
    check(&driver);
    driver.report("ra", json!({ "unchanged": true }));
    check(&driver);
    driver.report("ep", json!({ "unchanged": true }));
    check(&driver);
    assert_eq!(seen, BTreeSet::from(SENTINELS), "each has reached a prompt");
}

#[test]
fn independent_tasks_are_coded_at_once_and_merged_before_validation() {
    let definition =
        Definition { parallel: 2, merge_mode: MergeMode::Branch, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    driver.report("ra", json!({ "specification": "FR-001" }));
    let task = |id: &str, needs: &[&str], file: &str| json!({ "id": id, "description": "do it", "depends_on": needs, "files": [file] });
    let tasks = [task("A", &[], "a/**"), task("B", &[], "b"), task("C", &["A"], "c"), task("D", &[], "a/x")];
    driver.report("ep", json!({ "tasks": tasks }));
    assert_eq!(driver.live_steps(), ["cd.A", "cd.B"], "D changes files of A, and C depends on A");
    driver.report("cd.A", json!({ "tasks_completed": ["A"] }));
    assert_eq!(driver.live_steps(), ["cd.A.merge", "cd.B"]);
    assert_eq!(driver.master_file().plan.unwrap().tasks[0].status, TaskStatus::InProgress);
    driver.report("cd.A.merge", json!({ "gate_failure": true, "logs": ["conflict in a/y"] }));
    assert_eq!(driver.live_steps(), ["cd.A", "cd.B"]);
    assert!(driver.prompt("cd.A").contains("conflict in a/y"));
    driver.report("cd.A", json!({ "tasks_completed": ["A"] }));
    driver.report("cd.A.merge", json!({}));
    assert_eq!(driver.live_steps(), ["cd.B", "cd.C"]);
    driver.report("cd.B", json!({ "tasks_completed": ["B"] }));
    driver.report("cd.B.merge", json!({}));
    driver.report("cd.C", json!({ "tasks_completed": ["C"] }));
    driver.report("cd.C.merge", json!({}));
    driver.report("cd.D", json!({ "tasks_completed": ["D"] }));
    driver.report("cd.D.merge", json!({}));
    assert_eq!(driver.live_steps(), ["vas"]);
    assert!(driver.master_file().plan.unwrap().tasks.iter().all(|task| task.status == TaskStatus::Completed));
}

#[test]
fn overlapping_steps_do_not_hold_a_phase_that_does_not_need_them() {
    let definition =
        Definition { overlap: Overlap::On, max_attempts: NonZeroU32::MIN, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    assert_eq!(driver.live_steps(), ["ep.explore", "ra"]);
    driver.report("ra", json!({ "specification": "FR-001" }));
    assert_eq!(driver.live_steps(), ["ep.explore", "vas.baseline"], "the plan needs the exploration");
    driver.fail("ep.explore", "crashed");
    assert_eq!(driver.live_steps(), ["ep", "vas.baseline"], "without it, the plan goes on");
    driver.report("ep", plan());
    assert_eq!(driver.live_steps(), ["vas.baseline"], "the baseline must not see new code");
    driver.report("vas.baseline", json!({ "total_tests": 3 }));
    assert_eq!(driver.live_steps(), ["cd"]);
    let (source, target, _, content) = feedback(&driver).pop().unwrap();
    assert!(
        (source.as_str(), target.as_str()) == ("vas", "vas") && content.contains("\"total_tests\":3"),
        "{content}"
    );
    assert_eq!(driver.master_file().phase_errors[0].error, "ep.explore: crashed");
}

/// The scripted agent of a rehearsal reports the examples, so they must be valid.
#[test]
fn the_example_of_every_form_matches_its_schema_and_is_accepted() {
    let definition = Definition {
        parallel: 2,
        overlap: Overlap::On,
        merge_mode: MergeMode::Branch,
        ..Definition::new("Add login")
    };
    let mut driver = Driver::start(definition);
    let mut seen = Vec::new();
    while let Some(step) = driver.live_steps().into_iter().find(|step| !step.ends_with(".merge")) {
        let brief = driver.run.machine.brief(&protocol::StepId::new(&step).unwrap(), 1);
        let protocol::report::ReportForm::Fields(fields) = &brief.form else {
            panic!("`{step}` has no form")
        };
        let example = serde_json::Value::Object(fields.example.clone());
        let validator = jsonschema::validator_for(&fields.schema).unwrap();
        assert!(validator.is_valid(&example), "{step}: {example:#}");
        driver.report(&step, example);
        seen.push(step);
        for merge in driver.live_steps().into_iter().filter(|step| step.ends_with(".merge")) {
            driver.report(&merge, json!({}));
        }
    }
    seen.sort();
    assert_eq!(seen, ["cd.TASK-001", "cd.TASK-002", "ep", "ep.explore", "ra", "vas", "vas.baseline"]);
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn a_second_stop_while_the_first_one_is_ending_changes_nothing() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.request(Request::Stop).unwrap();
    let stopped = driver.master_file();
    assert_eq!(status(&driver.run), RunStatus::Finishing(Outcome::Failed), "its attempt is still alive");
    let decision = consider(&mut driver.run, &Request::Stop).unwrap();
    assert!(decision.is_nothing(), "{decision:?}");
    assert_eq!(driver.master_file(), stopped);
    let attempt = driver.attempt("ra");
    driver.absorb(Fact::Ended { attempt, ending: Ending::Stopped }, Evidence::default());
    assert_eq!(status(&driver.run), RunStatus::Finished(Outcome::Failed));
    assert_eq!(driver.master_file().iterations[0].agent_results["ra"].status, "stopped");
    assert_eq!(driver.master_file().failure_reason.as_deref(), Some("manually stopped by user"));
    assert!(driver.request(Request::Stop).is_err(), "the run has ended");
}
