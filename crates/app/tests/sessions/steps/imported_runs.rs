//! `import .agents/runs/ID`: the files of a run that another program has written. They have the format of the original of
//! `steps`, with seventeen fields per step.

use std::fs;

use serde_json::{Value, json};
use testkit::TestEnv;

use crate::sessions::{status, test_env};

const WORKFLOW: &str = "\
name: delivery
steps:
  - {id: plan, agent: coder, prompt: task.md}
  - {id: code, agent: coder, prompt: task.md, needs: [plan]}
  - {id: approval, agent: coder, prompt: task.md, needs: [code], human_in_the_loop: true}
  - {id: ship, agent: coder, prompt: task.md, needs: [approval]}
";

/// Returns a step as the other program stores it, with these fields changed.
fn step(status: &str, changes: &Value) -> Value {
    let mut step = json!({
        "status": status, "attempts": 1, "iteration_count": 0, "report_path": null,
        "started_at": "2025-01-15T14:30:05Z", "ended_at": null, "last_error": null,
        "artifacts": [], "metrics": {}, "logs": [], "manual_input_path": null, "blocked_by_loop": null,
        "notified_failure": false, "notified_human_input": false, "loop_index": 0, "loop_items": null,
        "loop_completed": false,
    });
    step.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    step
}

/// Makes the files of a run of the other program that waits for a person, with its workflow. Returns the document.
fn foreign_run() -> (TestEnv, Value) {
    let test_env = test_env();
    test_env.write("workflows/delivery.yaml", WORKFLOW);
    test_env.write("workflows/other.yaml", &WORKFLOW.replace("delivery", "other"));
    let run_dir = test_env.repo().join(".agents/runs/f8c1a491");
    let path = |name: &str| run_dir.join(name).to_str().unwrap().to_owned();
    let pending = step("PENDING", &json!({"attempts": 0, "started_at": null}));
    let document = json!({
        "run_id": "f8c1a491", "workflow_name": "delivery", "repo_dir": test_env.repo(),
        "reports_dir": path("reports"), "manual_inputs_dir": path("manual_inputs"),
        "created_at": "2025-01-15T14:30:00Z", "updated_at": "2025-01-15T14:35:22.789012Z",
        "steps": {
            "plan": step("COMPLETED", &json!({
                "report_path": path("reports/f8c1a491__plan.json"), "ended_at": "2025-01-15T14:32:18.000001Z",
                "artifacts": ["PLAN.md"], "metrics": {"duration_ms": 1200, "cost_usd": 0.25, "model": "opus"},
            })),
            "code": step("COMPLETED", &json!({"ended_at": "2025-01-15T14:34:00Z", "attempts": 2})),
            "approval": step("WAITING_ON_HUMAN", &json!({
                "manual_input_path": path("manual_inputs/f8c1a491__approval.json"), "notified_human_input": true,
            })),
            "ship": pending,
        },
    });
    test_env.write(".agents/runs/f8c1a491/run_state.json", &serde_json::to_string_pretty(&document).unwrap());
    (test_env, document)
}

fn import(test_env: &TestEnv) -> testkit::CallOutput {
    test_env.callboard(&["import", ".agents/runs/f8c1a491"]).run()
}

#[test]
fn a_run_of_another_program_is_imported_exported_unchanged_and_continued() {
    let (test_env, document) = foreign_run();
    let dry_run = test_env.callboard(&["import", ".agents/runs/f8c1a491", "--dry-run"]).run();
    assert!(dry_run.stderr.contains("would import"), "{}", dry_run.transcript());
    let unknown = test_env.callboard(&["run", "workflows/delivery.yaml", "--start-at-step", "coding"]).run();
    assert!(
        unknown.stderr.contains("run `callboard import .agents/runs/f8c1a491` first"),
        "{}",
        unknown.transcript()
    );
    let imported = import(&test_env);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(imported.stderr.contains("workflows/delivery.yaml"), "{}", imported.transcript());
    assert_eq!(test_env.callboard(&["export", "f8c1a491", "--documents", "out"]).run().code, 0);
    let exported =
        fs::read_to_string(test_env.repo().join("out/.agents/runs/f8c1a491/run_state.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&exported).unwrap(), document);
    assert_eq!(import(&test_env).code, 3, "it exists now");

    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    assert_eq!(inbox[0]["step"], "approval", "{inbox:#}");
    assert_eq!(test_env.callboard(&["answer", "f8c1a491/approval", "approve"]).run().code, 0);
    let resumed = test_env.with_agent(&["resume", "f8c1a491"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["ship#1.1"]);
    let metrics = |step: &str| test_env.document("f8c1a491")["steps"][step]["metrics"].clone();
    assert_eq!(metrics("plan"), document["steps"]["plan"]["metrics"]);
    let again = test_env.with_agent(&["retry", "f8c1a491", "--from", "plan", "--exit-when-waiting"]).run();
    assert_eq!(again.code, 4, "{}", again.transcript());
    assert_eq!(metrics("plan"), json!({"lines": "3"}), "the metrics that Callboard writes are texts");
}

#[test]
fn import_takes_the_complete_steps_of_a_torn_file_and_says_what_was_lost() {
    let (test_env, _) = foreign_run();
    let view = test_env.view_path("f8c1a491");
    let text = fs::read_to_string(&view).unwrap();
    let torn = &text[..text.find("\"approval\": {").unwrap() + 200];
    fs::write(&view, torn).unwrap();
    let imported = import(&test_env);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(
        imported.stderr.contains("lost and set as in a new run: step `approval`, step `ship`"),
        "{}",
        imported.transcript()
    );
    let document = test_env.document("f8c1a491");
    assert_eq!(
        ["plan", "code", "approval"].map(|step| status(&document, step).to_owned()),
        ["COMPLETED", "COMPLETED", "PENDING"]
    );
    let resumed = test_env.with_agent(&["resume", "f8c1a491", "--exit-when-waiting"]).run();
    assert_eq!(resumed.code, 4, "{}", resumed.transcript());
    assert_eq!(test_env.agent_log().started(), ["approval#1.1"]);
}

#[test]
fn a_step_that_a_torn_file_has_lost_is_read_from_its_report() {
    let (test_env, _) = foreign_run();
    let view = test_env.view_path("f8c1a491");
    let text = fs::read_to_string(&view).unwrap();
    fs::write(&view, &text[..text.find("\"code\": {").unwrap() + 50]).unwrap();
    let report = json!({
        "schema": "run_report@v0", "run_id": "f8c1a491", "step_id": "code", "agent": "coder", "status": "done",
        "started_at": "2025-01-15T14:33:00Z", "ended_at": "2025-01-15T14:34:00Z", "artifacts": ["src/lamp.rs"],
    });
    test_env.write(".agents/runs/f8c1a491/reports/f8c1a491__code.json", &report.to_string());
    let imported = import(&test_env);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    for expected in ["taken from its report: `code`", "as in a new run: step `approval`, step `ship`"] {
        assert!(imported.stderr.contains(expected), "{}", imported.transcript());
    }
    let code = &test_env.document("f8c1a491")["steps"]["code"];
    assert_eq!((&code["status"], &code["artifacts"]), (&json!("COMPLETED"), &json!(["src/lamp.rs"])));
}

#[test]
fn an_empty_file_is_a_run_from_the_beginning_if_the_workflow_is_named() {
    let (test_env, _) = foreign_run();
    fs::write(test_env.view_path("f8c1a491"), "").unwrap();
    let refused = import(&test_env);
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("several workflows fit the run"), "{}", refused.transcript());
    let arguments = ["import", ".agents/runs/f8c1a491", "--workflow", "workflows/delivery.yaml"];
    let imported = test_env.callboard(&arguments).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(imported.stderr.contains("lost and set as in a new run: `run_id`"), "{}", imported.transcript());
}

#[test]
fn a_running_step_starts_again_and_a_directory_without_a_run_is_refused() {
    let (test_env, mut document) = foreign_run();
    document["steps"]["approval"] = step("PENDING", &json!({"attempts": 0, "started_at": null}));
    document["steps"]["code"] = step("RUNNING", &json!({}));
    test_env.write(".agents/runs/f8c1a491/run_state.json", &document.to_string());
    let imported = import(&test_env);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(
        imported.stderr.contains("was running and will start again: `code`"),
        "{}",
        imported.transcript()
    );
    assert_eq!(status(&test_env.document("f8c1a491"), "code"), "PENDING");
    let refused = test_env.callboard(&["import", "workflows"]).run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("contains neither a run nor"), "{}", refused.transcript());
}

#[test]
fn a_run_with_an_invalid_id_is_imported_under_the_name_that_the_hint_asks_for() {
    let (test_env, mut document) = foreign_run();
    document["run_id"] = "a run/of mine".into();
    test_env.write(".agents/runs/f8c1a491/run_state.json", &document.to_string());
    let refused = import(&test_env);
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("add `--as NAME`"), "{}", refused.transcript());
    let imported = test_env.callboard(&["import", ".agents/runs/f8c1a491", "--as", "mine"]).run();
    assert_eq!((imported.code, imported.stdout.trim()), (0, "mine"), "{}", imported.transcript());
}
