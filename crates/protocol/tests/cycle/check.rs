//! The rules that `callboard check` applies to a document, and the step with which an imported document continues.
//!
//! The phases are `ra` (requirements), `ep` (exploration and plan), `cd` (code) and `vas` (validation).

use protocol::cycle::{Cycle, Definition, ItemStatus, RaisedItem, Status, check};
use protocol::run::{Run, RunStatus, import};
use protocol::{Outcome, Protocol as _, RunId, RunLocation, Timestamp, TypedMachine};
use serde_json::{Value, json};

#[test]
fn each_violation_names_its_rule_and_pointer() {
    let rules = |document: Value| -> Vec<(&'static str, String)> {
        check(&document).into_iter().map(|found| (found.rule, found.pointer)).collect()
    };
    let assert_only = |document: Value, rule: &'static str, pointer: &str| {
        assert_eq!(rules(document), [(rule, pointer.to_owned())]);
    };
    assert_only(json!([]), "wrong-type", "");
    assert_only(json!({ "status": "stopped" }), "unknown-word", "/status");
    assert_only(json!({ "current_phase": "qa" }), "unknown-word", "/current_phase");
    assert_only(json!({ "agents": { "ra": { "status": "busy" } } }), "unknown-word", "/agents/ra/status");
    assert_only(
        json!({ "current_iteration": 6, "max_iterations": 5 }),
        "too-many-iterations",
        "/current_iteration",
    );
    assert_only(
        json!({ "iterations": [{ "number": 1 }, { "number": 2 }] }),
        "open-iterations",
        "/iterations/1",
    );
    assert_only(
        json!({ "iterations": [{ "number": 1, "completed_at": "..." }, { "number": 1 }] }),
        "duplicate-id",
        "/iterations/1",
    );
    assert_only(json!({ "completed_phases": ["ra", "ra"] }), "duplicate-phase", "/completed_phases/1");
    assert_only(
        json!({ "plan": { "tasks": [{ "id": "A" }, { "id": "A" }] } }),
        "duplicate-id",
        "/plan/tasks/1",
    );
    assert_only(
        json!({ "plan": { "tasks": [{ "id": "A", "depends_on": ["B"] }] } }),
        "unknown-dependency",
        "/plan/tasks/0/depends_on/0",
    );
    assert_only(
        json!({ "plan": { "tasks": [{ "id": "A", "effort": "huge" }] } }),
        "unknown-word",
        "/plan/tasks/0/effort",
    );
    assert_only(
        json!({ "test_results": { "pass_rate": 101 } }),
        "rate-out-of-range",
        "/test_results/pass_rate",
    );
    assert_only(
        json!({ "coordination": { "blockers": [{ "id": "B1", "status": "gone" }] } }),
        "unknown-word",
        "/coordination/blockers/0/status",
    );
    assert_only(json!({ "status": "failed" }), "failed-without-reason", "");
    assert_only(json!({ "title": 7 }), "wrong-type", "");
    assert_eq!(rules(json!({ "status": "failed", "failure_reason": "why" })), []);
}

fn imported(document: &Value) -> Run {
    let definition = Definition::new("imported");
    let location = RunLocation::new(RunId::new("c").unwrap(), "/repo".to_owned());
    let at = Timestamp::from_micros(0);
    let opened = Cycle::open_document(&definition, &location, at);
    let mut run = Run::empty(Box::new(TypedMachine::<Cycle>::new(definition, opened)));
    let import_move = run.machine.import(document).unwrap();
    import(&mut run, import_move, std::collections::BTreeMap::new());
    run
}

#[test]
fn an_imported_cycle_goes_on_with_its_first_open_phase() {
    let queued = |document: Value| -> Vec<String> {
        imported(&document).active_turns.keys().map(ToString::to_string).collect()
    };
    let at = |phases: &[&str]| json!({ "status": "running", "current_iteration": 2, "max_iterations": 5, "completed_phases": phases });
    assert_eq!(queued(at(&[])), ["ra"]);
    assert_eq!(queued(at(&["ra"])), ["ep"]);
    assert_eq!(queued(at(&["ra", "ep", "cd"])), ["vas"]);
    let mut asked = at(&["ra"]);
    asked["coordination"] =
        json!({ "pending_decisions": [{ "id": "db", "options": ["a"], "needed_by": "ep" }] });
    // The engine numbers decisions itself: `db` is the first.
    assert_eq!(queued(asked), ["decision.D1"]);
    let failed = imported(
        &json!({ "status": "failed", "failure_reason": "x", "current_iteration": 1, "completed_phases": ["ra"] }),
    );
    assert_eq!(failed.status, RunStatus::Finished(Outcome::Failed));
    let done = json!({ "status": "completed", "current_iteration": 1, "completed_phases": ["ra", "ep", "cd", "vas"] });
    assert_eq!(imported(&done).status, RunStatus::Finished(Outcome::Succeeded));
    assert_eq!(Status::Completed.as_str(), "completed");
}

#[test]
fn an_imported_decision_is_implemented_when_the_phase_that_needs_it_is_done() {
    let open_items = |status: &str, completed_phases: &[&str]| -> Vec<(RaisedItem, ItemStatus)> {
        let run = imported(&json!({
            "status": "running", "current_iteration": 1, "completed_phases": completed_phases,
            "coordination": {
                "pending_decisions": [{ "id": "D1", "options": ["a"], "status": status, "needed_by": "ep" }],
            },
        }));
        let state = &TypedMachine::<Cycle>::of(&*run.machine).unwrap().state;
        state.items.iter().map(|(item, state)| (*item, state.status)).collect()
    };
    assert_eq!(open_items("pending", &["ra"]), [(RaisedItem::Decision(1), ItemStatus::Pending)]);
    assert_eq!(open_items("made", &["ra"]), [(RaisedItem::Decision(1), ItemStatus::Answered)]);
    assert_eq!(open_items("made", &["ra", "ep"]), []);
    assert_eq!(open_items("implemented", &["ra"]), []);
}
