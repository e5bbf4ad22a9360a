//! Development cycles (`callboard cycle`) with the real binary and real agent processes.
//!
//! The steps are named after the roles: `ra` (requirements analyst), `ep` (exploration planner), `cd` (code developer)
//! and `vas` (validation archivist).

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Running, TestEnv};

use crate::sessions::test_env;

/// The id of the cycle, which is the name of its run, too.
const ID: &str = "cycle-v1-20260122T100000-abc123";

/// Reads the master file of the cycle, which has its whole state.
fn read_master(test_env: &TestEnv) -> Value {
    let path = test_env.repo().join(format!(".workflow/.cycle/{ID}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).expect("the master file is whole")
}

/// Reads a file of the cycle's progress directory.
fn read_progress_file(test_env: &TestEnv, file: &str) -> String {
    let path = test_env.repo().join(format!(".workflow/.cycle/{ID}.progress/{file}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn commit_all(test_env: &TestEnv) {
    test_env.git(&["add", "."]);
    test_env.git(&["commit", "--quiet", "--message=start"]);
}

/// Waits until the master file satisfies `predicate`. A live engine writes it.
fn wait_for_master(test_env: &TestEnv, what: &str, predicate: impl Fn(&Value) -> bool) {
    let directory = test_env.repo().join(".workflow/.cycle");
    let path = directory.join(format!("{ID}.json"));
    testkit::wait_until(&directory, what, || {
        let state = serde_json::from_str(&std::fs::read_to_string(&path).ok()?).ok()?;
        predicate(&state).then_some(())
    });
}

/// Agents of three iterations: they write a wrong program, fix it, and add another. In iterations 2 and 3 `vas` waits at a
/// barrier, so that the cycle does not end before the test has extended it and killed its engines.
const AGENTS: [&str; 4] = [
    r#"ra * do extra_fields=', "specification": "FR-00'$STEP_ITERATION'", "summary": "specified"'; write_report COMPLETED ok"#,
    r#"ep * do extra_fields=', "tasks": [{"id": "TASK-00'$STEP_ITERATION'", "description": "do it", "files": ["greet.sh"]}]'; write_report COMPLETED ok"#,
    r#"cd * do case $STEP_ITERATION in 1) echo 'echo helo' >greet.sh ;; 2) echo 'echo hello' >greet.sh ;; 3) echo 'echo bye' >leave.sh; echo '[ "$(sh leave.sh)" = bye ] && echo "1 passed"' >>test.sh ;; esac; extra_fields=', "tasks_completed": ["TASK-00'$STEP_ITERATION'"], "changes": [{"file": "greet.sh", "action": "modify", "description": "changed"}]'; write_report COMPLETED ok"#,
    r#"vas * do case $STEP_ITERATION in 2) read -r _ <"$shared/extended" ;; 3) read -r _ <"$shared/killed" ;; esac; extra_fields=', "pass_rate": 100, "total_tests": 99, "coverage": 80, "summary": "validated"'; write_report COMPLETED ok"#,
];

const TEST: &str = r#"[ "$(sh greet.sh)" = hello ] || { echo "1 failed"; exit 1; }
echo "1 passed"
"#;

/// Kills the engine `kills` times after random delays, and resumes the cycle each time. Between one of the kills and
/// its resume, the cycle is paused.
fn kill_at_random<'s>(
    test_env: &'s TestEnv,
    mut engine: Running<'s>,
    kills: usize,
    random: &mut fastrand::Rng,
) -> Running<'s> {
    let paused_after = random.usize(..kills);
    for number in 0..kills {
        let delay = Duration::from_millis(random.u64(1..400));
        assert!(!engine.ends_within(delay), "a barrier holds the cycle: {}", engine.wait().transcript());
        engine.kill();
        engine.wait();
        if number == paused_after {
            let session = test_env.callboard(&["pause", ID]).run();
            assert_eq!(session.code, 0, "{}", session.transcript());
            assert_eq!(read_master(test_env)["status"], "paused");
            assert_eq!(test_env.callboard(&["check-signals", ID]).run().code, 3);
        }
        engine = test_env.callboard(&["resume", ID]).start();
    }
    engine
}

#[test]
fn three_iterations_survive_ten_killed_engines_and_two_pauses() {
    let seed = std::env::var("CALLBOARD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("run again with CALLBOARD_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let test_env = test_env();
    test_env.write("test.sh", TEST);
    test_env.write("callboard.toml", "[checks]\ntest = ['sh', 'test.sh']\n");
    commit_all(&test_env);
    test_env.script_agent(&AGENTS);
    let (mut extended, mut killed) = (test_env.barrier("extended"), test_env.barrier("killed"));
    let engine = test_env.with_agent(&["cycle", "Say hello", "--run-id", ID]).start();
    // From its first commit on the cycle can be resumed.
    test_env.agent_log().wait_for_start("ra#1.1");
    let engine = kill_at_random(&test_env, engine, 5, &mut random);
    test_env.agent_log().wait_for_start("vas#2.1");
    let session = test_env.callboard(&["extend", ID, "Also say goodbye"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    extended.open();
    let engine = kill_at_random(&test_env, engine, 5, &mut random);
    killed.open();
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());

    let state = read_master(&test_env);
    assert_eq!((&state["status"], &state["current_iteration"]), (&json!("completed"), &json!(3)));
    assert_eq!(state["requirements"]["version"], "1.2.0");
    assert_eq!(state["task_history"], json!(["Say hello", "Also say goodbye"]));
    let iterations = state["iterations"].as_array().unwrap();
    let resolved: Vec<_> = iterations.iter().map(|iteration| iteration["resolved"].clone()).collect();
    assert_eq!(resolved, [false, true, true], "{iterations:#?}");
    let feedback_types: Vec<_> = state["coordination"]["feedback_log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["type"].clone())
        .collect();
    assert!(
        feedback_types.contains(&json!("bug_report"))
            && feedback_types.contains(&json!("requirement_update")),
        "{feedback_types:?}"
    );
    // The numbers are those of the check that the engine ran, not the 99 tests that the agent claims.
    let results = &state["test_results"];
    assert_eq!(
        (&results["total_tests"], &results["pass_rate"], &results["source"]),
        (&json!(2), &json!(100), &json!("engine"))
    );
    let branch = format!("cycle/{ID}");
    let file: Value = serde_json::from_str(&read_progress_file(&test_env, "vas/test-results.json")).unwrap();
    let tree = test_env.git(&["rev-parse", &format!("{branch}^{{tree}}")]);
    assert_eq!(file["by_suite"][0]["tree"], tree.trim_end(), "the test ran on what the branch has: {file:#}");
    assert_eq!(test_env.git(&["show", &format!("{branch}:leave.sh")]), "echo bye\n");
    assert!(!test_env.repo().join("greet.sh").exists(), "the checkout is left alone");
    assert!(ended.transcript().contains("git merge"), "{}", ended.transcript());
    assert_eq!(
        read_progress_file(&test_env, "coordination/timeline.md").matches("\n## Iteration ").count(),
        3
    );
    assert_eq!(read_progress_file(&test_env, "cd/changes.log").matches("iteration closed").count(), 3);
    for version in ["1.0.0", "1.1.0"] {
        assert!(
            read_progress_file(&test_env, &format!("ra/history/requirements-v{version}.md"))
                .contains(version)
        );
    }
    let expected: Vec<_> =
        (1..=3).flat_map(|turn| ["ra", "ep", "cd", "vas"].map(|step| format!("{step}#{turn}.1"))).collect();
    assert_eq!(test_env.agent_log().started(), expected, "each is started once");
    let checked = test_env.callboard(&["check", &format!(".workflow/.cycle/{ID}.json")]).run();
    assert_eq!(checked.code, 0, "{}", checked.transcript());
    test_env.expect_no_orphans();
}

#[test]
fn a_rehearsed_cycle_succeeds_and_is_extended() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    let session = test_env
        .callboard(&["cycle", "Add login", "--rehearse", "--parallel", "2", "--overlap", "--run-id", ID])
        .run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let state = read_master(&test_env);
    assert!(
        state["plan"]["tasks"].as_array().unwrap().iter().all(|task| task["status"] == "completed"),
        "{state:#}"
    );
    let extended = test_env.callboard(&["extend", ID, "Also add logout"]).run();
    assert_eq!(extended.code, 0, "{}", extended.transcript());
    assert_eq!(read_master(&test_env)["current_iteration"], 2);
    let shown = test_env.callboard(&["show", ID]).run();
    assert!(
        shown.stdout.contains("iteration 1") && shown.stdout.contains("iteration 2"),
        "{}",
        shown.transcript()
    );
    let refused = test_env.callboard(&["pause", ID]).run();
    assert_eq!(refused.code, 3, "{}", refused.transcript());
    let limit = test_env.callboard(&["extend", ID, "more", "--max-iterations", "1"]).run();
    assert_eq!(limit.code, 3, "{}", limit.transcript());
    assert!(limit.stderr.contains("cannot extend run"), "{}", limit.transcript());
}

#[test]
fn a_live_engine_shows_a_status_at_once_and_replaces_a_corrupt_master_file() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    test_env.script_agent(&["ra * hang"]);
    let engine = test_env.with_agent(&["cycle", "Add login", "--run-id", ID]).start();
    test_env.agent_log().wait_for_start("ra#1.1");
    wait_for_master(&test_env, "running cycle", |state| state["agents"]["ra"]["status"] == "running");
    assert_eq!(test_env.callboard(&["pause", ID]).run().code, 0);
    wait_for_master(&test_env, "paused cycle", |state| state["status"] == "paused");
    test_env.write(format!(".workflow/.cycle/{ID}.json"), "{ torn");
    wait_for_master(&test_env, "whole file", |state| state["status"] == "paused");
    assert_eq!(test_env.callboard(&["resume", ID]).run().code, 0);
    wait_for_master(&test_env, "running cycle", |state| state["status"] == "running");
    assert_eq!(test_env.callboard(&["stop", ID]).run().code, 0);
    wait_for_master(&test_env, "stopped cycle", |state| state["status"] == "failed");
    let conflict = test_env.callboard(&["pause", ID]).run();
    assert_eq!(conflict.code, 3, "{}", conflict.transcript());
    assert!(conflict.stderr.contains("it has failed"), "{}", conflict.transcript());
    let ended = engine.wait();
    assert_eq!(ended.code, 1, "{}", ended.transcript());
    assert!(ended.stderr.contains("another program changed"), "{}", ended.transcript());
    let quarantined = std::fs::read_dir(test_env.store_dir().join("quarantine").join(ID)).unwrap();
    let quarantined: Vec<_> =
        quarantined.flatten().map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
    assert_eq!(quarantined, ["{ torn"]);
}

/// Each failed write of a view doubles the back-off before the next one, up to a minute. A status that waited for the
/// back-off would miss the deadline of the test.
#[test]
fn a_status_reaches_the_master_file_however_slowly_views_are_written() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    let progress = format!(".workflow/.cycle/{ID}.progress");
    test_env.write(&progress, "in the way of the directory");
    test_env.script_agent(&[
        r#"ra * do extra_fields=', "specification": "FR"'; write_report COMPLETED ok"#,
        "ep * hang",
    ]);
    let engine = test_env.with_agent(&["cycle", "Add login", "--run-id", ID]).start();
    test_env.agent_log().wait_for_start("ep#1.1");
    for _ in 0..5 {
        for (command, status) in [("pause", "paused"), ("resume", "running")] {
            assert_eq!(test_env.callboard(&[command, ID]).run().code, 0);
            wait_for_master(&test_env, status, |state| state["status"] == status);
        }
    }
    std::fs::remove_file(test_env.repo().join(progress)).unwrap();
    assert_eq!(test_env.callboard(&["stop", ID]).run().code, 0);
    assert_eq!(engine.wait().code, 1);
}

#[test]
fn a_conflicting_request_is_refused_with_the_status() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    test_env.script_agent(&["ra * hang"]);
    let engine = test_env.with_agent(&["cycle", "Add login", "--run-id", ID]).start();
    test_env.agent_log().wait_for_start("ra#1.1");
    let refuse = |command: &[&str], status: &str| {
        let refused = test_env.callboard(command).run();
        assert_eq!(refused.code, 3, "{}", refused.transcript());
        assert!(refused.stderr.contains(status), "{}", refused.transcript());
    };
    refuse(&["resume", ID], "it is running");
    refuse(&["resume", ID, "--detach"], "it is running");
    assert_eq!(test_env.callboard(&["pause", ID]).run().code, 0);
    refuse(&["pause", ID], "it is paused");
    assert_eq!(test_env.callboard(&["stop", ID]).run().code, 0);
    assert_eq!(engine.wait().code, 1);
    for command in ["pause", "resume", "stop"] {
        refuse(&[command, ID], "it has failed");
    }
}

#[test]
fn an_agent_that_is_told_to_pause_may_exit_without_a_report() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    test_env.script_agent(&[&format!(
        r#"ra * do if [ -e "$shared/told" ]; then extra_fields=', "specification": "FR"'; write_report COMPLETED ok; else read -r _ <"$shared/barrier"; "$shared/callboard" check-signals {ID} >"$shared/signal"; echo "$?" >"$shared/told"; fi"#
    ), "ep * hang"]);
    let mut barrier = test_env.barrier("barrier");
    let engine = test_env.with_agent(&["cycle", "Add login", "--run-id", ID, "--max-attempts", "1"]).start();
    test_env.agent_log().wait_for_start("ra#1.1");
    assert_eq!(
        test_env.callboard(&["check-signals", ID]).run().stdout,
        "{\"continue\":true,\"action\":\"continue\"}\n"
    );
    assert_eq!(test_env.callboard(&["pause", ID]).run().code, 0);
    barrier.open();
    assert_eq!(test_env.wait_for_lines("told"), "3\n");
    assert_eq!(test_env.wait_for_lines("signal"), "{\"continue\":false,\"action\":\"pause\"}\n");
    assert_eq!(test_env.callboard(&["resume", ID]).run().code, 0);
    test_env.agent_log().wait_for_start("ra#1.2");
    test_env.agent_log().wait_for_start("ep#1.1");
    assert_eq!(test_env.callboard(&["stop", ID]).run().code, 0);
    let ended = engine.wait();
    assert_eq!(ended.code, 1, "{}", ended.transcript());
    let state = read_master(&test_env);
    assert_eq!(
        (&state["status"], &state["failure_reason"]),
        (&json!("failed"), &json!("manually stopped by user"))
    );
}

#[test]
fn a_decision_waits_in_the_inbox() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    test_env.script_agent(&[
        r#"ra * do extra_fields=', "specification": "FR", "decisions": [{"description": "Which database?", "options": ["SQLite", "Postgres"]}]'; write_report COMPLETED ok"#,
        r#"ep * do cp "$PROMPT_PATH" "$shared/prompt"; extra_fields=', "tasks": [{"id": "T", "description": "d"}]'; write_report COMPLETED ok"#,
        r#"cd * do extra_fields=', "tasks_completed": ["T"]'; write_report COMPLETED ok"#,
    ]);
    let waiting = test_env.with_agent(&["cycle", "Add login", "--run-id", ID, "--exit-when-waiting"]).run();
    assert_eq!(waiting.code, 4, "{}", waiting.transcript());
    let inbox = test_env.callboard(&["inbox"]).run();
    assert!(inbox.stdout.contains("Which database?"), "{}", inbox.transcript());
    let answered = test_env.callboard(&["answer", &format!("{ID}/decision.D1"), "choose", "Postgres"]).run();
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    let ended = test_env.callboard(&["resume", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert!(test_env.wait_for_lines("prompt").contains("Which database? → Postgres"));
    assert_eq!(read_master(&test_env)["coordination"]["pending_decisions"][0]["status"], "implemented");
}

#[test]
fn embedded_a_lost_store_is_rebuilt_from_the_files() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    assert_eq!(test_env.callboard(&["cycle", "Add login", "--rehearse", "--run-id", ID]).run().code, 0);
    let before = read_master(&test_env);
    let path = test_env.repo().join(format!(".workflow/.cycle/{ID}.json"));
    std::fs::write(&path, "{ torn").unwrap();
    let restored = test_env.callboard(&["recover", ID]).run();
    assert_eq!(restored.code, 0, "{}", restored.transcript());
    assert_eq!(read_master(&test_env), before, "from the journal it is exact");

    std::fs::remove_dir_all(test_env.store_dir()).unwrap();
    std::fs::write(&path, "{ torn").unwrap();
    let rebuilt = test_env.callboard(&["recover", ID]).run();
    assert_eq!(rebuilt.code, 1, "something is lost: {}", rebuilt.transcript());
    assert!(rebuilt.stderr.contains("lost: decisions and blockers"), "{}", rebuilt.transcript());
    let after = read_master(&test_env);
    assert_eq!((&after["requirements"], &after["changes"]), (&before["requirements"], &before["changes"]));
    assert_eq!(after["plan"]["version"], before["plan"]["version"]);
    assert_eq!((&after["task_history"], &after["title"]), (&before["task_history"], &before["title"]));
    let moved_files = rebuilt.stderr.matches("was moved to").count();
    assert_eq!(moved_files, 1, "only the torn file is replaced: {}", rebuilt.transcript());
    assert!(after.get("found_files").is_none());
    test_env.script_agent(&[
        r#"ra * do extra_fields=', "unchanged": true'; write_report COMPLETED ok"#,
        r#"ep * do extra_fields=', "unchanged": true'; write_report COMPLETED ok"#,
        r#"cd * do extra_fields=', "tasks_completed": ["TASK-001", "TASK-002"], "implementation": "again"'; write_report COMPLETED ok"#,
    ]);
    assert_eq!(after["status"], "completed");
    let ended = test_env.with_agent(&["extend", ID, "Also add logout"]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let history_file = read_progress_file(&test_env, "cd/history/implementation-v1.0.0.md");
    assert!(history_file.contains("v1.0.0"), "history goes on: {history_file}");
}

#[test]
fn a_cycle_of_the_original_is_imported_with_its_times_corrected() {
    let test_env = test_env();
    let original = json!({
        "cycle_id": ID, "title": "T", "description": "D", "task_history": ["D"], "status": "paused",
        "created_at": "2026-01-22T10:00:00.000Z", "max_iterations": 5, "current_iteration": 2,
        "current_phase": "ep", "completed_phases": ["ra"], "convergence": { "profile": "x" },
        "iterations": [{ "number": 1, "completed_at": "2026-01-22T11:00:00Z" }, { "number": 2 }],
    });
    test_env.write(format!(".workflow/.cycle/{ID}.json"), &original.to_string());
    let file = format!(".workflow/.cycle/{ID}.json");
    let import =
        |flag: &[&str]| test_env.callboard(&[&["import", &file, "--times-shifted"], flag].concat()).run();
    let renamed = import(&["--as", "mine"]);
    assert_eq!(renamed.code, 2, "{}", renamed.transcript());
    assert_eq!(import(&["--json"]).json(), json!({ "run": ID, "status": "paused" }));
    let state = read_master(&test_env);
    // The original wrote local times, eight hours ahead, and marked them as UTC.
    assert_eq!(state["created_at"], "2026-01-22T10:00:00+08:00");
    assert_eq!(state["status"], "paused");
    assert_eq!(
        test_env.callboard(&["check-signals", ID]).run().code,
        3,
        "it stays paused until it is resumed"
    );
    assert_eq!(state["convergence"], original["convergence"], "unknown fields are kept");
    test_env.script_agent(&[
        r#"ep * do extra_fields=', "tasks": [{"id": "T", "description": "d"}]'; write_report COMPLETED ok"#,
        r#"cd * do extra_fields=', "tasks_completed": ["T"]'; write_report COMPLETED ok"#,
    ]);
    let ended = test_env.with_agent(&["resume", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(test_env.agent_log().started(), ["ep#2.1", "cd#2.1", "vas#2.1"]);
    assert_eq!(read_master(&test_env)["status"], "completed");
}

#[test]
fn a_cycle_made_from_its_master_file_has_prompts_flags_and_a_limit() {
    let test_env = test_env();
    let master = |id: &str| {
        json!({
            "cycle_id": id, "title": "T", "description": "D", "task_history": ["D"], "status": "running",
            "created_at": "2026-01-22T10:00:00.000Z", "max_iterations": 0, "current_iteration": 0,
            "current_phase": "ra", "completed_phases": [], "iterations": [],
        })
    };
    let file = format!(".workflow/.cycle/{ID}.json");
    test_env.write(&file, &master("cycle-v1-other").to_string());
    let refused = test_env.callboard(&["recover", ID]).run();
    assert_eq!(refused.code, 2, "{}", refused.transcript());
    assert!(refused.stderr.contains("is the file of cycle `cycle-v1-other`"), "{}", refused.transcript());

    test_env.write(&file, &master(ID).to_string());
    test_env.write(".agents/prompts/cycle/ra.md", "Write it in Latin: {{task}}\n");
    test_env.write("site/index.html", "");
    let site = test_env.repo().join("site");
    let recovered = test_env
        .with_agent(&["recover", ID, "--env", "COLOUR=red", "--workdir", site.to_str().unwrap()])
        .run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert_eq!(read_master(&test_env)["max_iterations"], 5);
    test_env.script_agent(&[
        r#"ra * do echo "$COLOUR $PWD" >"$shared/seen"; extra_fields=', "specification": "S"'; write_report COMPLETED ok"#,
        r#"ep * do extra_fields=', "tasks": [{"id": "T", "description": "d"}]'; write_report COMPLETED ok"#,
        r#"cd * do extra_fields=', "tasks_completed": ["T"]'; write_report COMPLETED ok"#,
    ]);
    let ended = test_env.callboard(&["resume", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let seen = std::fs::read_to_string(test_env.agent_dir().join("seen")).unwrap();
    assert_eq!(seen, format!("red {}\n", site.display()));
    let prompt = test_env.callboard(&["prompt", ID, "ra"]).run();
    assert!(prompt.stdout.contains("Write it in Latin: D"), "{}", prompt.transcript());
}

#[test]
fn a_printed_phase_result_is_a_report() {
    let test_env = test_env();
    test_env.write("a", "a\n");
    commit_all(&test_env);
    // As the agents of the original do: they write their files and print a block.
    let progress = format!(".workflow/.cycle/{ID}.progress");
    test_env.script_agent(&[
        &format!(
            r#"ra * do echo 'FR-001: log in' >{progress}/ra/requirements.md; printf 'PHASE_RESULT:\n- phase: ra\n- status: success\n- version: 1.0.0\n- summary: written\n'"#
        ),
        &format!(
            r#"ep * do echo '{{"tasks": [{{"id": "T", "description": "d"}}]}}' >{progress}/ep/plan.json; printf 'PHASE_RESULT:\n- phase: ep\n- status: success\n- task_count: 1\n'"#
        ),
        r#"cd * do printf 'PHASE_RESULT:\n- phase: cd\n- status: success\n- tasks_completed: [T]\n- files_modified: [src/a.rs]\n- issues: []\n'"#,
        r#"vas * do printf 'PHASE_RESULT:\n- phase: vas\n- status: success\n- test_pass_rate: 92%%\n- failed_tests: []\n'"#,
    ]);
    let ended = test_env.with_agent(&["cycle", "Add login", "--run-id", ID]).run();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let state = read_master(&test_env);
    assert_eq!(state["requirements"]["specification"], "FR-001: log in");
    assert_eq!(state["agents"]["ra"]["last_message"], "written", "the block counts beside the file");
    assert_eq!(state["plan"]["tasks"][0]["status"], "completed");
    assert_eq!(state["test_results"]["pass_rate"], 92);
    assert_eq!(state["changes"]["changes"][0]["file"], "src/a.rs");
}
