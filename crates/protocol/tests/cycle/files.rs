//! The files under `.progress/`: written from reports, read back after a loss.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::checks::{CheckResult, CheckSpec};
use protocol::cycle::{CycleState, Definition, check, rebuild};
use protocol::report::CopyEdit;
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
    driver.extend("more", None).unwrap();
    driver
        .report("ra", json!({ "specification": "FR-001\n\nFR-002", "edge_cases": ["EC-001", "two\nlines"] }));
    driver.report("ep", plan());
    let before = driver.state();
    let rebuilt = rebuild(&before.cycle_id, &files(&driver));
    assert_eq!(check(&rebuilt.document), []);
    let found: CycleState = serde_json::from_value(rebuilt.document).unwrap();
    assert_eq!(found.requirements, before.requirements);
    assert_eq!(found.exploration, before.exploration);
    let (plan, known) = (found.plan.unwrap(), before.plan.unwrap());
    assert_eq!(
        (plan.version, plan.critical_path, plan.total_estimated_effort),
        (known.version, known.critical_path, known.total_estimated_effort)
    );
    assert_eq!(plan.tasks[0].files, known.tasks[0].files);
    assert_eq!(found.changes, before.changes);
    let (results, known) = (found.test_results.unwrap(), before.test_results.unwrap());
    assert_eq!(
        (results.pass_rate, results.coverage, results.total_tests),
        (known.pass_rate, known.coverage, known.total_tests)
    );
    assert_eq!(
        (found.current_iteration, found.completed_phases),
        (2, vec!["ra".to_owned(), "ep".to_owned()])
    );
    assert!(
        rebuilt.lost.iter().any(|lost| lost.contains("the task and its extensions")),
        "{:?}",
        rebuilt.lost
    );
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
    assert_eq!(driver.state().changes.unwrap().iteration_markers.len(), 2);
    assert!(driver.file("ep/history/plan-v1.0.0.json").contains("\"version\": \"1.0.0\""));
    assert!(!driver.file("ep/plan.json").contains("\"status\""), "the status of a task is the state's");
}

#[test]
fn the_figures_of_the_engine_count_and_those_of_an_agent_are_claims() {
    let spec =
        CheckSpec { name: "test".to_owned(), command: vec!["t".to_owned()], timeout: Duration::from_secs(1) };
    let mut driver = Driver::start(Definition { checks: vec![spec], ..Definition::new("Add login") });
    driver.report("ra", json!({ "specification": "FR-001" }));
    driver.report("ep", plan());
    driver.report("cd", coded());
    assert_eq!(driver.live(), ["vas.test"]);
    let result = CheckResult {
        name: "test".to_owned(),
        command: vec!["t".to_owned()],
        exit_code: Some(1),
        error: None,
        duration_ms: 5,
        tree: None,
        output_digest: "x".to_owned(),
        output: "test result: FAILED. 3 passed; 1 failed".to_owned(),
        log: None,
    };
    driver.report("vas.test", json!({ "checks": [result] }));
    assert!(driver.prompt("vas").contains("test failed: exit code 1"));
    driver.report("vas", json!({ "pass_rate": 100, "total_tests": 99, "coverage": "80%" }));
    let results = driver.state().test_results.unwrap();
    assert_eq!((results.pass_rate, results.total_tests), (75.into(), 4));
    assert_eq!(results.unknown["source"], "engine");
    let file: Value = serde_json::from_str(&driver.file("vas/test-results.json")).unwrap();
    assert_eq!((&file["claims"]["pass_rate"], &file["coverage"]["source"]), (&json!(100), &json!("claim")));
    assert_eq!(
        driver.state().current_iteration,
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
    let path = format!(".workflow/.cycle/{}.progress/ra/requirements.md", driver.state().cycle_id);
    let edited = driver.file("ra/requirements.md").replace("FR-001", "FR-001 and FR-002");
    let mut report = driver.made("ra", json!({}));
    assert!(matches!(driver.run.machine.parse_report(&step, &report), ParsedReport::Invalid(_)));
    report.copy_edits.insert(path, CopyEdit::Text(edited));
    assert!(matches!(driver.run.machine.parse_report(&step, &report), ParsedReport::Verdict(_)));
}
