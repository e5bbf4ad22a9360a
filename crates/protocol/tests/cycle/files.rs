//! The files below `.progress/`, the directory `ID.progress/` of a cycle: written from reports, and read to rebuild a
//! document that was lost.
//!
//! The phases are `ra` (requirements), `ep` (exploration and plan), `cd` (code) and `vas` (validation).

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::checks::{CheckResult, CheckSpec};
use protocol::cycle::document::TaskStatus;
use protocol::cycle::{Definition, MasterFile, MergeMode, Role, Status, check, rebuild};
use protocol::entry::Evidence;
use protocol::report::CopyEdit;
use protocol::run::{Ending, Fact, Request};
use protocol::{ParsedReport, StepId};
use serde_json::{Value, json};

use super::{Driver, coded, plan};

/// The files of a cycle below `.progress/`.
fn files(driver: &Driver) -> BTreeMap<String, String> {
    let views = driver.run.machine.document().views().into_iter();
    let below = views.filter_map(|view| {
        let (_, path) = view.path.split_once(".progress/")?;
        Some((path.to_owned(), view.body))
    });
    below.collect()
}

#[test]
fn a_cycle_is_rebuilt_from_its_files() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    driver.extend("more\nand more", None).unwrap();
    driver
        .report("ra", json!({ "specification": "FR-001\n\nFR-002", "edge_cases": ["EC-001", "two\nlines"] }));
    driver.report("ep", plan());
    let before = driver.master_file();
    let rebuilt = rebuild(&before.cycle_id, &files(&driver));
    assert_eq!(check(&rebuilt.document), []);
    let found: MasterFile = serde_json::from_value(rebuilt.document).unwrap();
    assert_eq!(found.requirements, before.requirements);
    assert_eq!(found.exploration, before.exploration);
    let (plan, expected) = (found.plan.unwrap(), before.plan.unwrap());
    assert_eq!(
        (plan.version, plan.critical_path, plan.total_estimated_effort),
        (expected.version, expected.critical_path, expected.total_estimated_effort)
    );
    assert_eq!(plan.tasks[0].files, expected.tasks[0].files);
    assert_eq!(found.changes, before.changes);
    let (results, expected) = (found.test_results.unwrap(), before.test_results.unwrap());
    assert_eq!(
        (results.pass_rate, results.coverage, results.total_tests),
        (expected.pass_rate, expected.coverage, expected.total_tests)
    );
    assert_eq!(
        (found.current_iteration, found.completed_phases),
        (2, vec!["ra".to_owned(), "ep".to_owned()])
    );
    assert_eq!((found.title, found.description), ("Add login".to_owned(), before.description));
    assert_eq!((found.task_history, found.phase_errors), (before.task_history, Vec::new()));
    assert_eq!(found.iterations[1].extension.as_deref(), Some("more\nand more"));
    assert_eq!(found.coordination.feedback_log, before.coordination.feedback_log);
    assert_eq!((found.status, found.iterations[0].resolved), (Status::Running, true));
    assert_eq!(found.iterations[0].agent_results.len(), 4);
    assert!(rebuilt.lost.iter().all(|lost| lost.ends_with(": no file has it")), "{:?}", rebuilt.lost);
}

/// Regression: agents that did not run because of a stop were counted as having completed the iteration.
#[test]
fn a_stopped_iteration_is_rebuilt_without_the_agents_that_did_not_report() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    let attempt = driver.attempt("ep");
    driver.request(Request::Stop).unwrap();
    driver.absorb(Fact::Ended { attempt, ending: Ending::Stopped }, Evidence::default());
    driver.extend("more", None).unwrap();
    driver.report("ra", json!({ "specification": "FR-002" }));
    let found = rebuild("c", &files(&driver)).document;
    let completed = Role::ALL.map(|role| found["agents"][role.as_str()]["iterations_completed"].clone());
    assert_eq!(completed, [2, 0, 0, 0]);
}

/// Regression: an iteration in which all had reported was rebuilt as ended, and its phase `cd` as completed, although no
/// file says so.
#[test]
fn an_iteration_that_is_not_closed_is_rebuilt_as_open() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    let mut files = files(&driver);
    files.remove("coordination/timeline.md");
    files.remove("coordination/summary.md");
    let log = files.get_mut("cd/changes.log").unwrap();
    let has_marker = |line: &&str| line.contains("\"marker\"");
    let without_marker: String =
        log.lines().filter(|line| !has_marker(line)).map(|line| format!("{line}\n")).collect();
    assert!(!without_marker.is_empty() && without_marker.len() < log.len());
    let rebuilt = rebuild("c", &files).document;
    assert_eq!(
        rebuilt["iterations"][0].get("completed_at"),
        None,
        "all have reported, but it was not closed"
    );
    files.insert("cd/changes.log".to_owned(), without_marker);
    let rebuilt = rebuild("c", &files).document;
    assert_eq!(rebuilt["changes"]["iteration_markers"], json!({}));
    assert_eq!(rebuilt["completed_phases"], json!(["ra", "ep"]));
}

#[test]
fn a_completed_cycle_is_rebuilt_as_completed() {
    let mut driver = Driver::start(Definition { max_iterations: 2, ..Definition::new("Add login") });
    driver.good_iteration();
    let before = driver.master_file();
    let found = |driver: &Driver| -> MasterFile {
        serde_json::from_value(rebuild("c", &files(driver)).document).unwrap()
    };
    let completed = found(&driver);
    assert_eq!((completed.status, completed.max_iterations), (Status::Completed, 2));
    assert_eq!(completed.completed_at, before.completed_at);
    assert_eq!(completed.plan.unwrap().tasks[0].status, TaskStatus::Completed);
    driver.extend("more", None).unwrap();
    driver.report("ra", json!({ "unchanged": true }));
    let running = found(&driver);
    assert_eq!((running.status, running.current_iteration), (Status::Running, 2));
}

/// Regression: a completed cycle that a user had extended was rebuilt as completed until an agent had reported.
#[test]
fn an_extension_without_a_report_is_rebuilt_as_an_open_iteration() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    driver.extend("more", None).unwrap();
    let rebuilt = rebuild("c", &files(&driver)).document;
    assert_eq!(
        (&rebuilt["status"], &rebuilt["current_iteration"], &rebuilt["current_phase"]),
        (&json!("running"), &json!(2), &json!("ra"))
    );
}

/// Regression: feedback that is moved to a later iteration hid the extensions of the iterations that failed before.
#[test]
fn every_extension_of_iterations_that_failed_is_rebuilt() {
    let definition = Definition { max_attempts: NonZeroU32::MIN, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    driver.good_iteration();
    for text in ["first", "second"] {
        driver.extend(text, None).unwrap();
        driver.fail("ra", "crashed");
    }
    driver.extend("third", None).unwrap();
    let before = driver.master_file();
    let rebuilt: MasterFile = serde_json::from_value(rebuild("c", &files(&driver)).document).unwrap();
    assert_eq!(rebuilt.task_history, ["Add login", "first", "second", "third"]);
    assert_eq!(rebuilt.description, before.description);
    let times = |file: &MasterFile| -> Vec<_> {
        file.iterations.iter().map(|it| (it.started_at.clone(), it.completed_at.clone())).collect()
    };
    assert_eq!(times(&rebuilt)[..3], times(&before)[..3]);
}

/// Regression: a section whose phase had not worked yet was called lost.
#[test]
fn a_phase_that_has_not_worked_yet_has_lost_nothing() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    let rebuilt = rebuild("c", &files(&driver));
    assert_eq!(rebuilt.document["phase_errors"], json!([]));
    assert!(rebuilt.lost.iter().all(|lost| !lost.contains("there is no file")), "{:?}", rebuilt.lost);
}

#[test]
fn a_missing_or_broken_file_is_named() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    let mut files = files(&driver);
    files.remove("ra/requirements.md");
    files.insert("ep/plan.json".to_owned(), "{".to_owned());
    let rebuilt = rebuild("c", &files);
    assert!(rebuilt.lost[0].contains("`requirements`: there is no file"), "{:?}", rebuilt.lost);
    assert!(rebuilt.lost[1].contains("`plan`: `ep/plan.json` cannot be read"), "{:?}", rebuilt.lost);
    assert!(rebuilt.document.get("plan").is_none());
    let errors = &rebuilt.document["phase_errors"];
    assert_eq!((&errors[0]["phase"], &errors[1]["phase"]), (&json!("ra"), &json!("ep")), "{errors}");
}

#[test]
fn every_file_of_an_agent_has_a_version_and_its_old_versions() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001", "summary": "first" }));
    let mut planned = plan();
    planned["architecture"] = json!("A layer for providers.");
    driver.report("ep", planned);
    let experiment = json!({ "issue_id": "I1", "hypothesis": "no clock", "observation": "it ticks", "outcome": "refuted" });
    driver.report(
        "cd",
        json!({ "tasks_completed": ["TASK-001"], "debug_log": [experiment], "implementation": "done" }),
    );
    driver.report(
        "vas",
        json!({ "failed_tests": ["slow"], "total_tests": 2, "validation": "FR-001: not met" }),
    );
    assert!(
        driver.file("ep/architecture.md").contains("v1.0.0")
            && driver.file("ep/architecture.md").contains("A layer")
    );
    let line: Value = serde_json::from_str(driver.file("cd/debug-log.ndjson").trim_end()).unwrap();
    assert_eq!((&line["iteration"], &line["outcome"]), (&json!(1), &json!("refuted")));
    let keys: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["timestamp", "iteration", "issue_id", "hypothesis", "observation", "outcome"]);
    let validation = driver.file("vas/validation.md");
    assert!(
        validation.contains("50 % of 2 tests pass (claim).") && validation.contains("- slow"),
        "{validation}"
    );
    assert!(validation.contains("FR-001: not met"), "{validation}");
    driver.good_iteration();
    for file in [
        "ep/history/architecture",
        "vas/history/validation",
        "vas/history/summary",
        "cd/history/implementation",
    ] {
        assert!(driver.file(&format!("{file}-v1.0.0.md")).contains("| Version | 1.0.0 |"));
    }
    assert!(driver.file("ep/architecture.md").contains("one crate"), "the new summary replaces the old text");
    let requirements = driver.file("ra/requirements.md");
    let (_, history) = requirements.split_once("## Version History").unwrap();
    assert!(
        history.contains("| 1.0.0 |") && history.contains("| 1.1.0 |") && history.contains("| first |"),
        "{history}"
    );
    assert_eq!(
        driver.master_file().agents.vas.output_files.len(),
        5,
        "{:?}",
        driver.master_file().agents.vas.output_files
    );
}

#[test]
fn an_unknown_outcome_of_an_experiment_is_refused() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    let report =
        driver.make_report("cd", json!({ "debug_log": [{ "hypothesis": "h", "outcome": "maybe" }] }));
    let read = driver.run.machine.parse_report(&StepId::new("cd").unwrap(), &report);
    assert!(matches!(&read, ParsedReport::Invalid(why) if why.contains("maybe")), "{read:?}");
}

#[test]
fn logs_have_a_line_per_change_and_a_marker_per_iteration() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    driver.extend("more", None).unwrap();
    driver.good_iteration();
    let log = driver.file("cd/changes.log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let iterations: Vec<_> =
        lines.iter().map(|line| (line["iteration"].clone(), line.get("marker").is_some())).collect();
    assert_eq!(iterations, [(json!(1), false), (json!(1), true), (json!(2), false), (json!(2), true)]);
    assert_eq!((&lines[0]["agent"], &lines[0]["lines_added"]), (&json!("cd"), &json!(3)));
    let versions: Vec<_> = driver
        .file("ra/changes.log")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["version"].clone())
        .collect();
    assert_eq!(versions, ["1.0.0", "1.1.0"]);
    assert_eq!(driver.master_file().changes.unwrap().iteration_markers.len(), 2);
    assert!(driver.file("ep/history/plan-v1.0.0.json").contains("\"version\": \"1.0.0\""));
    assert!(
        !driver.file("ep/plan.json").contains("\"status\""),
        "only the master file has the status of a task"
    );
}

fn check_spec(name: &str) -> CheckSpec {
    CheckSpec { name: name.to_owned(), command: vec!["t".to_owned()], timeout: Duration::from_secs(1) }
}

fn check_result(name: &str, exit_code: i32, output: &str) -> CheckResult {
    CheckResult {
        name: name.to_owned(),
        command: vec!["t".to_owned()],
        exit_code: Some(exit_code),
        error: None,
        duration_ms: 5,
        tree: None,
        output_digest: "x".to_owned(),
        output: output.to_owned(),
        log: None,
    }
}

#[test]
fn the_coverage_is_that_of_the_check_if_there_is_one() {
    let checks = vec![check_spec("test"), check_spec("coverage")];
    let mut driver = Driver::start(Definition { checks, ..Definition::new("Add login") });
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", coded());
    let results =
        [check_result("test", 0, "3 passed"), check_result("coverage", 0, "3 passed\nTOTAL 8 1 87.5%")];
    driver.report("vas.test", json!({ "checks": results }));
    driver.report("vas", json!({ "coverage": 99 }));
    let results = driver.master_file().test_results.unwrap();
    assert_eq!((results.total_tests, results.coverage.as_f64()), (3, Some(87.5)));
    assert_eq!(results.unknown["coverage_source"], "engine");
    assert!(driver.file("vas/coverage.md").contains("Lines: 87.5 % (engine)"));
}

#[test]
fn the_figures_of_the_engine_count_and_those_of_an_agent_are_claims() {
    let spec = check_spec("test");
    let mut driver = Driver::start(Definition { checks: vec![spec], ..Definition::new("Add login") });
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", coded());
    assert_eq!(driver.live_steps(), ["vas.test"]);
    let result = check_result("test", 1, "test result: FAILED. 3 passed; 1 failed");
    driver.report("vas.test", json!({ "checks": [result] }));
    assert!(driver.prompt("vas").contains("test failed: exit code 1"));
    driver.report("vas", json!({ "pass_rate": 100, "total_tests": 99, "coverage": "80%" }));
    let results = driver.master_file().test_results.unwrap();
    assert_eq!((results.pass_rate, results.total_tests), (75.into(), 4));
    assert_eq!(results.unknown["source"], "engine");
    let file: Value = serde_json::from_str(&driver.file("vas/test-results.json")).unwrap();
    assert_eq!((&file["claims"]["pass_rate"], &file["coverage"]["source"]), (&json!(100), &json!("claim")));
    assert_eq!(file["coverage"]["lines"], 80);
    assert_eq!(
        driver.master_file().current_iteration,
        2,
        "a failing check is a failing test, whatever the agent says"
    );
}

#[test]
fn the_edit_of_a_private_copy_counts_as_the_field() {
    let mut driver = Driver::start(Definition::new("Add login"));
    driver.good_iteration();
    driver.extend("more", None).unwrap();
    let step = StepId::new("ra").unwrap();
    let path = format!(".workflow/.cycle/{}.progress/ra/requirements.md", driver.master_file().cycle_id);
    let edited = driver.file("ra/requirements.md").replace("FR-001", "FR-001 and FR-002");
    let mut report = driver.make_report("ra", json!({}));
    assert!(matches!(driver.run.machine.parse_report(&step, &report), ParsedReport::Invalid(_)));
    report.copy_edits.insert(path, CopyEdit::Text(edited));
    assert!(matches!(driver.run.machine.parse_report(&step, &report), ParsedReport::Verdict(_)));
}

#[test]
fn a_report_with_a_decision_and_an_edited_plan_asks_for_the_decision() {
    let definition = Definition { merge_mode: MergeMode::Branch, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    driver.report("ra", json!({ "specification": "FR-001" }));
    let mut planned = plan();
    planned["tasks"].as_array_mut().unwrap().push(json!({ "id": "TASK-002", "description": "more" }));
    driver.report("ep", planned);
    driver.report("cd", json!({ "tasks_completed": ["TASK-001", "TASK-002"] }));
    driver.report("vas", json!({ "failed_tests": ["t"] }));
    driver.report("ra", json!({ "unchanged": true }));
    let copies = driver.run.machine.brief(&StepId::new("ep").unwrap(), 1).copies;
    let copy = copies.iter().find(|copy| copy.path.ends_with("plan.json")).unwrap();
    let mut edited: Value = serde_json::from_str(&copy.body).unwrap();
    edited["tasks"].as_array_mut().unwrap().pop();
    let edit = CopyEdit::between(&copy.body, Ok(Some(edited.to_string().as_bytes()))).unwrap();
    let decision = json!({ "decisions": [{ "description": "Which?", "options": ["a", "b"] }] });
    driver.report_with_copies("ep", decision, BTreeMap::from([(copy.path.clone(), edit)]));
    assert_eq!(driver.master_file().plan.unwrap().tasks.len(), 1);
    assert!(driver.run.machine.question(&StepId::new("decision.D1").unwrap()).is_some());
}

#[test]
fn an_agent_can_fill_its_files_in_the_first_iteration() {
    let definition = Definition { merge_mode: MergeMode::Branch, ..Definition::new("Add login") };
    let mut driver = Driver::start(definition);
    let fill = |driver: &mut Driver, step: &str, bodies: &[(&str, &str)]| {
        let copies = driver.run.machine.brief(&StepId::new(step).unwrap(), 1).copies;
        let edit = |file: &str, body: &str| {
            let copy = copies.iter().find(|copy| copy.path.ends_with(file)).unwrap();
            (copy.path.clone(), CopyEdit::between(&copy.body, Ok(Some(body.as_bytes()))).unwrap())
        };
        let edits = bodies.iter().map(|(file, body)| edit(file, body)).collect();
        driver.report_with_copies(step, json!({}), edits);
    };
    fill(&mut driver, "ra", &[("ra/requirements.md", "# Requirements\n\nFR-001")]);
    let files = [
        ("ep/plan.json", r#"{ "tasks": [{ "id": "T", "description": "d" }] }"#),
        (
            "ep/exploration.md",
            "One crate.\n\n## Integration Points\n\n- main\n\n## Identified Risks\n\n- none\n",
        ),
        ("ep/architecture.md", "Two layers."),
    ];
    fill(&mut driver, "ep", &files);
    let state = driver.master_file();
    assert_eq!(state.requirements.unwrap().specification, "# Requirements\n\nFR-001");
    let exploration = state.exploration.unwrap();
    assert_eq!(
        (exploration.architecture_summary.as_str(), exploration.identified_risks.len()),
        ("One crate.", 1)
    );
    assert_eq!(state.plan.unwrap().tasks[0].id, "T");
    assert!(driver.file("ep/architecture.md").ends_with("Two layers.\n"));
}
