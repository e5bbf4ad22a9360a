//! Development cycles with the real binary and real agent processes.

use serde_json::{Value, json};
use testkit::Scene;

use crate::sessions::scene;

const ID: &str = "cycle-v1-20260122T100000-abc123";

fn master(scene: &Scene) -> Value {
    let path = scene.repo().join(format!(".workflow/.cycle/{ID}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).expect("the master file is whole")
}

fn progress(scene: &Scene, file: &str) -> String {
    let path = scene.repo().join(format!(".workflow/.cycle/{ID}.progress/{file}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn commit(scene: &Scene) {
    scene.git(&["add", "."]);
    scene.git(&["commit", "--quiet", "--message=start"]);
}

/// Agents that write, break and fix a small program, one iteration after the other.
const AGENTS: [&str; 4] = [
    r#"ra * do more=', "specification": "FR-00'$STEP_ITERATION'", "summary": "specified"'; hand_in COMPLETED ok"#,
    r#"ep * do more=', "tasks": [{"id": "TASK-00'$STEP_ITERATION'", "description": "do it", "files": ["greet.sh"]}]'; hand_in COMPLETED ok"#,
    r#"cd * do case $STEP_ITERATION in 1) echo 'echo helo' >greet.sh ;; 2) echo 'echo hello' >greet.sh ;; 3) echo 'echo bye' >leave.sh; echo '[ "$(sh leave.sh)" = bye ] && echo "1 passed"' >>test.sh ;; esac; more=', "tasks_completed": ["TASK-00'$STEP_ITERATION'"], "changes": [{"file": "greet.sh", "action": "modify", "description": "changed"}]'; hand_in COMPLETED ok"#,
    r#"vas * do more=', "pass_rate": 100, "total_tests": 99, "coverage": 80, "summary": "validated"'; hand_in COMPLETED ok"#,
];

const TEST: &str = r#"[ "$(sh greet.sh)" = hello ] || { echo "1 failed"; exit 1; }
echo "1 passed"
"#;

#[test]
fn three_iterations_survive_ten_killed_engines_and_two_pauses() {
    let scene = scene();
    scene.write("test.sh", TEST);
    scene.write("callboard.toml", "[checks]\ntest = ['sh', 'test.sh']\n");
    commit(&scene);
    scene.plan(&AGENTS);
    let mut engine = scene.with_agent(&["cycle", "Say hello", "--run-id", ID]).start();
    let moments = [
        "ra#1.1", "ep#1.1", "cd#1.1", "vas#1.1", "ra#2.1", "ep#2.1", "cd#2.1", "vas#2.1", "ra#3.1", "cd#3.1",
    ];
    for moment in moments {
        // Sometimes while the agent works, sometimes after its report: whatever the engine is doing then.
        if moment.len() % 2 == 0 {
            scene.agent_log().wait_for_start(moment);
        } else {
            scene.agent_log().wait_for_end(moment);
        }
        engine.kill();
        engine.wait();
        match moment {
            "ep#1.1" | "ep#2.1" => {
                let paused = scene.callboard(&["pause", ID]).run();
                assert_eq!(paused.code, 0, "{}", paused.transcript());
                assert_eq!(master(&scene)["status"], "paused");
                assert_eq!(scene.callboard(&["check-signals", ID]).run().code, 3);
            }
            "cd#2.1" => {
                let extended = scene.callboard(&["extend", ID, "Also say goodbye"]).run();
                assert_eq!(extended.code, 0, "{}", extended.transcript());
            }
            _ => {}
        }
        engine = scene.callboard(&["resume", ID]).start();
    }
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());

    let state = master(&scene);
    assert_eq!((&state["status"], &state["current_iteration"]), (&json!("completed"), &json!(3)));
    assert_eq!(state["requirements"]["version"], "1.2.0");
    assert_eq!(state["task_history"], json!(["Say hello", "Also say goodbye"]));
    let iterations = state["iterations"].as_array().unwrap();
    let resolved: Vec<_> = iterations.iter().map(|iteration| iteration["resolved"].clone()).collect();
    assert_eq!(resolved, [false, true, true], "{iterations:#?}");
    let kinds: Vec<_> = state["coordination"]["feedback_log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["type"].clone())
        .collect();
    assert!(
        kinds.contains(&json!("bug_report")) && kinds.contains(&json!("requirement_update")),
        "{kinds:?}"
    );
    // The figures are those of the test that the engine ran, not the 99 that the agent claims.
    let results = &state["test_results"];
    assert_eq!(
        (&results["total_tests"], &results["pass_rate"], &results["source"]),
        (&json!(2), &json!(100), &json!("engine"))
    );
    let branch = format!("cycle/{ID}");
    assert_eq!(scene.git(&["show", &format!("{branch}:leave.sh")]), "echo bye\n");
    assert!(!scene.repo().join("greet.sh").exists(), "the checkout is left alone");
    assert!(ended.transcript().contains("git merge"), "{}", ended.transcript());
    assert_eq!(progress(&scene, "coordination/timeline.md").matches("\n## Iteration ").count(), 3);
    assert_eq!(progress(&scene, "cd/changes.log").matches("iteration closed").count(), 3);
    for version in ["1.0.0", "1.1.0"] {
        assert!(progress(&scene, &format!("ra/history/requirements-v{version}.md")).contains(version));
    }
    let mut started = scene.agent_log().started();
    started.sort();
    started.dedup();
    assert_eq!(
        started.len(),
        12,
        "four agents in three iterations, each started once: {:?}",
        scene.agent_log().started()
    );
    assert_eq!(scene.agent_log().started().len(), 12);
    let checked = scene.callboard(&["check", &format!(".workflow/.cycle/{ID}.json")]).run();
    assert_eq!(checked.code, 0, "{}", checked.transcript());
    scene.expect_no_orphans();
}

#[test]
fn a_rehearsed_cycle_succeeds_and_is_extended() {
    let scene = scene();
    scene.write("a", "a\n");
    commit(&scene);
    let session = scene
        .callboard(&["cycle", "Add login", "--rehearse", "--parallel", "2", "--overlap", "--run-id", ID])
        .run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let state = master(&scene);
    assert!(
        state["plan"]["tasks"].as_array().unwrap().iter().all(|task| task["status"] == "completed"),
        "{state:#}"
    );
    let extended = scene.callboard(&["extend", ID, "Also add logout"]).run();
    assert_eq!(extended.code, 0, "{}", extended.transcript());
    assert_eq!(master(&scene)["current_iteration"], 2);
    let shown = scene.callboard(&["show", ID]).run();
    assert!(
        shown.stdout.contains("iteration 1") && shown.stdout.contains("iteration 2"),
        "{}",
        shown.transcript()
    );
    let refused = scene.callboard(&["pause", ID]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let limit = scene.callboard(&["extend", ID, "more", "--max-iterations", "1"]).run();
    assert_eq!(limit.code, 3, "{}", limit.transcript());
}

#[test]
fn an_agent_that_is_told_to_pause_may_exit_without_a_report() {
    let scene = scene();
    scene.write("a", "a\n");
    commit(&scene);
    scene.plan(&[&format!(
        r#"ra * do if [ -e "$kit/told" ]; then more=', "specification": "FR"'; hand_in COMPLETED ok; else read -r _ <"$kit/gate"; "$kit/callboard" check-signals {ID} >"$kit/signal"; echo "$?" >"$kit/told"; fi"#
    ), "ep * hang"]);
    let mut gate = scene.gate("gate");
    let engine = scene.with_agent(&["cycle", "Add login", "--run-id", ID, "--max-attempts", "1"]).start();
    scene.agent_log().wait_for_start("ra#1.1");
    assert_eq!(
        scene.callboard(&["check-signals", ID]).run().stdout,
        "{\"continue\":true,\"action\":\"continue\"}\n"
    );
    assert_eq!(scene.callboard(&["pause", ID]).run().code, 0);
    gate.open();
    assert_eq!(scene.wait_for_note("told"), "3\n");
    assert_eq!(scene.wait_for_note("signal"), "{\"continue\":false,\"action\":\"pause\"}\n");
    assert_eq!(scene.callboard(&["resume", ID]).run().code, 0);
    scene.agent_log().wait_for_start("ra#1.2");
    scene.agent_log().wait_for_start("ep#1.1");
    assert_eq!(scene.callboard(&["stop", ID]).run().code, 0);
    let ended = engine.wait();
    assert_eq!(ended.code, 1, "{}", ended.transcript());
    let state = master(&scene);
    assert_eq!(
        (&state["status"], &state["failure_reason"]),
        (&json!("failed"), &json!("manually stopped by user"))
    );
}

#[test]
fn a_decision_waits_in_the_inbox() {
    let scene = scene();
    scene.write("a", "a\n");
    commit(&scene);
    scene.plan(&[
        r#"ra * do more=', "specification": "FR", "decisions": [{"description": "Which database?", "options": ["SQLite", "Postgres"]}]'; hand_in COMPLETED ok"#,
        r#"ep * do cp "$PROMPT_PATH" "$kit/prompt"; more=', "tasks": [{"id": "T", "description": "d"}]'; hand_in COMPLETED ok"#,
        r#"cd * do more=', "tasks_completed": ["T"]'; hand_in COMPLETED ok"#,
    ]);
    let asked = scene.with_agent(&["cycle", "Add login", "--run-id", ID, "--exit-when-waiting"]).run();
    assert_eq!(asked.code, 4, "{}", asked.transcript());
    let inbox = scene.callboard(&["inbox"]).run();
    assert!(inbox.stdout.contains("Which database?"), "{}", inbox.transcript());
    let answered = scene.callboard(&["answer", &format!("{ID}/decision.D1"), "choose", "Postgres"]).run();
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    let ended = scene.callboard(&["resume", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert!(scene.wait_for_note("prompt").contains("Which database? → Postgres"));
    assert_eq!(master(&scene)["coordination"]["pending_decisions"][0]["status"], "implemented");
}

#[test]
fn embedded_a_lost_store_is_rebuilt_from_the_files() {
    let scene = scene();
    scene.write("a", "a\n");
    commit(&scene);
    assert_eq!(scene.callboard(&["cycle", "Add login", "--rehearse", "--run-id", ID]).run().code, 0);
    let before = master(&scene);
    let path = scene.repo().join(format!(".workflow/.cycle/{ID}.json"));
    std::fs::write(&path, "{ torn").unwrap();
    let restored = scene.callboard(&["recover", ID]).run();
    assert_eq!(restored.code, 0, "{}", restored.transcript());
    assert_eq!(master(&scene), before, "from the journal it is exact");

    std::fs::remove_dir_all(scene.store()).unwrap();
    std::fs::write(&path, "{ torn").unwrap();
    let rebuilt = scene.callboard(&["recover", ID]).run();
    assert_eq!(rebuilt.code, 1, "something is lost: {}", rebuilt.transcript());
    assert!(rebuilt.stderr.contains("lost: the feedback log"), "{}", rebuilt.transcript());
    let after = master(&scene);
    assert_eq!((&after["requirements"], &after["changes"]), (&before["requirements"], &before["changes"]));
    assert_eq!(after["plan"]["version"], before["plan"]["version"]);
    let set_aside = rebuilt.stderr.contains("was moved to");
    assert!(set_aside, "the torn file is kept: {}", rebuilt.transcript());
}

#[test]
fn a_foreign_cycle_is_imported_with_its_times_corrected() {
    let scene = scene();
    let foreign = json!({
        "cycle_id": ID, "title": "T", "description": "D", "task_history": ["D"], "status": "paused",
        "created_at": "2026-01-22T10:00:00.000Z", "max_iterations": 5, "current_iteration": 2,
        "current_phase": "ep", "completed_phases": ["ra"], "convergence": { "profile": "x" },
        "iterations": [{ "number": 1, "completed_at": "2026-01-22T11:00:00Z" }, { "number": 2 }],
    });
    scene.write(format!(".workflow/.cycle/{ID}.json"), &foreign.to_string());
    let imported =
        scene.callboard(&["import", &format!(".workflow/.cycle/{ID}.json"), "--times-shifted"]).run();
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let state = master(&scene);
    assert_eq!(state["created_at"], "2026-01-22T10:00:00+08:00");
    assert_eq!(state["convergence"], foreign["convergence"], "unknown fields are kept");
    scene.plan(&[
        r#"ep * do more=', "tasks": [{"id": "T", "description": "d"}]'; hand_in COMPLETED ok"#,
        r#"cd * do more=', "tasks_completed": ["T"]'; hand_in COMPLETED ok"#,
    ]);
    let ended = scene.with_agent(&["resume", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(scene.agent_log().started(), ["ep#2.1", "cd#2.1", "vas#2.1"]);
    assert_eq!(master(&scene)["status"], "completed");
}

#[test]
fn a_printed_phase_result_is_a_report() {
    let scene = scene();
    scene.write("a", "a\n");
    commit(&scene);
    scene.plan(&[
        r#"ra * do more=', "specification": "FR"'; hand_in COMPLETED ok"#,
        r#"ep * do more=', "tasks": [{"id": "T", "description": "d"}]'; hand_in COMPLETED ok"#,
        r#"cd * do printf 'PHASE_RESULT:\n- phase: cd\n- status: success\n- tasks_completed: [T]\n- files_modified: [src/a.rs]\n- issues: []\n'"#,
        r#"vas * do printf 'PHASE_RESULT:\n- phase: vas\n- status: success\n- test_pass_rate: 92%%\n- failed_tests: []\n'"#,
    ]);
    let ended = scene.with_agent(&["cycle", "Add login", "--run-id", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let state = master(&scene);
    assert_eq!(state["test_results"]["pass_rate"], 92);
    assert_eq!(state["changes"]["changes"][0]["file"], "src/a.rs");
}
