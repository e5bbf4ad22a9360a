//! The JSON of a cycle: the original's examples and types. [`MasterFile`] is the whole of it.
//!
//! A partial example leaves out what is as before. The text `...` stands for a value that the example does not give.
//!
//! The phases are `ra` (requirements), `ep` (exploration and plan), `cd` (code) and `vas` (validation).

use std::collections::{BTreeMap, BTreeSet};

use protocol::cycle::{Definition, MasterFile, check, merge_partial};
use serde_json::{Value, json};

use super::{Driver, plan};

const INITIAL: &str = include_str!("../fixtures/cycle/initial-state.json");
const EXAMPLES: [&str; 4] = [
    INITIAL,
    include_str!("../fixtures/cycle/iteration-1-initial-execution.partial.json"),
    include_str!("../fixtures/cycle/after-phase-completion.partial.json"),
    include_str!("../fixtures/cycle/iteration-2-user-extension.partial.json"),
];
const TYPES: &str = include_str!("../fixtures/cycle/types.ts");

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_first_document_has_the_keys_and_values_of_the_initial_state() {
    let definition = Definition {
        title: Some("Implement OAuth authentication".to_owned()),
        ..Definition::new("Add OAuth2 login support with Google and GitHub providers")
    };
    let mut expected = value(INITIAL);
    // The task as typed is the first entry of the history; the example's history has the title.
    expected["task_history"] = json!(["Add OAuth2 login support with Google and GitHub providers"]);
    let found = Driver::open(definition).view("cycle-v1-20260122T100000-abc123.json");
    assert_eq!(found, format!("{expected:#}\n"));
}

#[test]
fn a_title_is_the_beginning_of_the_task_in_characters() {
    let task = "ä".repeat(150);
    assert_eq!(Definition::new(task.clone()).title().chars().count(), 100);
    assert_eq!(Driver::open(Definition::new(task.clone())).master_file().task_history, [task]);
}

#[test]
fn every_example_loads_and_comes_back() {
    for example in EXAMPLES.map(value) {
        assert_eq!(check(&example), []);
        let file: MasterFile = serde_json::from_value(example.clone()).unwrap();
        let back = serde_json::to_value(&file).unwrap();
        let mut merged = back.clone();
        merge_partial(&mut merged, &example);
        assert_eq!(merged, back, "everything that the example says is still there");
        assert_eq!(serde_json::from_value::<MasterFile>(back).unwrap(), file);
    }
    let initial = value(INITIAL);
    let file: MasterFile = serde_json::from_value(initial.clone()).unwrap();
    assert_eq!(serde_json::to_value(file).unwrap(), initial, "a whole document comes back as it is");
}

#[test]
fn the_examples_merge_into_one_document() {
    let mut merged = json!({});
    EXAMPLES.map(value).iter().for_each(|example| merge_partial(&mut merged, example));
    assert_eq!(check(&merged), []);
    let file: MasterFile = serde_json::from_value(merged.clone()).unwrap();
    assert_eq!((file.current_iteration, file.title.as_str()), (2, "Implement OAuth authentication"));
    assert_eq!((file.completed_phases.len(), &merged["current_phase"]), (0, &json!("ra")));
    assert_eq!(file.iterations.len(), 2);
    assert_eq!(file.iterations[0].completed_at.as_deref(), Some("..."), "no example has the value");
    assert_eq!(file.iterations[0].agent_results["cd"].status, "partial", "merged by number");
    assert_eq!(file.agents.ra.started_at.as_deref(), Some("2026-01-22T10:05:00+08:00"));
    assert_eq!(merged["requirements"]["specification"], "...", "no example has the value");
    assert_eq!(file.requirements.unwrap().edge_cases.len(), 2);
    assert_eq!(file.coordination.feedback_log.len(), 1);
    merge_partial(&mut merged, &value(EXAMPLES[3]));
    assert_eq!(merged["coordination"]["feedback_log"].as_array().unwrap().len(), 1, "no duplicates");
}

#[test]
fn unknown_fields_are_kept_everywhere() {
    let mut document = value(INITIAL);
    document["convergence"] = json!({ "profile": "0to1" });
    document["agents"]["ra"]["mood"] = json!("good");
    document["plan"] = json!({ "version": "1.0.0", "tasks": [{ "id": "T", "title": "x" }], "prio": 1 });
    let file: MasterFile = serde_json::from_value(document.clone()).unwrap();
    let back = serde_json::to_value(file).unwrap();
    assert_eq!(
        (&back["convergence"], &back["agents"]["ra"]["mood"]),
        (&document["convergence"], &json!("good"))
    );
    assert_eq!((&back["plan"]["prio"], &back["plan"]["tasks"][0]["title"]), (&json!(1), &json!("x")));
}

#[test]
fn changes_may_be_an_object_a_list_or_null() {
    let read =
        |changes: Value| serde_json::from_value::<MasterFile>(json!({ "changes": changes })).unwrap().changes;
    assert_eq!(read(Value::Null), None);
    assert_eq!(read(json!([])), None);
    assert_eq!(read(json!([{ "file": "a" }, { "file": "a" }, { "file": "b" }])).unwrap().total_files, 2);
    assert_eq!(read(json!({ "total_files": 12 })).unwrap().total_files, 12);
}

/// The fields of each interface of `types.ts`; nested objects are named after their field.
fn interfaces() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    for line in TYPES.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix("interface ") {
            path = vec![name.trim_end_matches('{').trim().to_owned()];
        } else if line.starts_with('}') {
            path.pop();
        } else if let Some((field, kind)) = line.split_once(':') {
            let field = field.trim_end_matches('?').trim().to_owned();
            found.entry(path.last().unwrap().clone()).or_default().insert(field.clone());
            if kind.trim_end().ends_with('{') {
                path.push(field);
            }
        }
    }
    found
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object")).keys().cloned().collect()
}

#[test]
fn every_field_of_the_types_is_written() {
    // A cycle in which everything happens: a decision, a blocker, an error, an extension, a failure. With one attempt per
    // step, so that one error is a failure.
    let mut driver =
        Driver::start(Definition { max_attempts: std::num::NonZeroU32::MIN, ..Definition::new("T") });
    let asked = json!({
        "specification": "FR", "decisions": [{ "description": "Which?", "options": ["a", "b"] }],
        "blockers": [{ "description": "No key", "needed_by": "ep" }],
    });
    driver.report("ra", asked);
    driver.answer("decision.D1", protocol::Answer::Choose { option: "a".to_owned(), reason: None });
    driver.answer("blocker.B1", protocol::Answer::Resolve { text: None });
    driver.report("ep", plan());
    driver.report("cd", super::coded());
    driver.report("vas", json!({ "failed_tests": ["t"], "total_tests": 2 }));
    driver.extend("more", None).unwrap();
    driver.good_iteration();
    driver.report("ra", json!({ "unchanged": true, "summary": "still right" }));
    driver.fail("ep", "broke");
    let file = serde_json::to_value(driver.master_file()).unwrap();
    let types = interfaces();
    let shown = |pointer: &str| keys(file.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}")));
    let iterations = file["iterations"].as_array().unwrap().iter().flat_map(keys).collect();
    let agents =
        ["ra", "ep", "cd", "vas"].iter().flat_map(|agent| shown(&format!("/agents/{agent}"))).collect();
    let pairs: [(&str, BTreeSet<String>); 16] = [
        ("CycleState", shown("")),
        ("agents", shown("/agents")),
        ("AgentState", agents),
        ("phase_errors", shown("/phase_errors/0")),
        ("requirements", shown("/requirements")),
        ("exploration", shown("/exploration")),
        ("plan", shown("/plan")),
        ("PlanTask", shown("/plan/tasks/0")),
        ("changes", shown("/changes")),
        ("ChangeLog", shown("/changes/changes/0")),
        ("test_results", shown("/test_results")),
        ("IterationRecord", iterations),
        ("agent_results", shown("/iterations/0/agent_results/ra")),
        ("FeedbackEntry", shown("/coordination/feedback_log/0")),
        ("Decision", shown("/coordination/pending_decisions/0")),
        ("Blocker", shown("/coordination/blockers/0")),
    ];
    for (name, shown) in pairs {
        let missing: Vec<_> = types[name].difference(&shown).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}; it has {shown:?}");
    }
    assert_eq!(types["coordination"], shown("/coordination"));
}
