//! An agent that only edits its state file and exits finishes its turn.

use serde_json::{Value, json};

use super::*;

/// Edits one file as the attempt of the step sees it, and ends the attempt without a report of its own.
fn edit(run: &mut TeamRun, step: &str, file: &str, change: impl FnOnce(&mut Value)) {
    let id = StepId::new(step).unwrap();
    let copies = run.state.run.machine.brief(&id, 1).copies;
    let path = format!("coordination/{file}");
    let copy =
        copies.iter().find(|copy| copy.path == path).unwrap_or_else(|| panic!("{step} should have {path}"));
    let before: Value = serde_json::from_str(&copy.body).unwrap();
    let mut after = before.clone();
    change(&mut after);
    let patch = CopyEdit::Patch(json_patch::diff(&before, &after));
    run.try_say(step, json!({}), BTreeMap::from([(path, patch)]))
        .unwrap_or_else(|why| panic!("{step}: {why}"));
}

#[test]
fn each_role_finishes_its_turn_by_an_edit() {
    let mut run = TeamRun::open(definition());
    edit(&mut run, "pm.plan", "pm_state.json", |state| {
        let plan = plan(&[("A", "a.txt", &[])]);
        for name in ["all_tasks", "task_groups", "success_criteria", "mode"] {
            state[name] = plan[name].clone();
        }
        // Derived: dropped.
        state["completion_percentage"] = 100.into();
    });
    assert_eq!(run.file("pm_state.json")["completion_percentage"], 0.0);
    edit(&mut run, "A.developer", "group_status.json", |status| status["A"]["status"] = "waiting_qa".into());
    assert_eq!(run.active(), ["A.qa"]);
    edit(&mut run, "A.qa", "group_status.json", |status| {
        status["A"]["status"] = "waiting_review".into();
        status["A"]["test_results"]["e2e_tests"] = json!({ "total": 2, "passed": 2, "failed": 0 });
    });
    assert_eq!(run.active(), ["A.tech_lead"]);
    assert_eq!(run.file("group_status.json")["A"]["test_results"]["e2e_tests"]["total"], 2);
    edit(&mut run, "A.tech_lead", "messages/techlead_to_dev.json", |file| {
        file["messages"] = json!([{ "decision": "approved", "feedback": "fine" }]);
    });
    run.say("A.merge", json!({}));
    let passed = json!({ "name": "C1", "command": ["true"], "exit_code": 0, "duration_ms": 1, "output_digest": "", "output": "" });
    run.say("pm.criteria", json!({ "checks": [passed] }));
    edit(&mut run, "pm.check", "orchestrator_state.json", |state| state["status"] = "completed".into());
    assert_eq!(run.active(), ["pm.deliver"]);
}
